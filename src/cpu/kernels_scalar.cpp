// The scalar twin: the definition every other kernel is tested against, readable before it is fast.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/bf16.h"
#include "cpu/kernels.h"

namespace gemmatrace::cpu {
namespace {

inline float load(const uint16_t* values, int64_t index) { return bf16_to_float(values[index]); }
inline float load(const float* values, int64_t index) { return values[index]; }

// Adds the upper half of the sums to the lower half until one is left.
template <int kCount>
float fold(float (&sums)[kCount]) {
    for (int half = kCount / 2; half >= 1; half /= 2) {
        for (int lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
    }
    return sums[0];
}

template <typename Element>
float dot64(const float* x, const Element* weights, int64_t columns) {
    const int64_t columns64 = columns / 64 * 64;
    const int64_t columns16 = columns / 16 * 16;
    float sums[64] = {};
    for (int64_t column = 0; column < columns64; ++column) {
        float& sum = sums[column % 64];
        sum = std::fma(x[column], load(weights, column), sum);
    }
    float total = fold(sums);
    float rest[8] = {};
    for (int64_t column = columns64; column < columns16; ++column) {
        float& sum = rest[column % 8];
        sum = std::fma(x[column], load(weights, column), sum);
    }
    total += fold(rest);
    for (int64_t column = columns16; column < columns; ++column) {
        total = std::fma(x[column], load(weights, column), total);
    }
    return total;
}

template <typename Element>
void linear(const float* x, size_t x_stride, int32_t tokens, const Element* weights, int64_t columns, int64_t row_begin,
            int64_t row_end, float* out, size_t out_stride, bool round, float*) {
    for (int64_t row = row_begin; row < row_end; ++row) {
        for (int32_t token = 0; token < tokens; ++token) {
            const float sum = dot64(x + token * x_stride, weights + row * columns, columns);
            out[token * out_stride + row] = round ? round_bf16(sum) : sum;
        }
    }
}

template <typename Element>
void scores(const float* q, int32_t heads, const Element* keys, size_t key_stride, int64_t count, int32_t head_dim,
            float* out, size_t out_stride, bool round) {
    for (int32_t head = 0; head < heads; ++head) {
        for (int64_t key = 0; key < count; ++key) {
            const float sum = dot64(q + head * head_dim, keys + key * key_stride, head_dim);
            out[head * out_stride + key] = round ? round_bf16(sum) : sum;
        }
    }
}

template <typename Element>
void accumulate(const float* probabilities, size_t stride, int32_t heads, const Element* values, size_t value_stride,
                int64_t count, int32_t head_dim, int64_t first_position, float* sums) {
    for (int32_t head = 0; head < heads; ++head) {
        for (int64_t key = 0; key < count; ++key) {
            float* sum = sums + (head * 4 + (first_position + key) % 4) * head_dim;
            const float probability = probabilities[head * stride + key];
            for (int32_t column = 0; column < head_dim; ++column) {
                sum[column] = std::fma(probability, load(values + key * value_stride, column), sum[column]);
            }
        }
    }
}

float exp_of_distance(float distance) {
    if (!(distance >= kExpFloor)) return 0.0F;
    const float q = std::nearbyint(distance * kLog2E);
    const float r = std::fma(q, -kLn2Low, std::fma(q, -kLn2High, distance));
    float u = kExpPolynomial[0];
    for (int term = 1; term < 6; ++term) u = std::fma(u, r, kExpPolynomial[term]);
    return std::ldexp(1.0F + std::fma(r * r, u, r), static_cast<int>(q));
}

void softmax(float* scores, int64_t count, bool round) {
    float largest = -std::numeric_limits<float>::infinity();
    for (int64_t index = 0; index < count; ++index) largest = std::max(largest, scores[index]);
    float sums[8] = {};
    for (int64_t index = 0; index < count; ++index) {
        scores[index] = exp_of_distance(scores[index] - largest);
        sums[index % 8] += scores[index];
    }
    const float factor = 1.0F / fold(sums);
    for (int64_t index = 0; index < count; ++index) {
        scores[index] *= factor;
        if (round) scores[index] = round_bf16(scores[index]);
    }
}

}  // namespace

const Kernels* scalar_kernels() {
    static constexpr Kernels kTable = {linear<uint16_t>,     linear<float>,     scores<uint16_t>, scores<float>,
                                       accumulate<uint16_t>, accumulate<float>, softmax,          exp_of_distance};
    return &kTable;
}

}  // namespace gemmatrace::cpu
