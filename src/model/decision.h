// The greedy decision, defined exactly where the reference takes it (gemma4.md 2.8), and the final soft cap.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/precision.h"

namespace gemmatrace::model {

// The cap on one logit: cap * tanh(logit / cap), in bf16 rounded after the division, the tanh and the product.
float softcapped(float logit, double softcap, Precision precision);

// The id that greedy decoding takes. logits: [vocab_size], before the cap. fp32: the largest logit, lowest id on ties.
// bf16: the largest capped and rounded logit, lowest id on ties, found without a tanh over the vocabulary (the cap is
// monotone). suppressed ids (ascending order not needed) never win. Throws Error(internal) if any logit is NaN, naming
// its id, or if every id is suppressed.
int32_t greedy_token(std::span<const float> logits, std::optional<double> softcap, Precision precision,
                     std::span<const int32_t> suppressed);

// The bf16 logits, ascending, at which the capped and rounded value changes; the first is the lowest finite one. The
// largest of them not above a logit is the smallest logit with the same capped value.
std::vector<float> cap_thresholds(double softcap);

}  // namespace gemmatrace::model
