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

// --- products of several tokens ---
//
// Weights come from memory once, kPanelRows rows at a time, and are laid out anew in the order in which tiles read them:
// what one step adds to one group of sums lies side by side. So are the tokens. A tile keeps one group of the sums of
// its outputs in registers; each output still adds its 64 sums in their order.

// Of a block, what a group of a panel's sums reads stays in the first-level cache.
constexpr int64_t kBlockColumns = kProductColumns;

// Tiles are whole first, then smaller.
template <typename V>
int tile_tokens(int32_t left) {
    return left >= V::kTileTokens ? V::kTileTokens : left >= 2 ? 2 : 1;
}
template <typename V>
int tile_rows(int32_t left) {
    return left >= V::kTileRows ? V::kTileRows : 1;
}

// `columns` of kCount rows, which lie `stride` apart, as [group][step][row][width].
template <typename V, typename Element, int kCount>
void lay_out(const Element* rows, size_t stride, int64_t columns, Element* out) {
    const int64_t group_size = columns / V::kGroups * kCount;
    for (int row = 0; row < kCount; ++row) {
        const Element* from = rows + row * stride;
        Element* to = out + row * V::kWidth;
        for (int64_t column = 0; column < columns; column += 64, from += 64, to += kCount * V::kWidth) {
            for (int group = 0; group < V::kGroups; ++group) {
                __builtin_memcpy(to + group * group_size, from + group * V::kWidth, V::kWidth * sizeof(Element));
            }
        }
    }
}

// Adds to one group of the sums of kRows x kTokens outputs, [kRows, kTokens, 64], or begins it.
template <typename V, typename Element, int kRows, int kTokens>
void add_tile(const float* x, const Element* weights, int64_t steps, bool begins, float* sums) {
    typename V::Register tile[kRows][kTokens];
    for (int row = 0; row < kRows; ++row) {
        for (int token = 0; token < kTokens; ++token) {
            tile[row][token] = begins ? V::zero() : V::load(sums + (row * kTokens + token) * 64);
        }
    }
    for (int64_t step = 0; step < steps; ++step) {
        typename V::Register loaded[kRows];
        for (int row = 0; row < kRows; ++row) loaded[row] = V::load(weights + (step * kRows + row) * V::kWidth);
        for (int token = 0; token < kTokens; ++token) {
            const typename V::Register values = V::load(x + (step * kTokens + token) * V::kWidth);
            for (int row = 0; row < kRows; ++row) tile[row][token] = V::fma(values, loaded[row], tile[row][token]);
        }
    }
    for (int row = 0; row < kRows; ++row) {
        for (int token = 0; token < kTokens; ++token) V::store(sums + (row * kTokens + token) * 64, tile[row][token]);
    }
}

template <typename V, typename Element, int kRows>
void add_tile(int tokens, const float* x, const Element* weights, int64_t steps, bool begins, float* sums) {
    if (tokens == V::kTileTokens) {
        add_tile<V, Element, kRows, V::kTileTokens>(x, weights, steps, begins, sums);
    } else if (tokens == 2) {
        add_tile<V, Element, kRows, 2>(x, weights, steps, begins, sums);
    } else {
        add_tile<V, Element, kRows, 1>(x, weights, steps, begins, sums);
    }
}

// What is laid out next: pieces of rows, asked for a little with each tile.
struct Ahead {
    const char* at = nullptr;
    const char* end = nullptr;  // of the row at hand
    int rows = 0;               // this one and those after it
    int64_t bytes = 0;          // of a row
    int64_t stride = 0;
    int64_t share = 0;

    void ask() {
        if (rows == 0) return;
        const char* until = end - at > share ? at + share : end;
        for (; at < until; at += 64) _mm_prefetch(at, _MM_HINT_T0);
        if (at < end) return;
        end += stride;
        at = end - bytes;
        --rows;
    }
};

template <typename V, typename Element>
struct Product {
    static constexpr int kChunkTokens = 2 * V::kTileTokens;
    static_assert(V::kPanelRows == kProductRows);

    const float* x;
    size_t x_stride;
    int32_t tokens;
    const Element* weights;
    size_t row_stride;
    int64_t columns;
    int64_t columns64;
    float* out;
    size_t out_stride;
    bool round;
    float* sums;    // [kPanelRows, tokens, 64], tile by tile
    float* laid_x;  // [tokens, columns64], tile by tile, in each block by block
    Element* laid;  // [kPanelRows, kBlockColumns], tile by tile

