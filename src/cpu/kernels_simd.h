// The vector kernels, written once over a register type; each instruction set's file gives that type and its own flags.
// Included only by kernels_avx2.cpp and kernels_avx512.cpp.
#pragma once

#include <immintrin.h>

#include "cpu/kernels.h"
#include "cpu/kernels_simd_lanes.h"
#include "cpu/kernels_simd_product.h"

namespace gemmatrace::cpu {
namespace {

// --- attention ---

// One register for each of a few heads.
template <typename V, int kHeads>
struct OfHeads {
    typename V::Register sums[kHeads];
};

// kHeads query rows times one key: groups kGroup + n * kStep of their 64 sums, folded to one group. Those that are
// folded first meet first, so that few registers are alive.
template <typename V, typename Element, int kHeads, int kGroup, int kStep>
[[gnu::always_inline]] inline OfHeads<V, kHeads> fold_groups(const float* q, int64_t head_dim, const Element* key) {
    OfHeads<V, kHeads> result;
    if constexpr (kStep == V::kGroups) {
        for (auto& sum : result.sums) sum = V::zero();
        const int64_t columns64 = head_dim / 64 * 64;
        for (int64_t column = kGroup * V::kWidth; column < columns64; column += 64) {
            const typename V::Register loaded = V::load(key + column);
            for (int head = 0; head < kHeads; ++head) {
                result.sums[head] = V::fma(V::load(q + head * head_dim + column), loaded, result.sums[head]);
            }
        }
    } else {
        result = fold_groups<V, Element, kHeads, kGroup, 2 * kStep>(q, head_dim, key);
        const auto upper = fold_groups<V, Element, kHeads, kGroup + kStep, 2 * kStep>(q, head_dim, key);
        for (int head = 0; head < kHeads; ++head) result.sums[head] = V::add(result.sums[head], upper.sums[head]);
    }
    return result;
}

template <typename V, typename Element, int kHeads>
void scores_of_heads(const float* q, const Element* keys, size_t key_stride, int64_t count, int32_t head_dim,
                     float* out, size_t out_stride, bool round) {
    float folded[kHeads][8][8];
    for (int64_t first = 0; first < count; first += 8) {
        const int some = count - first < 8 ? static_cast<int>(count - first) : 8;
        for (int key = 0; key < some; ++key) {
            const auto of_key = fold_groups<V, Element, kHeads, 0, 1>(q, head_dim, keys + (first + key) * key_stride);
            for (int head = 0; head < kHeads; ++head) {
                _mm256_storeu_ps(folded[head][key], V::fold_to_8(of_key.sums[head]));
            }
        }
        for (int head = 0; head < kHeads; ++head) {
            float* scores = out + head * out_stride + first;
            if (some == 8 && head_dim % 64 == 0) {
                // add_tail would add a zero, which makes a negative one positive
                const __m256 sums = _mm256_add_ps(fold8_of_8(folded[head][0]), _mm256_setzero_ps());
                _mm256_storeu_ps(scores, round ? round8(sums) : sums);
                continue;
            }
            for (int key = 0; key < some; ++key) {
                const float sum = add_tail(fold8(load8(folded[head][key])), q + head * head_dim,
                                           keys + (first + key) * key_stride, head_dim);
                scores[key] = round ? round1(sum) : sum;
            }
        }
    }
}

template <typename V, typename Element>
void scores_simd(const float* q, int32_t heads, const Element* keys, size_t key_stride, int64_t count, int32_t head_dim,
                 float* out, size_t out_stride, bool round) {
    const auto some = [&](auto kernel, int32_t head) {
        kernel(q + static_cast<int64_t>(head) * head_dim, keys, key_stride, count, head_dim, out + head * out_stride,
               out_stride, round);
    };
    int32_t head = 0;
    for (; head + 4 <= heads; head += 4) some(scores_of_heads<V, Element, 4>, head);
    for (; head + 2 <= heads; head += 2) some(scores_of_heads<V, Element, 2>, head);
    for (; head < heads; ++head) some(scores_of_heads<V, Element, 1>, head);
}

// The four sums of kHeads heads and kRegisters registers' worth of columns, over all keys: one sum after the other,
// each over every fourth key.
template <typename V, typename Element, int kHeads, int kRegisters>
void accumulate_columns(const float* probabilities, size_t stride, const Element* values, size_t value_stride,
                        int64_t count, int32_t head_dim, int64_t first_position, float* sums) {
    using Register = typename V::Register;
    for (int sum = 0; sum < 4; ++sum) {
        float* place = sums + sum * head_dim;
        Register block[kHeads][kRegisters];
        for (int head = 0; head < kHeads; ++head) {
            for (int part = 0; part < kRegisters; ++part) {
                block[head][part] = V::load(place + head * 4 * head_dim + part * V::kWidth);
            }
        }
        for (int64_t key = (sum - first_position % 4 + 4) % 4; key < count; key += 4) {
            Register value[kRegisters];
            for (int part = 0; part < kRegisters; ++part) {
                value[part] = V::load(values + key * value_stride + part * V::kWidth);
            }
            for (int head = 0; head < kHeads; ++head) {
                const Register probability = V::broadcast(probabilities[head * stride + key]);
                for (int part = 0; part < kRegisters; ++part) {
                    block[head][part] = V::fma(probability, value[part], block[head][part]);
                }
            }
        }
        for (int head = 0; head < kHeads; ++head) {
            for (int part = 0; part < kRegisters; ++part) {
                V::store(place + head * 4 * head_dim + part * V::kWidth, block[head][part]);
            }
        }
    }
}

// All columns of kHeads heads, as many registers at a time as give eight sums.
template <typename V, typename Element, int kHeads>
void accumulate_heads(const float* probabilities, size_t stride, const Element* values, size_t value_stride,
                      int64_t count, int32_t head_dim, int64_t first_position, float* sums) {
    constexpr int kRegisters = 8 / kHeads;
    constexpr int kBlock = kRegisters * V::kWidth;
    int32_t column = 0;
    for (; column + kBlock <= head_dim; column += kBlock) {
        accumulate_columns<V, Element, kHeads, kRegisters>(probabilities, stride, values + column, value_stride, count,
                                                           head_dim, first_position, sums + column);
    }
    for (; column + V::kWidth <= head_dim; column += V::kWidth) {
        accumulate_columns<V, Element, kHeads, 1>(probabilities, stride, values + column, value_stride, count, head_dim,
                                                  first_position, sums + column);
    }
    for (; column < head_dim; ++column) {
        for (int head = 0; head < kHeads; ++head) {
            for (int64_t key = 0; key < count; ++key) {
                float* sum = sums + (head * 4 + (first_position + key) % 4) * head_dim + column;
                *sum = fma1(probabilities[head * stride + key], load1(values + key * value_stride + column), *sum);
            }
        }
    }
}

// A few heads share the reading of a value row.
template <typename V, typename Element>
void accumulate_simd(const float* probabilities, size_t stride, int32_t heads, const Element* values,
                     size_t value_stride, int64_t count, int32_t head_dim, int64_t first_position, float* sums) {
    const auto some = [&](auto kernel, int32_t head) {
        kernel(probabilities + head * stride, stride, values, value_stride, count, head_dim, first_position,
               sums + static_cast<int64_t>(head) * 4 * head_dim);
    };
    int32_t head = 0;
    for (; head + 4 <= heads; head += 4) some(accumulate_heads<V, Element, 4>, head);
    for (; head + 2 <= heads; head += 2) some(accumulate_heads<V, Element, 2>, head);
    for (; head < heads; ++head) some(accumulate_heads<V, Element, 1>, head);
}

template <typename V>
constexpr Kernels simd_table() {
    return {linear_simd<V, uint16_t>,
            linear_simd<V, float>,
            scores_simd<V, uint16_t>,
            scores_simd<V, float>,
            accumulate_simd<V, uint16_t>,
            accumulate_simd<V, float>,
            softmax_simd,
            exp_of_distance1};
}

}  // namespace
}  // namespace gemmatrace::cpu
