// Arithmetic of single rows outside the matrix products, in the reference's order (gemma4.md 2.10).
#pragma once

#include <cstdint>
#include <span>

#include "model/precision.h"

namespace gemmatrace::cpu {

// Sum of the values in the order of torch's vectorised fp32 sum: 8-wide vectors dealt to 4 sums, each spilled to a
// second level after every 16 rounds, to a third after 256; then levels, left-over vectors, sums, left-over elements
// and lanes. Fewer than 8 values are dealt to 4 sums (left-over ones to the first), added in order.
float sum_in_reference_order(std::span<const float> values);

// Sum of a token's products over its experts, best first, as torch sums over a dimension that is not the last: in
// order, spilled to a second level after every 16; in the columns beyond the last multiple of 32 dealt to 4 sums.
float sum_over_experts(std::span<const float> products, bool is_left_over_column);

// out = R(x / sqrt(mean(x^2) + eps) * weight); weight may be empty. scratch: as long as x. out may be x.
void rms_norm_row(std::span<const float> x, std::span<const float> weight, float eps, bool round,
                  std::span<float> scratch, float* out);

// out = R(R(x cos) + R(rotate_half(x) sin)) of one head.
void rope_head(const float* x, std::span<const float> cosines, std::span<const float> sines, bool round, float* out);

// out = R(R(gelu_tanh(gate)) * up). In bf16 the gelu is a table over all 65,536 inputs; columns from vector_count on
// take the form in which the reference evaluates left-over elements.
void gelu_mul_row(const float* gate, const float* up, int64_t count, int64_t vector_count, bool round, float* out);

// gelu in its tanh form, fp32. The reference's vector tanh is exactly 1 beyond 8.664, its scalar one is not: after
// rounding to bf16 that shows in four inputs near -5.1.
float gelu_tanh(float x);
float gelu_tanh_left_over(float x);

// The top_k largest probabilities, best first, ties as torch.topk leaves them on libstdc++ (gemma4.md 2.4).
// order: [top_k] expert ids out.
void top_experts(std::span<const float> probabilities, std::span<int32_t> order);

}  // namespace gemmatrace::cpu
