// Products of several tokens with weights, written once over a register type; see kernels_simd.h, which includes this.
#pragma once

#include <immintrin.h>

#include "cpu/kernels.h"
#include "cpu/kernels_simd_lanes.h"

namespace gemmatrace::cpu {
namespace {

// Weights come from memory once, kPanelRows rows at a time, and are laid out anew in the order in which tiles read
// them: what one step adds to one group of sums lies side by side. So are the tokens. A tile keeps one group of the
// sums of its outputs in registers; each output still adds its 64 sums in their order.

// Of a block, what a group of a panel's sums reads stays in the first-level cache.
constexpr int64_t kBlockColumns = kProductColumns;

// Tiles are whole first, then smaller.
template <typename V>
int tile_tokens(int32_t left) {
    return left >= V::kTileTokens ? V::kTileTokens : left >= 4 ? 4 : left >= 2 ? 2 : 1;
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

// What is laid out next: pieces of rows, asked for evenly while tiles are computed.
struct Ahead {
    const char* at = nullptr;
    const char* end = nullptr;  // of the row at hand
    int rows = 0;               // this one and those after it
    int64_t bytes = 0;          // of a row
    int64_t stride = 0;
    int64_t share = 0;  // bytes for every fourth step of a tile
    bool is_near = false;
    int64_t owed = 0;

    [[gnu::always_inline]] void step() {
        owed += share;
        if (owed >= 64) ask();
    }
    void ask() {
        for (; owed >= 64 && rows > 0; owed -= 64) {
            if (is_near) {
                _mm_prefetch(at, _MM_HINT_T0);
            } else {
                _mm_prefetch(at, _MM_HINT_T1);
            }
            at += 64;
            if (at < end) continue;
            end += stride;
            at = end - bytes;
            --rows;
        }
        if (rows == 0) share = owed = 0;
    }
};

// Where sums begin: at zeros, with strides of 0.
alignas(64) constexpr float kZeros[16] = {};

// Adds to one group of the sums of kRows x kTokens outputs, or begins it; `row_sums` lie between the sums of two rows.
template <typename V, typename Element, int kRows, int kTokens>
void add_tile(const float* x, const Element* weights, int64_t steps, bool begins, float* sums, int64_t row_sums,
              Ahead& ahead) {
    typename V::Register tile[kRows][kTokens];
    const float* from = begins ? kZeros : sums;
    const int64_t from_row = begins ? 0 : row_sums, from_token = begins ? 0 : 64;
    GEMMATRACE_UNROLL
    for (int row = 0; row < kRows; ++row) {
        GEMMATRACE_UNROLL
        for (int token = 0; token < kTokens; ++token) {
            tile[row][token] = V::load(from + row * from_row + token * from_token);
        }
    }
    for (int64_t step = 0; step < steps; ++step, weights += kRows * V::kWidth, x += kTokens * V::kWidth) {
        if (step % 4 == 0) ahead.step();
        typename V::Register loaded[kRows];
        GEMMATRACE_UNROLL
        for (int row = 0; row < kRows; ++row) loaded[row] = V::load(weights + row * V::kWidth);
        GEMMATRACE_UNROLL
        for (int token = 0; token < kTokens; ++token) {
            const typename V::Register values = V::in_register(V::load(x + token * V::kWidth));
            GEMMATRACE_UNROLL
            for (int row = 0; row < kRows; ++row) tile[row][token] = V::fma(values, loaded[row], tile[row][token]);
        }
    }
    GEMMATRACE_UNROLL
    for (int row = 0; row < kRows; ++row) {
        GEMMATRACE_UNROLL
        for (int token = 0; token < kTokens; ++token) V::store(sums + row * row_sums + token * 64, tile[row][token]);
    }
}

template <typename V, typename Element, int kRows>
void add_tile(int tokens, const float* x, const Element* weights, int64_t steps, bool begins, float* sums,
              int64_t row_sums, Ahead& ahead) {
    if (tokens == V::kTileTokens) {
        add_tile<V, Element, kRows, V::kTileTokens>(x, weights, steps, begins, sums, row_sums, ahead);
    } else if (tokens == 4) {
        add_tile<V, Element, kRows, 4>(x, weights, steps, begins, sums, row_sums, ahead);
    } else if (tokens == 2) {
        add_tile<V, Element, kRows, 2>(x, weights, steps, begins, sums, row_sums, ahead);
    } else {
        add_tile<V, Element, kRows, 1>(x, weights, steps, begins, sums, row_sums, ahead);
    }
}

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
    float* sums;    // [kPanelRows, tokens, 64]
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
                } else if (wide == 4) {
                    lay_out<V, float, 4>(from, x_stride, size_of(block), to);
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
                    const float* tile_x = laid_x + token * columns64 + (block + skipped) * wide;
                    float* tile = sums + (row * tokens + token) * 64 + group * V::kWidth;
                    if (high == V::kTileRows) {
                        add_tile<V, Element, V::kTileRows>(wide, tile_x, tile_weights, size / 64, block == 0, tile,
                                                           tokens * 64, ahead);
                    } else {
                        add_tile<V, Element, 1>(wide, tile_x, tile_weights, size / 64, block == 0, tile, tokens * 64,
                                                ahead);
                    }
                }
            }
        }
    }

    // Eight rows of a token at a time.
    void finish_rows(int64_t first, int rows) {
        for (int row = 0; row < rows; row += 8) {
            for (int32_t token = 0; token < tokens; ++token) {
                finish_eight(token, first, row, rows - row < 8 ? rows - row : 8);
            }
        }
    }

    void finish_eight(int32_t token, int64_t first, int row, int count) {
        float folded[8][8];
        __m256 totals = _mm256_setzero_ps();
        if (columns64 > 0) {
            const float* of_output = sums + (row * tokens + token) * 64;
            for (int at = 0; at < count; ++at, of_output += tokens * 64) {
                typename V::Register groups[V::kGroups];
                GEMMATRACE_UNROLL
                for (int group = 0; group < V::kGroups; ++group) groups[group] = V::load(of_output + group * V::kWidth);
                _mm256_storeu_ps(folded[at], fold_to_8<V>(groups));
            }
            totals = fold8_of_8(folded[0]);
            // Without further columns add_tail adds a zero, which makes a negative one positive.
            if (columns64 == columns) totals = _mm256_add_ps(totals, _mm256_setzero_ps());
        }
        float* to = out + token * out_stride + first + row;
        float some[8];
        if (columns64 != columns) {
            _mm256_storeu_ps(some, totals);
            for (int at = 0; at < count; ++at) {
                some[at] = add_tail(some[at], x + token * x_stride, weights + (first + row + at) * row_stride, columns);
            }
            totals = load8(some);
        }
        if (round) totals = round8(totals);
        if (count == 8) return _mm256_storeu_ps(to, totals);
        _mm256_storeu_ps(some, totals);
        for (int at = 0; at < count; ++at) to[at] = some[at];
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

    // One tile of tokens asks for so much at once that the first-level cache has no room for it.
    Ahead ahead_of(int64_t first, int rows, int64_t block) const {
        const auto* at = reinterpret_cast<const char*>(weights + first * row_stride + block);
        const auto bytes = static_cast<int64_t>(size_of(block) * sizeof(Element));
        const int64_t tiles = V::kPanelRows / V::kTileRows * ((tokens + V::kTileTokens - 1) / V::kTileTokens);
        const int64_t steps = kBlockColumns / V::kWidth * tiles;
        return {at,
                at + bytes,
                rows,
                bytes,
                static_cast<int64_t>(row_stride * sizeof(Element)),
                kBlockColumns * V::kPanelRows * static_cast<int64_t>(sizeof(Element)) * 4 / steps + 1,
                tokens > V::kTileTokens};
    }

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
        Product<V, Element>{x + token * x_stride,
                            x_stride,
                            count,
                            weights,
                            row_stride,
                            columns,
                            columns64,
                            out + token * out_stride,
                            out_stride,
                            round,
                            scratch,
                            laid_x,
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

}  // namespace
}  // namespace gemmatrace::cpu
