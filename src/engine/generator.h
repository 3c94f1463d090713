// One request from prompt ids to generated ids: sampling, stops and limits, over any runner of the model.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cpu/runner.h"

namespace gemmatrace::engine {

// How the next token is chosen. temperature 0 is greedy: the reference's decision rule (model/decision.h).
struct SamplingParameters {
    double temperature = 0.0;
    int32_t top_k = 0;    // 0: no limit
    double top_p = 1.0;
    double min_p = 0.0;
    uint64_t seed = 0;
};

struct GenerationRequest {
    std::vector<int32_t> prompt_ids;
    int64_t max_tokens = 256;
    SamplingParameters sampling;
    std::vector<int32_t> stop_ids;        // generation ends before one of these is added
    std::vector<int32_t> suppress_ids;    // never chosen, in greedy too
    int32_t top_logits = 0;               // record the K best pre-softcap logits of each step
};

enum class FinishReason { stop, length, cancelled };

struct GenerationResult {
    std::vector<int32_t> token_ids;       // without the stop token
    FinishReason finish_reason = FinishReason::length;
    std::optional<int32_t> stop_id;       // the stop token that ended it
    std::vector<std::vector<std::pair<int32_t, float>>> top_logits;  // [step][k], best first, lowest id on ties
    double prefill_seconds = 0.0;
    double decode_seconds = 0.0;
};

// on_token is called with each new id and answers false to stop (a stop string matched, or the user interrupted);
// a null function means never. Throws Error(bad_request) for an empty prompt or an id outside the vocabulary,
// Error(too_long) with both numbers when prompt and max_tokens do not fit the model.
GenerationResult generate(cpu::Runner& runner, cpu::Slot& slot, const GenerationRequest& request,
                          const std::function<bool(int32_t)>& on_token);

}  // namespace gemmatrace::engine
