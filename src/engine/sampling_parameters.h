// How the next token is chosen, as a request says it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace gemmatrace::engine {

// temperature 0 is greedy: the reference's decision rule (model/decision.h); filters and seed then mean nothing.
struct SamplingParameters {
    double temperature = 0.0;
    int32_t top_k = 0;   // 0: no limit
    double top_p = 1.0;  // 1: no limit
    double min_p = 0.0;  // 0: no limit
    uint64_t seed = 0;

    // These change capped logits, in greedy too.
    double frequency_penalty = 0.0;   // taken off once for each time the token was generated (OpenAI)
    double presence_penalty = 0.0;    // taken off once if the token was generated (OpenAI)
    double repetition_penalty = 1.0;  // divides positive, multiplies negative logits of tokens of prompt and reply
                                      // (RepetitionPenaltyLogitsProcessor of Transformers)
    std::vector<std::pair<int32_t, float>> logit_bias = {};  // added, last of all
};

}  // namespace gemmatrace::engine
