// The vector kernels, written once over a register type; each instruction set's file gives that type and its own flags.
// Included only by kernels_avx2.cpp and kernels_avx512.cpp. Everything here has internal linkage and no library
// function is called, so that no code compiled with those flags can be linked into the rest of the program.
#pragma once

#include <immintrin.h>

#include "cpu/kernels.h"

namespace gemmatrace::cpu {
namespace {

// --- eight lanes: tails, folds, softmax ---

inline __m256 load8(const float* values) { return _mm256_loadu_ps(values); }
inline __m256 load8(const uint16_t* values) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(values));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
inline float load1(const float* value) { return *value; }
inline float load1(const uint16_t* value) {
    return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(static_cast<int>(static_cast<uint32_t>(*value) << 16))));
}
inline float fma1(float a, float b, float c) {
    return _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(a), _mm_set_ss(b), _mm_set_ss(c)));
}

// Lane k + half added to lane k for halves 4, 2, 1.
inline float fold8(__m256 sums) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

// Nearest bf16, ties to even, kept as floats; NaN stays NaN.
inline __m256 round8(__m256 values) {
    const __m256i bits = _mm256_castps_si256(values);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i bumped = _mm256_add_epi32(bits, _mm256_add_epi32(_mm256_set1_epi32(0x7fff), odd));
    const __m256 rounded =
        _mm256_castsi256_ps(_mm256_and_si256(bumped, _mm256_set1_epi32(static_cast<int>(0xffff0000U))));
    return _mm256_blendv_ps(rounded, values, _mm256_cmp_ps(values, values, _CMP_UNORD_Q));
}
inline float round1(float value) { return _mm256_cvtss_f32(round8(_mm256_set1_ps(value))); }

inline __m256 exp_of_distance8(__m256 distance) {
    const __m256 q =
        _mm256_round_ps(_mm256_mul_ps(distance, _mm256_set1_ps(kLog2E)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m256 r =
        _mm256_fmadd_ps(q, _mm256_set1_ps(-kLn2Low), _mm256_fmadd_ps(q, _mm256_set1_ps(-kLn2High), distance));
    __m256 u = _mm256_set1_ps(kExpPolynomial[0]);
    for (int term = 1; term < 6; ++term) u = _mm256_fmadd_ps(u, r, _mm256_set1_ps(kExpPolynomial[term]));
    const __m256 mantissa = _mm256_add_ps(_mm256_set1_ps(1.0F), _mm256_fmadd_ps(_mm256_mul_ps(r, r), u, r));
    // 2^q in two factors, so that results below the normal range round once
    const __m256i exponent = _mm256_cvtps_epi32(q);
    const __m256i half = _mm256_srai_epi32(exponent, 1);
    const auto power = [](__m256i e) {
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(e, _mm256_set1_epi32(127)), 23));
    };
    const __m256 value = _mm256_mul_ps(_mm256_mul_ps(mantissa, power(half)), power(_mm256_sub_epi32(exponent, half)));
    return _mm256_and_ps(value, _mm256_cmp_ps(distance, _mm256_set1_ps(kExpFloor), _CMP_GE_OQ));
}

inline float exp_of_distance1(float distance) { return _mm256_cvtss_f32(exp_of_distance8(_mm256_set1_ps(distance))); }

