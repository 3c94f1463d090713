// Attention over the cache: each query head of each row on its own, in the order of absolute positions.
#include <algorithm>
#include <limits>

#include "base/bf16.h"
#include "cpu/cpu_ops.h"

namespace gemmatrace::cpu {

using model::KeysValues;
using model::Value;

KeysValues CpuOps::keep(int32_t layer, Value keys, Value values) {
    for (size_t index = 0; index < places_.size(); ++index) {
        const auto token = static_cast<int64_t>(index);
        places_[index].cache->layer(layer).store(places_[index].position, row(keys, token), row(values, token));
    }
    return {layer, keys, values};
}

Value CpuOps::attend(Value q, const KeysValues& kv, const checkpoint::LayerSpec& spec) {
    const int64_t rows = matrix(q).rows;
    const Value out = make(rows, q.columns);
    const int32_t group = spec.q_heads / spec.kv_heads;
    int64_t keys = 0;
    for (const auto& place : places_) {
        keys += spec.window == 0 ? place.position + 1 : std::min<int64_t>(spec.window, place.position + 1);
    }
    const int64_t cost_per_item = std::max<int64_t>(1, 2 * keys / rows * spec.head_dim);
    for_rows(rows * spec.q_heads, cost_per_item, [&](int thread, int64_t item) {
        const int64_t index = item / spec.q_heads;
        const auto head = static_cast<int32_t>(item % spec.q_heads);
        const int32_t column = head * spec.head_dim;
        attend_head(scratch_[static_cast<size_t>(thread)], row(q, index) + column, places_[static_cast<size_t>(index)],
                    kv.layer, head / group, spec, row(out, index) + column);
    });
    return out;
}

void CpuOps::attend_head(Scratch& scratch, const float* q, const RowPlace& place, int32_t layer, int32_t kv_head,
                         const checkpoint::LayerSpec& spec, float* out) {
    const LayerCache& cache = place.cache->layer(layer);
    const int64_t first = spec.window == 0 ? 0 : std::max<int64_t>(0, place.position - spec.window + 1);
    const int64_t count = place.position + 1 - first;
    // The softmax sums by absolute position mod 8: leading and trailing places hold minus infinity, whose exp is 0.
    const int64_t lead = first % 8;
    const int64_t padded = (lead + count + 7) / 8 * 8;
    const auto head_dim = static_cast<size_t>(spec.head_dim);
    if (scratch.scores.size() < static_cast<size_t>(padded)) scratch.scores.resize(static_cast<size_t>(padded) * 2);
    scratch.sums.assign(4 * head_dim, 0.0F);
    float* scores = scratch.scores.data();
    constexpr float kMasked = -std::numeric_limits<float>::infinity();
    std::fill_n(scores, lead, kMasked);
    std::fill(scores + lead + count, scores + padded, kMasked);

    const auto stretches = cache.stretches(first, count);
    const auto width = static_cast<size_t>(cache.width);
    const auto offset = [&](const LayerCache::Stretch& part) {
        return static_cast<size_t>(part.row) * width + static_cast<size_t>(kv_head) * head_dim;
    };
    for (const auto& part : stretches.parts) {
        float* part_scores = scores + lead + (part.first_position - first);
        if (part.count == 0) continue;
        if (cache.keys_bf16) {
            kernels_.scores_bf16(q, cache.keys_bf16.get() + offset(part), width, part.count, spec.head_dim, part_scores,
                                 round_);
        } else {
            kernels_.scores_f32(q, cache.keys_f32.get() + offset(part), width, part.count, spec.head_dim, part_scores,
                                round_);
        }
    }
    kernels_.softmax(scores, padded, round_);
    float* sums = scratch.sums.data();
    for (const auto& part : stretches.parts) {
        const float* probabilities = scores + lead + (part.first_position - first);
        if (part.count == 0) continue;
        if (cache.values_bf16) {
            kernels_.accumulate_bf16(probabilities, cache.values_bf16.get() + offset(part), width, part.count,
                                     spec.head_dim, part.first_position, sums);
        } else {
            kernels_.accumulate_f32(probabilities, cache.values_f32.get() + offset(part), width, part.count,
                                    spec.head_dim, part.first_position, sums);
        }
    }
    for (size_t column = 0; column < head_dim; ++column) {
        const float value =
            ((sums[column] + sums[head_dim + column]) + sums[2 * head_dim + column]) + sums[3 * head_dim + column];
        out[column] = round_ ? round_bf16(value) : value;
    }
}

}  // namespace gemmatrace::cpu
