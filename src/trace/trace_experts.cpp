// Mixture of experts without sorting: the best of the router by repeated maxima; a decode reads the chosen experts
// alone, a prefill runs all of them over the chunk.
#include <array>

#include "trace/trace_ops.h"

namespace gemmatrace::trace {

using hlo::Comparison;
using hlo::ElementType;
using hlo::Opcode;
using model::Routing;
using model::Value;
using model::Weight;

namespace {

// Experts that a prefill runs at once; bounds the largest value between two products.
constexpr int64_t kExpertsAtOnce = 16;

}  // namespace

// Ties go to the lowest expert, which is one of the orders that the reference may leave (gemma4.md 2.4).
Routing TraceOps::route(Value router_logits, Weight per_expert_scale, int32_t top_k) {
    const Node logits = at(router_logits);
    const auto all = logits.shape().dimensions;  // [rows, experts]
    const Node scales = builder_.reshape(f32(weight(per_expert_scale)), {all[1]});
    const Node ids = builder_.iota(ElementType::s32, all, 1);
    Node left = softmax(f32(logits));
    Choice choice;
    std::vector<Node> probabilities, chosen_scales;
    Node sum;
    for (int32_t place = 0; place < top_k; ++place) {
        const Node best = builder_.reduce(left, Opcode::maximum, {1}, -1.0);
        const Node is_best = builder_.compare(Comparison::eq, left, spread(best, all, {0}));
        const Node none = builder_.splat(ElementType::s32, static_cast<double>(all[1]), all);
        const Node expert =
            builder_.reduce(builder_.select(is_best, ids, none), Opcode::minimum, {1}, static_cast<double>(all[1]));
        const Node is_chosen = builder_.compare(Comparison::eq, ids, spread(expert, all, {0}));
        const Node zero = builder_.splat(ElementType::f32, 0.0, all);
        choice.experts.push_back(expert);
        probabilities.push_back(best);
        chosen_scales.push_back(
            builder_.reduce(builder_.select(is_chosen, spread(scales, all, {1}), zero), Opcode::add, {1}, 0.0));
        sum = place == 0 ? best : builder_.add(sum, best);
        left = builder_.select(is_chosen, builder_.splat(ElementType::f32, -1.0, all), left);
    }
    for (size_t place = 0; place < probabilities.size(); ++place) {
        choice.weights.push_back(builder_.multiply(builder_.divide(probabilities[place], sum), chosen_scales[place]));
    }
    choices_.push_back(std::move(choice));
    return {static_cast<int32_t>(choices_.size()) - 1, top_k};
}

Value TraceOps::experts(Value x, const Routing& routing, Weight gate_up, Weight down) {
    const Choice& choice = choices_[static_cast<size_t>(routing.id)];
    return keep_value(is_decode() ? chosen_experts(at(x), choice, weight(gate_up), weight(down))
                                  : all_experts(at(x), choice, weight(gate_up), weight(down)));
}

// Sum of weight * output over the places, best first, in f32, rounded once. outputs: bf16 [rows, hidden] by place.
TraceOps::Node TraceOps::weighted(const std::vector<Node>& outputs, const Choice& choice) {
    Node sum;
    for (size_t place = 0; place < outputs.size(); ++place) {
        const auto& all = outputs[place].shape().dimensions;
        const Node part = builder_.multiply(f32(outputs[place]), spread(choice.weights[place], all, {0}));
        sum = place == 0 ? part : builder_.add(sum, part);
    }
    return rounded(sum);
}

TraceOps::Node TraceOps::chosen_experts(Node x, const Choice& choice, Node gate_up, Node down) {
    const int64_t ff = down.dimension(2);
    const int64_t hidden = x.dimension(1);
    const Node zero = builder_.constant(ElementType::s32, 0);
    const auto expert_of = [&](Node experts, Node id) {
        const auto sizes = experts.shape().dimensions;
        const Node one = builder_.dynamic_slice(experts, std::array{id, zero, zero}, {1, sizes[1], sizes[2]});
        return builder_.reshape(one, {sizes[1], sizes[2]});
    };
    std::vector<Node> partial;  // row by row, place by place: [1, hidden]
    for (int64_t row = 0; row < rows_; ++row) {
        const Node token = builder_.slice_axis(x, 0, row, row + 1);
        for (const Node& chosen : choice.experts) {
            const Node id = element(chosen, row);
            const Node both = rounded(product(token, expert_of(gate_up, id)));
            const Node gated =
                builder_.multiply(gelu(builder_.slice_axis(both, 1, 0, ff)), builder_.slice_axis(both, 1, ff, 2 * ff));
            partial.push_back(product(gated, expert_of(down, id)));
        }
    }
    const auto places = static_cast<int64_t>(choice.experts.size());
    const Node sums = rounded(builder_.all_reduce(builder_.concatenate(partial, 0), Opcode::add));
    const Node by_row = builder_.reshape(sums, {rows_, places, hidden});
    std::vector<Node> outputs;
    for (int64_t place = 0; place < places; ++place) {
        outputs.push_back(builder_.reshape(builder_.slice_axis(by_row, 1, place, place + 1), {rows_, hidden}));
    }
    return weighted(outputs, choice);
}

// Every expert over every row, some experts at a time; of their partial sums each place picks its own, which is exact:
// the others are left out by a selection, not multiplied away, and added as zeros.
TraceOps::Node TraceOps::all_experts(Node x, const Choice& choice, Node gate_up, Node down) {
    const int64_t experts = down.dimension(0);
    const int64_t ff = down.dimension(2);
    std::vector<Node> sums(choice.experts.size());
    for (int64_t first = 0; first < experts; first += kExpertsAtOnce) {
        const int64_t end = std::min(first + kExpertsAtOnce, experts);
        const Node both = rounded(builder_.dot(builder_.slice_axis(gate_up, 0, first, end), x, {{2}, {1}, {}, {}}));
        const Node gated = builder_.multiply(gelu(builder_.slice_axis(both, 1, 0, ff)),
                                             builder_.slice_axis(both, 1, ff, 2 * ff));  // [some, ff, rows]
        const Node partial = builder_.dot(gated, builder_.slice_axis(down, 0, first, end), {{1}, {2}, {0}, {0}});
        const std::vector<int64_t> by_expert = {end - first, rows_};
        const Node ids = builder_.add(builder_.iota(ElementType::s32, by_expert, 0),
                                      builder_.splat(ElementType::s32, static_cast<double>(first), by_expert));
        for (size_t place = 0; place < sums.size(); ++place) {
            const Node is_chosen = builder_.compare(Comparison::eq, spread(choice.experts[place], by_expert, {1}), ids);
            const auto& all = partial.shape().dimensions;  // [some, rows, hidden]
            const Node picked =
                builder_.select(spread(is_chosen, all, {0, 1}), partial, builder_.splat(ElementType::f32, 0.0, all));
            const Node sum = builder_.reduce(picked, Opcode::add, {0}, 0.0);  // one term and zeros
            sums[place] = first == 0 ? sum : builder_.add(sums[place], sum);
        }
    }
    std::vector<Node> outputs;
    const Node reduced = rounded(builder_.all_reduce(builder_.concatenate(sums, 0), Opcode::add));
    for (size_t place = 0; place < sums.size(); ++place) {
        const auto begin = static_cast<int64_t>(place) * rows_;
        outputs.push_back(builder_.slice_axis(reduced, 0, begin, begin + rows_));
    }
    return weighted(outputs, choice);
}

}  // namespace gemmatrace::trace
