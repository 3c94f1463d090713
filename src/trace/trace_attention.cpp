// Attention over the cache as the step found it and over the step's own keys; what the step keeps is written beside it.
#include <algorithm>
#include <array>

#include "trace/trace_ops.h"

namespace gemmatrace::trace {

using checkpoint::LayerSpec;
using hlo::Comparison;
using hlo::ElementType;
using hlo::Opcode;
using model::KeysValues;
using model::Value;

namespace {

constexpr double kMasked = -1e30;

}  // namespace

bool TraceOps::is_ring(int32_t layer) const { return config_.layers[static_cast<size_t>(layer)].window > 0; }

// While no position is beyond the ring's end, a position's row is its own number, and rows from the bucket on hold
// nothing that a step of this bucket sees.
int64_t TraceOps::ring_rows() const { return std::min(geometry_.ring_rows(config_), spec_.bucket); }

void TraceOps::add_caches() {
    for (const CacheBuffer& buffer : cache_buffers(config_, geometry_)) {
        const Node parameter = builder_.parameter(buffer.name + std::string(hlo::kAliasSuffix), buffer.shape);
        Cache& cache = caches_[buffer.layer];
        (buffer.name == keys_name(buffer.layer) ? cache.keys : cache.values) = parameter;
    }
}

// The rows that a step of this bucket may see: a prefix of the buffer, which lies together. A prefill sees one slot.
void TraceOps::read_cache(int32_t layer) {
    Cache& cache = caches_.at(layer);
    if (cache.read_keys) return;
    const auto read = [&](Node buffer) {
        const auto& sizes = buffer.shape().dimensions;
        const int64_t rows = is_ring(layer) ? ring_rows() : spec_.bucket;
        const Node prefix = builder_.slice_axis(buffer, 0, 0, rows);
        if (is_decode()) return prefix;
        const Node zero = builder_.constant(ElementType::s32, 0);
        const std::array starts = {zero, host_.at(kSlot), zero, zero};
        const Node slot = builder_.dynamic_slice(prefix, starts, {rows, 1, sizes[2], sizes[3]});
        return builder_.reshape(slot, {rows, sizes[2], sizes[3]});
    };
    cache.read_keys = read(cache.keys);
    cache.read_values = read(cache.values);
}

KeysValues TraceOps::keep(int32_t layer, Value keys, Value values) {
    Cache& cache = caches_.at(layer);
    const auto sizes = cache.keys.shape().dimensions;
    const Node row = host_.at(is_ring(layer) ? kRingRows : kFullRows);
    const Node zero = builder_.constant(ElementType::s32, 0);
    const auto write = [&](Node buffer, Node rows) {
        if (!is_decode()) {
            const Node chunk = builder_.reshape(rows, {rows_, 1, sizes[2], sizes[3]});
            return builder_.dynamic_update_slice(buffer, chunk, std::array{row, host_.at(kSlot), zero, zero});
        }
        for (int64_t slot = 0; slot < geometry_.slots; ++slot) {
            const Node token =
                builder_.reshape(builder_.slice_axis(rows, 0, slot, slot + 1), {1, 1, sizes[2], sizes[3]});
            const Node place = builder_.constant(ElementType::s32, static_cast<double>(slot));
            buffer = builder_.dynamic_update_slice(buffer, token, std::array{element(row, slot), place, zero, zero});
        }
        return buffer;
    };
    cache.new_keys = write(cache.keys, at(keys));
    cache.new_values = write(cache.values, at(values));
    return {layer, keys, values};
}

// Full layers hold position p in row p; what a ring row holds the host says.
TraceOps::Node TraceOps::cache_mask(const LayerSpec& spec) {
    const Node position = host_.at(kPositions);
    if (spec.window == 0) {
        const std::vector<int64_t> all = {rows_, spec_.bucket};
        const Node held = builder_.iota(ElementType::s32, all, 1);
        // A chunk's own rows begin at its first position.
        const Node end = is_decode() ? spread(position, all, {0}) : spread(host_.at(kFullRows), all, {});
        return builder_.compare(Comparison::lt, held, end);
    }
    const std::vector<int64_t> all = {rows_, ring_rows()};
    const Node positions = builder_.slice_axis(host_.at(kRingPositions), is_decode() ? 1 : 0, 0, ring_rows());
    const Node held = is_decode() ? positions : spread(positions, all, {1});
    const Node window = builder_.splat(ElementType::s32, spec.window, all);
    const Node oldest = builder_.subtract(spread(position, all, {0}), window);
    const Node is_near = builder_.compare(Comparison::gt, held, oldest);
    const Node is_held = builder_.compare(Comparison::ge, held, builder_.splat(ElementType::s32, 0, all));
    return builder_.logical_and(is_held, is_near);
}

TraceOps::Node TraceOps::own_mask(const LayerSpec& spec) {
    const std::vector<int64_t> all = {rows_, rows_};
    const Node query = builder_.iota(ElementType::s32, all, 0);
    const Node key = builder_.iota(ElementType::s32, all, 1);
    const Node is_past = builder_.compare(Comparison::le, key, query);
    if (spec.window == 0 || spec.window >= rows_) return is_past;
    const Node oldest = builder_.subtract(query, builder_.splat(ElementType::s32, spec.window, all));
    return builder_.logical_and(is_past, builder_.compare(Comparison::gt, key, oldest));
}

TraceOps::Node TraceOps::softmax(Node scores) {
    const auto& all = scores.shape().dimensions;
    const auto last = static_cast<int64_t>(all.size()) - 1;
    std::vector<int64_t> outer;
    for (int64_t axis = 0; axis < last; ++axis) outer.push_back(axis);
    const Node largest = builder_.reduce(scores, Opcode::maximum, {last}, -3e38);
    const Node weights = builder_.exponential(builder_.subtract(scores, spread(largest, all, outer)));
    const Node sum = builder_.reduce(weights, Opcode::add, {last}, 0.0);
    const Node factor = builder_.divide(builder_.splat_like(sum, 1.0), sum);
    return builder_.multiply(weights, spread(factor, all, outer));
}

Value TraceOps::attend(Value q, const KeysValues& kv, const LayerSpec& spec) {
    read_cache(kv.layer);
    const Cache& cache = caches_.at(kv.layer);
    const model::HeadShard heads = model::shard_heads(spec, geometry_.ranks);
    const Node queries = builder_.reshape(at(q), {rows_, heads.kv_heads, heads.group, spec.head_dim});
    const Node keys = builder_.reshape(at(kv.keys), {rows_, heads.kv_heads, spec.head_dim});
    const Node values = builder_.reshape(at(kv.values), {rows_, heads.kv_heads, spec.head_dim});
    const Node sums = is_decode() ? attend_decode(queries, keys, values, cache, spec)
                                  : attend_prefill(queries, keys, values, cache, spec);
    return keep_value(builder_.reshape(rounded(sums), {rows_, q.columns}));
}

// A row is a slot: its cached keys are a column of the buffer, its own key one score more.
TraceOps::Node TraceOps::attend_decode(Node q, Node keys, Node values, const Cache& cache, const LayerSpec& spec) {
    const auto sizes = q.shape().dimensions;  // [slots, kv heads, group, head_dim]
    const int64_t cached = cache.read_keys->dimension(0);
    const Node scores = builder_.dot(q, *cache.read_keys, {{3}, {3}, {0, 1}, {1, 2}});
    const std::vector<int64_t> all = scores.shape().dimensions;  // [slots, kv heads, group, cached]
    const Node seen = builder_.select(spread(cache_mask(spec), all, {0, 3}), f32(rounded(scores)),
                                      builder_.splat(ElementType::f32, kMasked, all));
    const Node own = builder_.dot(q, keys, {{3}, {2}, {0, 1}, {0, 1}});
    const Node own_score = builder_.reshape(f32(rounded(own)), {sizes[0], sizes[1], sizes[2], 1});
    const Node weights = rounded(softmax(builder_.concatenate(std::array{seen, own_score}, 3)));
    const Node cached_weights = builder_.slice_axis(weights, 3, 0, cached);
    const Node sums = builder_.dot(cached_weights, *cache.read_values, {{3}, {0}, {0, 1}, {1, 2}});
    const Node own_weight =
        builder_.reshape(builder_.slice_axis(weights, 3, cached, cached + 1), {sizes[0], sizes[1], sizes[2]});
    const Node own_part =
        builder_.multiply(spread(f32(own_weight), sizes, {0, 1, 2}), spread(f32(values), sizes, {0, 1, 3}));
    return builder_.add(sums, own_part);
}

// The rows are one slot's chunk: scores over the cache and over the chunk side by side.
TraceOps::Node TraceOps::attend_prefill(Node q, Node keys, Node values, const Cache& cache, const LayerSpec& spec) {
    const int64_t cached = cache.read_keys->dimension(0);
    const auto masked = [&](Node scores, Node mask) {
        const auto all = scores.shape().dimensions;  // [kv heads, rows, group, keys]
        return builder_.select(spread(mask, all, {1, 3}), f32(rounded(scores)),
                               builder_.splat(ElementType::f32, kMasked, all));
    };
    const Node seen = masked(builder_.dot(q, *cache.read_keys, {{3}, {2}, {1}, {1}}), cache_mask(spec));
    const Node own = masked(builder_.dot(q, keys, {{3}, {2}, {1}, {1}}), own_mask(spec));
    const Node weights = rounded(softmax(builder_.concatenate(std::array{seen, own}, 3)));
    const Node cached_weights = builder_.slice_axis(weights, 3, 0, cached);
    const Node own_weights = builder_.slice_axis(weights, 3, cached, cached + rows_);
    const Node sums = builder_.add(builder_.dot(cached_weights, *cache.read_values, {{3}, {0}, {0}, {1}}),
                                   builder_.dot(own_weights, values, {{3}, {0}, {0}, {1}}));
    return builder_.transpose(sums, {1, 0, 2, 3});
}

}  // namespace gemmatrace::trace
