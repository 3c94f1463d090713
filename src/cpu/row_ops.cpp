// Norm, rotation, gelu and expert choice of one row.
#include "cpu/row_ops.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "base/bf16.h"

namespace gemmatrace::cpu {
namespace {

using Lanes = std::array<float, 8>;

void add_lanes(Lanes& sum, const float* values) {
    for (size_t lane = 0; lane < 8; ++lane) sum[lane] += values[lane];
}

// log2 of the rounds after which a level is spilled to the next.
int spill_shift(size_t rounds) {
    return std::max(4, static_cast<int>(std::bit_width(std::max<size_t>(rounds, 1) - 1)) / 4);
}

float gelu_inner(float x) {
    constexpr float kRootTwoOverPi = 0.7978845608028654F;
    return kRootTwoOverPi * (x + 0.044715F * (x * x * x));
}

const std::array<float, 65536>& gelu_table() {
    static const auto kTable = [] {
        std::array<float, 65536> table{};
        for (uint32_t bits = 0; bits < 65536; ++bits) {
            table[bits] = round_bf16(gelu_tanh(bf16_to_float(static_cast<uint16_t>(bits))));
        }
        return table;
    }();
    return kTable;
}

// Elements dealt to 4 sums in turn, those beyond the last multiple of 4 to the first; the sums added in order.
float sum_in_fours(std::span<const float> values) {
    float sums[4] = {};
    const size_t dealt = values.size() / 4 * 4;
    for (size_t element = 0; element < values.size(); ++element) {
        sums[element < dealt ? element % 4 : 0] += values[element];
    }
    return ((sums[0] + sums[1]) + sums[2]) + sums[3];
}

}  // namespace

float sum_over_experts(std::span<const float> products, bool is_left_over_column) {
    if (is_left_over_column) return sum_in_fours(products);
    float sum = 0.0F;
    float second_level = 0.0F;
    for (size_t place = 0; place < products.size(); ++place) {
        sum += products[place];
        if ((place + 1) % 16 == 0) {
            second_level += sum;
            sum = 0.0F;
        }
    }
    return sum + second_level;
}

float sum_in_reference_order(std::span<const float> values) {
    if (values.size() < 8) return sum_in_fours(values);
    constexpr int kLevels = 4;
    const size_t vectors = values.size() / 8;
    const size_t rounds = values.size() / 32;
    const int shift = spill_shift(rounds);
    Lanes levels[kLevels][4] = {};
    for (size_t round = 0; round < rounds; ++round) {
        for (size_t sum = 0; sum < 4; ++sum) add_lanes(levels[0][sum], values.data() + (round * 4 + sum) * 8);
        for (int level = 1; level < kLevels; ++level) {
            if ((round + 1) % (size_t{1} << (level * shift)) != 0) break;
            for (size_t sum = 0; sum < 4; ++sum) {
                add_lanes(levels[level][sum], levels[level - 1][sum].data());
                levels[level - 1][sum] = {};
            }
        }
    }
    for (int level = 1; level < kLevels; ++level) {
        for (size_t sum = 0; sum < 4; ++sum) add_lanes(levels[0][sum], levels[level][sum].data());
    }
    Lanes& lanes = levels[0][0];
    for (size_t vector = rounds * 4; vector < vectors; ++vector) add_lanes(lanes, values.data() + vector * 8);
    for (size_t sum = 1; sum < 4; ++sum) add_lanes(lanes, levels[0][sum].data());
    float total = 0.0F;
    for (size_t element = vectors * 8; element < values.size(); ++element) total += values[element];
    for (const float lane : lanes) total += lane;
    return total;
}

void rms_norm_row(std::span<const float> x, std::span<const float> weight, float eps, bool round,
                  std::span<float> scratch, float* out) {
    for (size_t column = 0; column < x.size(); ++column) scratch[column] = x[column] * x[column];
    const float mean = sum_in_reference_order(scratch.first(x.size())) / static_cast<float>(x.size());
    const float factor = 1.0F / std::sqrt(mean + eps);
    for (size_t column = 0; column < x.size(); ++column) {
        float value = x[column] * factor;
        if (!weight.empty()) value *= weight[column];
        out[column] = round ? round_bf16(value) : value;
    }
}

void rope_head(const float* x, std::span<const float> cosines, std::span<const float> sines, bool round, float* out) {
    const size_t half = cosines.size() / 2;
    const auto rounded = [round](float value) { return round ? round_bf16(value) : value; };
    for (size_t pair = 0; pair < half; ++pair) {
        const float low = x[pair];
        const float high = x[pair + half];
        out[pair] = rounded(rounded(low * cosines[pair]) + rounded(-high * sines[pair]));
        out[pair + half] = rounded(rounded(high * cosines[pair + half]) + rounded(low * sines[pair + half]));
    }
}

float gelu_tanh(float x) {
    constexpr float kVectorTanhBound = 8.664339742F;
    const float inner = gelu_inner(x);
    const float bent = std::fabs(inner) > kVectorTanhBound ? std::copysign(1.0F, inner)
                                                           : static_cast<float>(std::tanh(static_cast<double>(inner)));
    return 0.5F * x * (1.0F + bent);
}

float gelu_tanh_left_over(float x) {
    return 0.5F * x * (1.0F + static_cast<float>(std::tanh(static_cast<double>(gelu_inner(x)))));
}

void gelu_mul_row(const float* gate, const float* up, int64_t count, int64_t vector_count, bool round, float* out) {
    if (!round) {
        for (int64_t column = 0; column < count; ++column) out[column] = gelu_tanh(gate[column]) * up[column];
        return;
    }
    const auto& table = gelu_table();
    for (int64_t column = 0; column < vector_count; ++column) {
        out[column] = round_bf16(table[std::bit_cast<uint32_t>(gate[column]) >> 16] * up[column]);
    }
    for (int64_t column = vector_count; column < count; ++column) {
        out[column] = round_bf16(round_bf16(gelu_tanh_left_over(gate[column])) * up[column]);
    }
}

void top_experts(std::span<const float> probabilities, std::span<int32_t> order) {
    std::vector<std::pair<float, int32_t>> ranked;
    ranked.reserve(probabilities.size());
    for (size_t expert = 0; expert < probabilities.size(); ++expert) {
        ranked.emplace_back(probabilities[expert], static_cast<int32_t>(expert));
    }
    const auto is_better = [](const auto& a, const auto& b) {
        return (std::isnan(a.first) && !std::isnan(b.first)) || a.first > b.first;
    };
    const auto count = static_cast<std::ptrdiff_t>(order.size());
    if (order.size() * 64 <= ranked.size()) {
        std::partial_sort(ranked.begin(), ranked.begin() + count, ranked.end(), is_better);
    } else {
        std::nth_element(ranked.begin(), ranked.begin() + count - 1, ranked.end(), is_better);
        std::sort(ranked.begin(), ranked.begin() + count - 1, is_better);
    }
    for (size_t place = 0; place < order.size(); ++place) order[place] = ranked[place].second;
}

}  // namespace gemmatrace::cpu
