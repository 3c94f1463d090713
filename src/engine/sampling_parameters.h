// How the next token is chosen, as a request says it.
#pragma once

#include <cstdint>

namespace gemmatrace::engine {

// temperature 0 is greedy: the reference's decision rule (model/decision.h); the other fields then mean nothing.
struct SamplingParameters {
    double temperature = 0.0;
    int32_t top_k = 0;   // 0: no limit
    double top_p = 1.0;  // 1: no limit
    double min_p = 0.0;  // 0: no limit
    uint64_t seed = 0;
};

}  // namespace gemmatrace::engine
