// Mixture of experts: each token's rows go through its experts, tokens of one expert together.
#include <algorithm>
#include <limits>

#include "base/bf16.h"
#include "cpu/cpu_ops.h"
#include "cpu/row_ops.h"

namespace gemmatrace::cpu {

using model::Routing;
using model::Value;
using model::Weight;

namespace {

// Softmax over a router's logits in fp32; fewer than 8 are summed in their order (gemma4.md 2.10).
void router_softmax(const Kernels& kernels, std::vector<float>& probabilities) {
    const size_t experts = probabilities.size();
    if (experts >= 8) {
        probabilities.resize((experts + 7) / 8 * 8, -std::numeric_limits<float>::infinity());
        kernels.softmax(probabilities.data(), static_cast<int64_t>(probabilities.size()), false);
        probabilities.resize(experts);
        return;
    }
    const float largest = *std::max_element(probabilities.begin(), probabilities.end());
    float sum = 0.0F;
    for (float& value : probabilities) {
        value = kernels.exp_of_distance(value - largest);
        sum += value;
    }
    for (float& value : probabilities) value *= 1.0F / sum;
}

}  // namespace

Routing CpuOps::route(Value router_logits, Weight per_expert_scale, int32_t top_k) {
    const int64_t rows = matrix(router_logits).rows;
    const std::span<const float> scales = vector(per_expert_scale);
    const auto count = static_cast<size_t>(top_k);
    routed_experts_.resize(static_cast<size_t>(rows) * count);
    routed_weights_.resize(static_cast<size_t>(rows) * count);
    std::vector<float>& probabilities = router_probabilities_;
    for (int64_t index = 0; index < rows; ++index) {
        const float* logits = row(router_logits, index);
        probabilities.assign(logits, logits + router_logits.columns);
        router_softmax(kernels_, probabilities);
        const auto at = static_cast<size_t>(index) * count;
        const std::span<int32_t> chosen(routed_experts_.data() + at, count);
        const std::span<float> weights(routed_weights_.data() + at, count);
        top_experts(probabilities, chosen);
        for (size_t place = 0; place < count; ++place)
            weights[place] = probabilities[static_cast<size_t>(chosen[place])];
        const float sum = sum_in_reference_order(weights);
        for (size_t place = 0; place < count; ++place) {
            weights[place] = weights[place] / sum * scales[static_cast<size_t>(chosen[place])];
        }
    }
    return {0, top_k};
}

Value CpuOps::experts(Value x, const Routing& routing, Weight gate_up, Weight down) {
    const int64_t tokens = matrix(x).rows;
    const int32_t top_k = routing.top_k;
    const WeightData& gate_up_data = weights_.at(gate_up);
    const WeightData& down_data = weights_.at(down);
    const Value outputs = make(tokens * top_k, x.columns);  // row token * top_k + place
    assignments_.resize(static_cast<size_t>(weights_.slots()[static_cast<size_t>(gate_up.slot)].shape[0]));
    for (auto& assigned : assignments_) assigned.clear();
    for (int32_t token = 0; token < tokens; ++token) {
        for (int32_t place = 0; place < top_k; ++place) {
            const int32_t expert = routed_experts_[static_cast<size_t>(token * top_k + place)];
            assignments_[static_cast<size_t>(expert)].push_back({token, place});
        }
    }
    for (size_t expert = 0; expert < assignments_.size(); ++expert) {
        if (assignments_[expert].empty()) continue;
        run_expert(x, assignments_[expert], static_cast<int64_t>(expert), gate_up_data, down_data, top_k, outputs);
    }
    const Value out = make(tokens, x.columns);
    const int32_t vector_columns = x.columns / 32 * 32;
    for_rows(tokens, int64_t{x.columns} * top_k, [&](int thread, int64_t token) {
        const float* weights = routed_weights_.data() + token * top_k;
        float* sum = row(out, token);
        auto& products = scratch_[static_cast<size_t>(thread)].sums;
        products.resize(static_cast<size_t>(top_k));
        for (int32_t column = 0; column < x.columns; ++column) {
            for (int32_t place = 0; place < top_k; ++place) {
                products[static_cast<size_t>(place)] = row(outputs, token * top_k + place)[column] * weights[place];
            }
            const float total = sum_over_experts(products, column >= vector_columns);
            sum[column] = round_ ? round_bf16(total) : total;
        }
    });
    return out;
}

void CpuOps::run_expert(Value x, std::span<const Assignment> assigned, int64_t expert, const WeightData& gate_up,
                        const WeightData& down, int32_t top_k, Value out) {
    const size_t mark = arena_top_;
    const size_t matrices = matrices_.size();
    const auto count = static_cast<int64_t>(assigned.size());
    const auto ff = static_cast<int32_t>(down.columns);
    const Value gathered = make(count, x.columns);
    const Value gate_and_up = make(count, 2 * ff);
    const Value gated = make(count, ff);
    const Value result = make(count, x.columns);
    for (int64_t index = 0; index < count; ++index) {
        std::copy_n(row(x, assigned[static_cast<size_t>(index)].token), x.columns, row(gathered, index));
    }
    const auto tokens = static_cast<int32_t>(count);
    run_linear(row(gathered, 0), matrix(gathered).stride, tokens, gate_up, expert, row(gate_and_up, 0),
               matrix(gate_and_up).stride);
    for_rows(count, int64_t{ff} * 4, [&](int, int64_t index) {
        const float* both = row(gate_and_up, index);
        gelu_mul_row(both, both + ff, ff, ff / 32 * 32, round_, row(gated, index));  // the reference's loop runs by row
    });
    run_linear(row(gated, 0), matrix(gated).stride, tokens, down, expert, row(result, 0), matrix(result).stride);
    for (int64_t index = 0; index < count; ++index) {
        const Assignment& place = assigned[static_cast<size_t>(index)];
        std::copy_n(row(result, index), x.columns, row(out, int64_t{place.token} * top_k + place.place));
    }
    arena_top_ = mark;
    matrices_.resize(matrices);
}

}  // namespace gemmatrace::cpu