    void lay_out_tokens() {
        for (int32_t token = 0, wide = 0; token < tokens; token += wide) {
            wide = tile_tokens<V>(tokens - token);
            for (int64_t block = 0; block < columns64; block += kBlockColumns) {
                const float* from = x + token * x_stride + block;
                float* to = laid_x + token * columns64 + block * wide;
                if (wide == V::kTileTokens) {
                    lay_out<V, float, V::kTileTokens>(from, x_stride, size_of(block), to);
                } else if (wide == 2) {
                    lay_out<V, float, 2>(from, x_stride, size_of(block), to);
                } else {
                    lay_out<V, float, 1>(from, x_stride, size_of(block), to);
                }
            }
        }
    }

    void lay_out_rows(const Element* from, int rows, int64_t size) {
        for (int row = 0, high = 0; row < rows; row += high) {
            high = tile_rows<V>(rows - row);
            if (high == V::kTileRows) {
                lay_out<V, Element, V::kTileRows>(from + row * row_stride, row_stride, size, laid + row * size);
            } else {
                lay_out<V, Element, 1>(from + row * row_stride, row_stride, size, laid + row * size);
            }
        }
    }

    // To the sums of a panel's rows and tokens [begin, end), what a block gives.
    void add_chunk(int32_t begin, int32_t end, int rows, int64_t block, Ahead& ahead) {
        const int64_t size = size_of(block);
        for (int group = 0; group < V::kGroups; ++group) {
            const int64_t skipped = size / V::kGroups * group;
            for (int row = 0, high = 0; row < rows; row += high) {
                high = tile_rows<V>(rows - row);
                const Element* tile_weights = laid + row * size + skipped * high;
                for (int32_t token = begin, wide = 0; token < end; token += wide) {
                    wide = tile_tokens<V>(end - token);
                    ahead.ask();
                    const float* tile_x = laid_x + token * columns64 + (block + skipped) * wide;
                    float* tile = tile_sums(row, high, token) + group * V::kWidth;
                    if (high == V::kTileRows) {
                        add_tile<V, Element, V::kTileRows>(wide, tile_x, tile_weights, size / 64, block == 0, tile);
                    } else {
                        add_tile<V, Element, 1>(wide, tile_x, tile_weights, size / 64, block == 0, tile);
                    }
                }
            }
        }
    }

    void finish_rows(int64_t first, int rows) {
        for (int row = 0, high = 0; row < rows; row += high) {
            high = tile_rows<V>(rows - row);
            for (int32_t token = 0, wide = 0; token < tokens; token += wide) {
                wide = tile_tokens<V>(tokens - token);
                const float* tile = tile_sums(row, high, token);
                for (int at = 0; at < high; ++at) {
                    for (int beside = 0; beside < wide; ++beside, tile += 64) {
                        finish(tile, token + beside, first + row + at);
                    }
                }
            }
        }
    }

    void finish(const float* of_output, int32_t token, int64_t row) {
        float sum = 0.0F;
        if (columns64 > 0) {
            typename V::Register groups[V::kGroups];
            for (int group = 0; group < V::kGroups; ++group) groups[group] = V::load(of_output + group * V::kWidth);
            sum = fold64<V>(groups);
        }
        // Without further columns add_tail adds a zero, which makes a negative one positive.
        sum = columns64 == columns ? sum + 0.0F
                                   : add_tail(sum, x + token * x_stride, weights + row * row_stride, columns);
        out[token * out_stride + row] = round ? round1(sum) : sum;
    }

    void run(int64_t rows) {
        lay_out_tokens();
        int count = 0;
        for (int64_t row = 0; row < rows; row += count) {
            count = panel_rows(rows - row);
            for (int64_t block = 0; block < columns64; block += kBlockColumns) {
                lay_out_rows(weights + row * row_stride + block, count, size_of(block));
                const bool is_last = block + kBlockColumns >= columns64;
                Ahead ahead = is_last ? ahead_of(row + count, panel_rows(rows - row - count), 0)
                                      : ahead_of(row, count, block + kBlockColumns);
                for (int32_t token = 0; token < tokens; token += kChunkTokens) {
                    add_chunk(token, token + kChunkTokens < tokens ? token + kChunkTokens : tokens, count, block,
                              ahead);
                }
            }
            finish_rows(row, count);
        }
    }