inline void softmax_simd(float* scores, int64_t count, bool round) {
    __m256 largest = _mm256_set1_ps(-__builtin_inff());
    for (int64_t index = 0; index < count; index += 8) largest = _mm256_max_ps(largest, load8(scores + index));
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(largest), _mm256_extractf128_ps(largest, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    four = _mm_max_ss(four, _mm_shuffle_ps(four, four, 1));
    largest = _mm256_set1_ps(_mm_cvtss_f32(four));
    __m256 sums = _mm256_setzero_ps();
    for (int64_t index = 0; index < count; index += 8) {
        const __m256 value = exp_of_distance8(_mm256_sub_ps(load8(scores + index), largest));
        _mm256_storeu_ps(scores + index, value);
        sums = _mm256_add_ps(sums, value);
    }
    const __m256 factor = _mm256_set1_ps(1.0F / fold8(sums));
    for (int64_t index = 0; index < count; index += 8) {
        const __m256 value = _mm256_mul_ps(load8(scores + index), factor);
        _mm256_storeu_ps(scores + index, round ? round8(value) : value);
    }
}

// --- products ---

// What dot64 adds for the columns beyond the last multiple of 64.
template <typename Element>
float add_tail(float total, const float* x, const Element* weights, int64_t columns) {
    const int64_t columns64 = columns / 64 * 64;
    const int64_t columns16 = columns / 16 * 16;
    __m256 rest = _mm256_setzero_ps();
    for (int64_t column = columns64; column < columns16; column += 8) {
        rest = _mm256_fmadd_ps(load8(x + column), load8(weights + column), rest);
    }
    total += fold8(rest);
    for (int64_t column = columns16; column < columns; ++column) {
        total = fma1(x[column], load1(weights + column), total);
    }
    return total;
}

// The 64 sums in kGroups registers, register g holding sums [g * width, (g + 1) * width), folded to one.
template <typename V>
float fold64(typename V::Register (&sums)[V::kGroups]) {
    for (int half = V::kGroups / 2; half >= 1; half /= 2) {
        for (int group = 0; group < half; ++group) sums[group] = V::add(sums[group], sums[group + half]);
    }
    return fold8(V::fold_to_8(sums[0]));
}

// One output: a single sequential stream over the weight row, all 64 sums in registers.
template <typename V, typename Element>
float dot64(const float* x, const Element* weights, int64_t columns) {
    typename V::Register sums[V::kGroups];
    for (auto& sum : sums) sum = V::zero();
    const int64_t columns64 = columns / 64 * 64;
    for (int64_t column = 0; column < columns64; column += 64) {
        for (int group = 0; group < V::kGroups; ++group) {
            const int64_t at = column + group * V::kWidth;
            sums[group] = V::fma(V::load(x + at), V::load(weights + at), sums[group]);
        }
    }
    return add_tail(fold64<V>(sums), x, weights, columns);
}

// A tile of outputs over columns [begin, end): one group of sums at a time, each output's sums of that group in one
// register. sums: [kRows, kTokens, 64], where they wait between blocks of columns.
template <typename V, typename Element, int kRows, int kTokens>
void add_block(const float* x, size_t x_stride, const Element* weights, size_t row_stride, int64_t begin, int64_t end,
               float* sums) {
    for (int group = 0; group < V::kGroups; ++group) {
        float* place = sums + group * V::kWidth;
        typename V::Register tile[kRows][kTokens];
        for (int row = 0; row < kRows; ++row) {
            for (int token = 0; token < kTokens; ++token) tile[row][token] = V::load(place + (row * kTokens + token) * 64);
        }
        for (int64_t column = begin + group * V::kWidth; column < end; column += 64) {
            typename V::Register loaded[kRows];
            for (int row = 0; row < kRows; ++row) loaded[row] = V::load(weights + row * row_stride + column);
            for (int token = 0; token < kTokens; ++token) {
                const typename V::Register values = V::load(x + token * x_stride + column);
                for (int row = 0; row < kRows; ++row) tile[row][token] = V::fma(values, loaded[row], tile[row][token]);
            }
        }
        for (int row = 0; row < kRows; ++row) {
            for (int token = 0; token < kTokens; ++token) V::store(place + (row * kTokens + token) * 64, tile[row][token]);
        }
    }
}

// A few rows for a few tokens, tile by tile, a block of columns at a time: what a block reads and adds to stays in the
// first-level cache.
template <typename V, typename Element, int kTokens>
void panel(const float* x, size_t x_stride, const Element* weights, size_t row_stride, int64_t columns, int rows,
           float* out, size_t out_stride, bool round) {
    constexpr int64_t kBlockColumns = 768;
    alignas(64) float sums[V::kPanelRows * kTokens * 64];
    for (int at = 0; at < rows * kTokens * 64; at += V::kWidth) V::store(sums + at, V::zero());
    const int64_t columns64 = columns / 64 * 64;
    for (int64_t begin = 0; begin < columns64; begin += kBlockColumns) {
        const int64_t end = begin + kBlockColumns < columns64 ? begin + kBlockColumns : columns64;
        int row = 0;
        for (; row + V::kTileRows <= rows; row += V::kTileRows) {
            add_block<V, Element, V::kTileRows, kTokens>(x, x_stride, weights + row * row_stride, row_stride, begin,
                                                         end, sums + row * kTokens * 64);
        }
        for (; row < rows; ++row) {
            add_block<V, Element, 1, kTokens>(x, x_stride, weights + row * row_stride, row_stride, begin, end,
                                              sums + row * kTokens * 64);
        }
    }
    for (int row = 0; row < rows; ++row) {
        for (int token = 0; token < kTokens; ++token) {
            typename V::Register groups[V::kGroups];
            for (int group = 0; group < V::kGroups; ++group) {
                groups[group] = V::load(sums + (row * kTokens + token) * 64 + group * V::kWidth);
            }
            const float sum =
                add_tail(fold64<V>(groups), x + token * x_stride, weights + row * row_stride, columns);
            out[token * out_stride + row] = round ? round1(sum) : sum;
        }
    }
}

// out[token * out_stride + row] for rows that lie row_stride apart.
template <typename V, typename Element>
void products(const float* x, size_t x_stride, int32_t tokens, const Element* weights, size_t row_stride,
              int64_t columns, int64_t rows, float* out, size_t out_stride, bool round) {
    int count = 0;
    for (int64_t row = 0; row < rows; row += count) {
        count = rows - row < V::kPanelRows ? static_cast<int>(rows - row) : V::kPanelRows;
        const Element* block = weights + row * row_stride;
        int32_t token = 0;
        for (; token + V::kTileTokens <= tokens; token += V::kTileTokens) {
            panel<V, Element, V::kTileTokens>(x + token * x_stride, x_stride, block, row_stride, columns, count,
                                              out + token * out_stride + row, out_stride, round);
        }
        for (; token + 2 <= tokens; token += 2) {
            panel<V, Element, 2>(x + token * x_stride, x_stride, block, row_stride, columns, count,
                                 out + token * out_stride + row, out_stride, round);
        }
        for (; token < tokens; ++token) {
            for (int at = 0; at < count; ++at) {
                const float sum = dot64<V>(x + token * x_stride, block + at * row_stride, columns);
                out[token * out_stride + row + at] = round ? round1(sum) : sum;
            }
        }
    }
}

template <typename V, typename Element>
void linear_simd(const float* x, size_t x_stride, int32_t tokens, const Element* weights, int64_t columns,
                 int64_t row_begin, int64_t row_end, float* out, size_t out_stride, bool round) {
    products<V, Element>(x, x_stride, tokens, weights + row_begin * columns, static_cast<size_t>(columns), columns,
                         row_end - row_begin, out + row_begin, out_stride, round);
}

// --- attention ---

template <typename V, typename Element>
void scores_simd(const float* q, int32_t heads, const Element* keys, size_t key_stride, int64_t count,
                 int32_t head_dim, float* out, size_t out_stride, bool round) {
    products<V, Element>(q, static_cast<size_t>(head_dim), heads, keys, key_stride, head_dim, count, out, out_stride,
                         round);
}

// The four sums of kHeads heads and kRegisters registers' worth of columns, over all keys.
template <typename V, typename Element, int kHeads, int kRegisters>
void accumulate_columns(const float* probabilities, size_t stride, const Element* values, size_t value_stride,
                        int64_t count, int32_t head_dim, int64_t first_position, float* sums) {
    using Register = typename V::Register;
    Register block[4][kHeads][kRegisters];
    const auto place = [&](int sum, int head, int part) {
        return sums + (head * 4 + sum) * head_dim + part * V::kWidth;
    };
    for (int sum = 0; sum < 4; ++sum) {
        for (int head = 0; head < kHeads; ++head) {
            for (int part = 0; part < kRegisters; ++part) block[sum][head][part] = V::load(place(sum, head, part));
        }
    }
    const auto add_key = [&](int64_t key, Register(&sum)[kHeads][kRegisters]) {
        Register value[kRegisters];
        for (int part = 0; part < kRegisters; ++part) {
            value[part] = V::load(values + key * value_stride + part * V::kWidth);
        }
        for (int head = 0; head < kHeads; ++head) {
            const Register probability = V::broadcast(probabilities[head * stride + key]);
            for (int part = 0; part < kRegisters; ++part) {
                sum[head][part] = V::fma(probability, value[part], sum[head][part]);
            }
        }
    };
    int64_t key = 0;
    for (; key < count && (first_position + key) % 4 != 0; ++key) add_key(key, block[(first_position + key) % 4]);
    for (; key + 4 <= count; key += 4) {
        add_key(key, block[0]);
        add_key(key + 1, block[1]);
        add_key(key + 2, block[2]);
        add_key(key + 3, block[3]);
    }
    for (; key < count; ++key) add_key(key, block[(first_position + key) % 4]);
    for (int sum = 0; sum < 4; ++sum) {
        for (int head = 0; head < kHeads; ++head) {
            for (int part = 0; part < kRegisters; ++part) V::store(place(sum, head, part), block[sum][head][part]);
        }
    }
}

// All columns of kHeads heads, kRegisters registers at a time.
template <typename V, typename Element, int kHeads, int kRegisters>
void accumulate_heads(const float* probabilities, size_t stride, const Element* values, size_t value_stride,
                      int64_t count, int32_t head_dim, int64_t first_position, float* sums) {
    constexpr int kBlock = kRegisters * V::kWidth;
    int32_t column = 0;
    for (; column + kBlock <= head_dim; column += kBlock) {
        accumulate_columns<V, Element, kHeads, kRegisters>(probabilities, stride, values + column, value_stride, count,
                                                           head_dim, first_position, sums + column);
    }
    for (; column + V::kWidth <= head_dim; column += V::kWidth) {
        accumulate_columns<V, Element, kHeads, 1>(probabilities, stride, values + column, value_stride, count,
                                                  head_dim, first_position, sums + column);
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
    int32_t head = 0;
    const auto sums_of = [&] { return sums + static_cast<int64_t>(head) * 4 * head_dim; };
    for (; head + V::kSumHeads <= heads; head += V::kSumHeads) {
        accumulate_heads<V, Element, V::kSumHeads, 1>(probabilities + head * stride, stride, values, value_stride,
                                                      count, head_dim, first_position, sums_of());
    }
    for (; head < heads; ++head) {
        accumulate_heads<V, Element, 1, V::kSumRegisters>(probabilities + head * stride, stride, values, value_stride,
                                                          count, head_dim, first_position, sums_of());
    }
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
