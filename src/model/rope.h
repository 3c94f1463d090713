// Angles of the rotary embedding as the reference computes them, in fp32 (gemma4.md 2.3, 2.10).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/config.h"
#include "model/precision.h"

namespace gemmatrace::model {

// Angle per position of each of the head_dim / 2 pairs of a head; 0 for pairs that do not turn.
std::vector<float> inverse_frequencies(const checkpoint::RopeSpec& rope, int32_t head_dim);

// Cosines and sines of one position, [head_dim] each: the pair's value at i and again at i + head_dim / 2, rounded to
// bf16 in that precision.
void rope_row(std::span<const float> inverse_frequencies, int64_t position, Precision precision,
              std::span<float> cosines, std::span<float> sines);

}  // namespace gemmatrace::model
