// The dense operations, inputs and results; attention and experts are in trace_attention.cpp and trace_experts.cpp.
#include "trace/trace_ops.h"

#include <utility>

#include "base/error.h"
#include "model/decision.h"

namespace gemmatrace::trace {

using hlo::ElementType;
using hlo::Opcode;
using hlo::Shape;
using model::Value;
using model::Weight;

TraceOps::TraceOps(hlo::Builder& builder, const checkpoint::ModelConfig& config, const Packing& packing,
                   const Geometry& geometry, const ProgramSpec& spec)
    : builder_(builder),
      config_(config),
      packing_(packing),
      geometry_(geometry),
      spec_(spec),
      rows_(spec.kind == ProgramKind::decode ? geometry.slots : geometry.chunk_tokens) {
    add_inputs();
    for (const PackedInput& input : packing.inputs) {
        inputs_.push_back(builder_.parameter(input.name, Shape(ElementType::bf16, input.dimensions)));
    }
    add_caches();
}

void TraceOps::add_inputs() {
    const auto add = [&](const char* name, ElementType type, std::vector<int64_t> dimensions) {
        host_[name] = builder_.parameter(name, Shape(type, std::move(dimensions)));
    };
    add(kEmbeddings, geometry_.value_type(), {rows_, config_.hidden_size});
    if (config_.ple_dim > 0) {
        const auto layers = static_cast<int64_t>(config_.layers.size());
        add(kPerLayerRows, geometry_.value_type(), {rows_, layers * config_.ple_dim});
    }
    const std::vector<int64_t> each = is_decode() ? std::vector{rows_} : std::vector<int64_t>{};
    std::optional<int64_t> sliding, full;
    for (const auto& layer : config_.layers) {
        (layer.attention == checkpoint::AttentionKind::full ? full : sliding) = layer.head_dim;
    }
    if (sliding) {
        add(kSlidingCosines, geometry_.value_type(), {rows_, *sliding});
        add(kSlidingSines, geometry_.value_type(), {rows_, *sliding});
        add(kRingRows, ElementType::s32, each);
        std::vector<int64_t> held = each;
        held.push_back(geometry_.ring_rows(config_));
        add(kRingPositions, ElementType::s32, held);
    }
    if (full) {
        add(kFullCosines, geometry_.value_type(), {rows_, *full});
        add(kFullSines, geometry_.value_type(), {rows_, *full});
        add(kFullRows, ElementType::s32, each);
    }
    add(kPositions, ElementType::s32, {rows_});
    if (!is_decode()) {
        add(kSlot, ElementType::s32, {});
        add(kOutputRow, ElementType::s32, {});
    }
    add(kRank, ElementType::s32, {});
    if (decides_by_cap()) {
        const auto thresholds = static_cast<int64_t>(model::cap_thresholds(*config_.final_softcap).size());
        add(kCapThresholds, ElementType::bf16, {thresholds});
    }
}

Value TraceOps::keep_value(Node node) {
    values_.push_back(node);
    return {static_cast<int32_t>(values_.size()) - 1, static_cast<int32_t>(node.dimension(1))};
}

TraceOps::Node TraceOps::weight(Weight weight) {
    const Placement& place = packing_.placements[static_cast<size_t>(weight.slot)];
    if (place.input < 0) throw Error(ErrorCode::internal, "a weight that stays on the host was asked for");
    const Node input = inputs_[static_cast<size_t>(place.input)];
    if (input.rank() == 3) return rounded(input);
    return rounded(builder_.slice_axis(input, 0, place.row_begin, place.row_begin + place.rows));
}

TraceOps::Node TraceOps::spread(Node value, const std::vector<int64_t>& dimensions, std::vector<int64_t> axes) {
    return builder_.broadcast(value, dimensions, std::move(axes));
}

TraceOps::Node TraceOps::scaled(Node value, double factor) {
    return builder_.multiply(value, builder_.splat_like(value, factor));
}

TraceOps::Node TraceOps::element(Node vector, int64_t index) {
    return builder_.reshape(builder_.slice_axis(vector, 0, index, index + 1), {});
}

TraceOps::Node TraceOps::product(Node x, Node weight) {
    return builder_.dot(x, weight, {.lhs_contracting = {1}, .rhs_contracting = {1}, .lhs_batch = {}, .rhs_batch = {}});
}

Value TraceOps::embeddings() { return keep_value(host_.at(kEmbeddings)); }
Value TraceOps::per_layer_rows() { return keep_value(host_.at(kPerLayerRows)); }

Value TraceOps::linear(Value x, Weight weight) {
    const Placement& place = packing_.placements[static_cast<size_t>(weight.slot)];
    if (place.input >= 0 && packing_.inputs[static_cast<size_t>(place.input)].is_one_product) {
        auto [found, is_new] = products_.try_emplace({x.id, place.input});
        if (is_new) found->second = rounded(product(at(x), rounded(inputs_[static_cast<size_t>(place.input)])));
        return keep_value(builder_.slice_axis(found->second, 1, place.row_begin, place.row_begin + place.rows));
    }
    Node sum = product(at(x), this->weight(weight));
    // Partial sums of the ranks are added before the one rounding.
    if (weight.role == model::WeightRole::row) sum = builder_.all_reduce(sum, Opcode::add);
    return keep_value(rounded(sum));
}

Value TraceOps::rms_norm(Value x, std::optional<Weight> weight, int32_t group) {
    const std::vector<int64_t> flat = {at(x).dimension(0), x.columns};
    const std::vector<int64_t> grouped = {flat[0], x.columns / group, group};
    const Node value = f32(builder_.reshape(at(x), grouped));
    const Node squares = builder_.reduce(builder_.multiply(value, value), Opcode::add, {2}, 0.0);
    const Node mean = builder_.divide(squares, builder_.splat_like(squares, group));
    const Node root = builder_.sqrt(builder_.add(mean, builder_.splat_like(mean, config_.rms_norm_eps)));
    const Node factor = builder_.divide(builder_.splat_like(root, 1.0), root);
    Node result = builder_.multiply(value, spread(factor, grouped, {0, 1}));
    if (weight) {
        const Node weights = f32(builder_.reshape(this->weight(*weight), {group}));
        result = builder_.multiply(result, spread(weights, grouped, {2}));
    }
    return keep_value(builder_.reshape(rounded(result), flat));
}

Value TraceOps::rope(Value x, checkpoint::AttentionKind kind, int32_t head_dim) {
    const bool is_full = kind == checkpoint::AttentionKind::full;
    const std::vector<int64_t> heads = {rows_, x.columns / head_dim, head_dim};
    const Node value = builder_.reshape(at(x), heads);
    const Node low = builder_.slice_axis(value, 2, 0, head_dim / 2);
    const Node high = builder_.slice_axis(value, 2, head_dim / 2, head_dim);
    const Node rotated = builder_.concatenate(std::vector{builder_.negate(high), low}, 2);
    const Node cosines = spread(host_.at(is_full ? kFullCosines : kSlidingCosines), heads, {0, 2});
    const Node sines = spread(host_.at(is_full ? kFullSines : kSlidingSines), heads, {0, 2});
    const Node sum = builder_.add(builder_.multiply(value, cosines), builder_.multiply(rotated, sines));
    return keep_value(builder_.reshape(sum, {rows_, x.columns}));
}

// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) in f32, rounded once.
TraceOps::Node TraceOps::gelu(Node gate) {
    const Node x = f32(gate);
    const Node cube = builder_.multiply(builder_.multiply(x, x), x);
    const Node inner = scaled(builder_.add(x, scaled(cube, 0.044715)), 0.7978845608028654);
    const Node bent = builder_.add(builder_.splat_like(x, 1.0), builder_.tanh(inner));
    return rounded(builder_.multiply(scaled(x, 0.5), bent));
}

Value TraceOps::gelu_mul(Value gate, Value up) { return keep_value(builder_.multiply(gelu(at(gate)), at(up))); }

Value TraceOps::add(Value a, Value b) { return keep_value(builder_.add(at(a), at(b))); }

Value TraceOps::scale(Value x, double factor) { return keep_value(rounded(scaled(f32(at(x)), factor))); }

Value TraceOps::multiply(Value x, Weight weight) {
    const Node factors = this->weight(weight);  // [1, columns] or [1, 1]
    const int64_t length = factors.dimension(1);
    const std::vector<int64_t> dimensions = {at(x).dimension(0), x.columns};
    const Node spread_factors = length == 1 ? spread(builder_.reshape(factors, {}), dimensions, {})
                                            : spread(builder_.reshape(factors, {length}), dimensions, {1});
    return keep_value(builder_.multiply(at(x), spread_factors));
}

Value TraceOps::columns(Value x, int32_t first, int32_t count) {
    return keep_value(builder_.slice_axis(at(x), 1, first, first + count));
}

Value TraceOps::end_layer(int32_t layer, Value stream) {
    products_.clear();
    builder_.named(at(stream), layer < 0 ? "stream.embedding" : "stream." + std::to_string(layer));
    return stream;
}

Value TraceOps::output_rows(Value stream) {
    if (is_decode()) return stream;
    const Node zero = builder_.constant(ElementType::s32, 0);
    return keep_value(
        builder_.dynamic_slice(at(stream), std::vector{host_.at(kOutputRow), zero}, {1, config_.hidden_size}));
}

// The greedy choice of this rank (model/decision.h) without a tanh over the vocabulary: the largest threshold not above
// the best logit is the smallest logit that the cap maps to the same number. A NaN gives an id beyond the vocabulary.
std::vector<hlo::Output> TraceOps::decide(Node logits) {
    const std::vector<int64_t> all = logits.shape().dimensions;
    constexpr double kLowest = -3e38;
    const Node best = builder_.reduce(logits, Opcode::maximum, {1}, kLowest);
    Node threshold = best;
    if (decides_by_cap()) {
        const Node steps = f32(host_.at(kCapThresholds));
        const std::vector<int64_t> table = {all[0], steps.dimension(0)};
        const Node spread_steps = spread(steps, table, {1});
        const Node is_below = builder_.compare(hlo::Comparison::le, spread_steps, spread(best, table, {0}));
        const Node lowest = builder_.splat(ElementType::f32, kLowest, table);
        threshold = builder_.reduce(builder_.select(is_below, spread_steps, lowest), Opcode::maximum, {1}, kLowest);
    }
    const Node is_number = builder_.compare(hlo::Comparison::eq, best, best);
    const Node is_best = builder_.logical_and(
        builder_.compare(hlo::Comparison::ge, logits, spread(threshold, all, {0})), spread(is_number, all, {0}));
    const auto sentinel = static_cast<double>(config_.vocab_size);
    const Node places = builder_.select(is_best, builder_.iota(ElementType::f32, all, 1),
                                        builder_.splat(ElementType::f32, sentinel, all));
    const Node place = builder_.convert(builder_.reduce(places, Opcode::minimum, {1}, sentinel), ElementType::s32);
    const Node first =
        builder_.multiply(host_.at(kRank), builder_.constant(ElementType::s32, static_cast<double>(all[1])));
    return {{kBestValue, best}, {kBestId, builder_.add(place, spread(first, {all[0]}, {}))}};
}

hlo::Module TraceOps::finish(Value logits) {
    const Node wide = f32(at(logits));
    std::vector<hlo::Output> outputs = {{kLogits, wide}};
    for (hlo::Output& output : decide(wide)) outputs.push_back(std::move(output));
    for (auto& [layer, cache] : caches_) {
        outputs.push_back({keys_name(layer), *cache.new_keys, cache.keys});
        outputs.push_back({values_name(layer), *cache.new_values, cache.values});
    }
    return builder_.finish(std::move(outputs));
}

}  // namespace gemmatrace::trace