    Ahead ahead_of(int64_t first, int rows, int64_t block) const {
        const auto* at = reinterpret_cast<const char*>(weights + first * row_stride + block);
        const auto bytes = static_cast<int64_t>(size_of(block) * sizeof(Element));
        const int tiles = V::kGroups * (V::kPanelRows / V::kTileRows) * (tokens > V::kTileTokens ? 2 : 1);
        return {at, at + bytes, rows, bytes, static_cast<int64_t>(row_stride * sizeof(Element)),
                (bytes * V::kPanelRows / tiles + 64) / 64 * 64};
    }

    // A row's tiles lie behind those of the rows above.
    float* tile_sums(int row, int high, int32_t token) const { return sums + (row * tokens + token * high) * 64; }
    int64_t size_of(int64_t block) const {
        return columns64 - block < kBlockColumns ? columns64 - block : kBlockColumns;
    }
    static int panel_rows(int64_t left) { return left < V::kPanelRows ? static_cast<int>(left) : V::kPanelRows; }
};

template <typename V, typename Element>
void products(const float* x, size_t x_stride, int32_t tokens, const Element* weights, size_t row_stride,
              int64_t columns, int64_t rows, float* out, size_t out_stride, bool round, float* scratch) {
    if (tokens == 1) {
        for (int64_t row = 0; row < rows; ++row) {
            const float sum = dot64<V>(x, weights + row * row_stride, columns);
            out[row] = round ? round1(sum) : sum;
        }
        return;
    }
    const int64_t columns64 = columns / 64 * 64;
    for (int32_t token = 0; token < tokens; token += kProductSlab) {
        const int32_t count = tokens - token < kProductSlab ? tokens - token : kProductSlab;
        float* laid_x = scratch + kProductRows * count * 64;
        float* laid = laid_x + count * columns64;
        Product<V, Element>{x + token * x_stride, x_stride, count, weights, row_stride, columns, columns64,
                            out + token * out_stride, out_stride, round, scratch, laid_x,
                            reinterpret_cast<Element*>(laid)}
            .run(rows);
    }
}

template <typename V, typename Element>
void linear_simd(const float* x, size_t x_stride, int32_t tokens, const Element* weights, int64_t columns,
                 int64_t row_begin, int64_t row_end, float* out, size_t out_stride, bool round, float* scratch) {
    products<V, Element>(x, x_stride, tokens, weights + row_begin * columns, static_cast<size_t>(columns), columns,
                         row_end - row_begin, out + row_begin, out_stride, round, scratch);
}

// --- attention ---

// One register for each of a few heads.
template <typename V, int kHeads>
struct OfHeads {
    typename V::Register sums[kHeads];
};

// kHeads query rows times one key: groups kGroup + n * kStep of their 64 sums, folded to one group. Those that are folded
// first meet first, so that few registers are alive.
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

// Lane k + half added to lane k for halves 4, 2, 1, of eight registers; result i in lane i.
inline __m256 fold8_of_8(const float* rows) {
    __m256 halves[4];
    for (int pair = 0; pair < 4; ++pair) {
        const __m256 a = load8(rows + pair * 8), b = load8(rows + (pair + 4) * 8);
        halves[pair] = _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
    }
    __m256 quarters[2];
    for (int pair = 0; pair < 2; ++pair) {
        const __m256 a = halves[2 * pair], b = halves[2 * pair + 1];
        quarters[pair] = _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xee));
    }
    return _mm256_add_ps(_mm256_shuffle_ps(quarters[0], quarters[1], 0x88),
                         _mm256_shuffle_ps(quarters[0], quarters[1], 0xdd));
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
void scores_simd(const float* q, int32_t heads, const Element* keys, size_t key_stride, int64_t count,
                 int32_t head_dim, float* out, size_t out_stride, bool round) {
    const auto some = [&](auto kernel, int32_t head) {
        kernel(q + static_cast<int64_t>(head) * head_dim, keys, key_stride, count, head_dim, out + head * out_stride,
               out_stride, round);
    };
    int32_t head = 0;
    for (; head + 4 <= heads; head += 4) some(scores_of_heads<V, Element, 4>, head);
    for (; head + 2 <= heads; head += 2) some(scores_of_heads<V, Element, 2>, head);
    for (; head < heads; ++head) some(scores_of_heads<V, Element, 1>, head);
}

// The four sums of kHeads heads and kRegisters registers' worth of columns, over all keys: one sum after the other, each
// over every fourth key.
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
