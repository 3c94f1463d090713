// The inner loops in their fixed order of summation, one table of them for each instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/isa.h"

namespace gemmatrace::cpu {

// Memory that products of several tokens work in.
inline constexpr int32_t kProductSlab = 64;       // tokens that are laid out at once
inline constexpr int32_t kProductRows = 12;       // weight rows that are
inline constexpr int64_t kProductColumns = 3072;  // of those rows

// In floats.
inline constexpr size_t product_scratch(int32_t tokens, int64_t columns) {
    if (tokens == 1) return 0;
    const auto count = static_cast<size_t>(tokens < kProductSlab ? tokens : kProductSlab);
    const auto columns64 = static_cast<size_t>(columns / 64 * 64);
    const auto block = static_cast<size_t>(columns < kProductColumns ? columns : kProductColumns);
    return kProductRows * count * 64 + count * columns64 + kProductRows * block;
}

// Every table computes the same bits (tests/cpu/kernels_test.cpp). Orders are those of gemma4.md 2.10:
//
// dot64, for `linear` and `scores`: 64 interleaved fp32 sums, element k in sum k mod 64, folded 32, 16, 8, 4, 2, 1;
// columns beyond the last multiple of 64 in groups of 16 into 8 further sums (k mod 8), folded and added; the last
// columns mod 16 one by one. Steps are fused multiply-adds: a product of two bf16 is exact in fp32, so in bf16 they
// equal a multiplication and an addition.
struct Kernels {
    // out[token * out_stride + row] = dot64(weight row, x row) for rows [row_begin, row_end); rounded to bf16 if asked.
    // x: [tokens, x_stride] floats; weights: [rows, columns], row-major; scratch: product_scratch(tokens, columns)
    // floats that nobody else uses, best at a multiple of 64 bytes.
    void (*linear_bf16)(const float* x, size_t x_stride, int32_t tokens, const uint16_t* weights, int64_t columns,
                        int64_t row_begin, int64_t row_end, float* out, size_t out_stride, bool round, float* scratch);
    void (*linear_f32)(const float* x, size_t x_stride, int32_t tokens, const float* weights, int64_t columns,
                       int64_t row_begin, int64_t row_end, float* out, size_t out_stride, bool round, float* scratch);

    // out[head * out_stride + key] = dot64(q row, key row) for `count` keys, key_stride elements apart, and `heads`
    // query heads that read them, side by side; rounded to bf16 if asked.
    void (*scores_bf16)(const float* q, int32_t heads, const uint16_t* keys, size_t key_stride, int64_t count,
                        int32_t head_dim, float* out, size_t out_stride, bool round);
    void (*scores_f32)(const float* q, int32_t heads, const float* keys, size_t key_stride, int64_t count,
                       int32_t head_dim, float* out, size_t out_stride, bool round);

    // Adds probabilities[head * stride + key] * value row of `count` keys to sums [heads, 4, head_dim]; the key at
    // absolute position p goes to sum p mod 4, and first_position is that of the first key.
    void (*accumulate_bf16)(const float* probabilities, size_t stride, int32_t heads, const uint16_t* values,
                            size_t value_stride, int64_t count, int32_t head_dim, int64_t first_position, float* sums);
    void (*accumulate_f32)(const float* probabilities, size_t stride, int32_t heads, const float* values,
                           size_t value_stride, int64_t count, int32_t head_dim, int64_t first_position, float* sums);

    // Softmax in place over `count` scores (a multiple of 8; pad with minus infinity): exp of the distance to the
    // maximum, 8 interleaved sums (index mod 8) folded 4, 2, 1, times the reciprocal; rounded to bf16 if asked.
    void (*softmax)(float* scores, int64_t count, bool round);

    // The exp that softmax uses, of one distance to the maximum (0 or less).
    float (*exp_of_distance)(float distance);
};

// The table of an instruction set; the machine must have it (isa.h).
const Kernels& kernels(Isa isa);

// Tables by file; null when the build has no such file (another architecture).
const Kernels* scalar_kernels();
const Kernels* avx2_kernels();
const Kernels* avx512_kernels();

// The largest |distance| below which exp is not 0, and the constants of the reference's exp (SLEEF's, through torch):
// exp(d) = 2^q * (1 + fma(r^2, u, r)), q = rint(d * log2 e), r = d - q ln 2 in two parts, u a polynomial in r.
inline constexpr float kExpFloor = -104.0F;
inline constexpr float kLog2E = 1.4426950408889634F;
inline constexpr float kLn2High = 0.693145751953125F;
inline constexpr float kLn2Low = 1.428606765330187045e-06F;
inline constexpr float kExpPolynomial[6] = {0.000198527617612853646278381F, 0.00139304355252534151077271F,
                                            0.00833336077630519866943359F,  0.0416664853692054748535156F,
                                            0.166666671633720397949219F,    0.5F};

}  // namespace gemmatrace::cpu
