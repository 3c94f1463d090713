// One request from prompt ids to generated ids: sampling, stops and limits, over any backend.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "engine/backend.h"
#include "engine/finish_reason.h"
#include "engine/sampling_parameters.h"

namespace gemmatrace::engine {

struct GenerationRequest {
    std::vector<int32_t> prompt_ids;  // run at the end of the slot, which may hold the tokens before them
    int64_t max_tokens = 256;
    SamplingParameters sampling;
    std::vector<int32_t> stop_ids;      // generation ends before one of these is added
    std::vector<int32_t> suppress_ids;  // never chosen, in greedy too
    int32_t top_logits = 0;             // record the K best pre-softcap logits of each step
    std::function<bool()> should_stop;  // asked between chunks of the prompt and between tokens; may be null
};

struct GenerationResult {
    std::vector<int32_t> token_ids;  // without the stop token
    FinishReason finish_reason = FinishReason::length;
    std::optional<int32_t> stop_id;                                  // the stop token that ended it
    std::vector<std::vector<std::pair<int32_t, float>>> top_logits;  // [step][k], best first, lowest id on ties
    double prefill_seconds = 0.0;                                    // until the logits of the last prompt token
    double decode_seconds = 0.0;                                     // all that came after
};

// Throws Error(too_long) with all numbers when prompt and max_tokens together are more than the context holds.
void check_context(int64_t prompt_tokens, int64_t max_tokens, int64_t context_tokens);

// Generates until a stop id, max_tokens, on_token answering false, or should_stop. on_token is called with each new id
// and answers false to stop (a stop string matched, or the user interrupted); a null function means never. Afterwards
// the slot holds what it held, the prompt and the generated tokens except the last one, which had no need to be run
// (fewer when cancelled: the slot's length says how many). The top logits of the step that chose a stop id are recorded
// too. Throws Error(bad_request) for an empty prompt or an id outside the vocabulary, Error(too_long) with both numbers
// when prompt and max_tokens do not fit the slot; the slot is unchanged then.
GenerationResult generate(Backend& backend, int32_t slot, const GenerationRequest& request,
                          const std::function<bool(int32_t)>& on_token);

}  // namespace gemmatrace::engine
