// Attention over the cache: each row on its own, in the order of absolute positions.
#include <algorithm>
#include <limits>

#include "base/bf16.h"
#include "cpu/cpu_ops.h"

namespace gemmatrace::cpu {

using model::KeysValues;
using model::Value;

namespace {

constexpr int32_t kHeadsTogether = 8;
constexpr int64_t kKeysAtOnce = 128;

}  // namespace

KeysValues CpuOps::keep(int32_t layer, Value keys, Value values) {
    for (size_t index = 0; index < places_.size(); ++index) {
        const auto token = static_cast<int64_t>(index);
        places_[index].cache->layer(layer).store(places_[index].position, row(keys, token), row(values, token));
    }
    return {layer, keys, values};
}

// An item is a row and some of the query heads that read one KV head: they share the reading of keys and values.
Value CpuOps::attend(Value q, const KeysValues& kv, const checkpoint::LayerSpec& spec) {
    const int64_t rows = matrix(q).rows;
    const Value out = make(rows, q.columns);
    const int32_t group = spec.q_heads / spec.kv_heads;
    // As many heads together as leave every thread some items.
    int32_t heads = std::min(group, kHeadsTogether);
    while (heads > 1 && rows * spec.q_heads / heads < 2 * pool_.size()) heads /= 2;
    const int32_t items_per_group = (group + heads - 1) / heads;
    const int32_t items_per_row = spec.kv_heads * items_per_group;
    int64_t keys = 0;
    for (const auto& place : places_) {
        keys += spec.window == 0 ? place.position + 1 : std::min<int64_t>(spec.window, place.position + 1);
    }
    const int64_t cost_per_item = std::max<int64_t>(1, 2 * keys / rows * spec.head_dim * heads);
    for_rows(rows * items_per_row, cost_per_item, [&](int thread, int64_t item) {
        const int64_t index = item / items_per_row;
        const auto place = static_cast<int32_t>(item % items_per_row);
        const int32_t kv_head = place / items_per_group;
        const int32_t first = place % items_per_group * heads;  // of the group
        const HeadRun run = {kv_head * group + first, std::min(heads, group - first), kv_head};
        const int32_t column = run.first * spec.head_dim;
        attend_heads(scratch_[static_cast<size_t>(thread)], row(q, index) + column, places_[static_cast<size_t>(index)],
                     kv.layer, run, spec, row(out, index) + column);
    });
    return out;
}

void CpuOps::attend_heads(Scratch& scratch, const float* q, const RowPlace& place, int32_t layer, const HeadRun& run,
                          const checkpoint::LayerSpec& spec, float* out) {
    const LayerCache& cache = place.cache->layer(layer);
    const int64_t first = spec.window == 0 ? 0 : std::max<int64_t>(0, place.position - spec.window + 1);
    const int64_t count = place.position + 1 - first;
    // The softmax sums by absolute position mod 8: leading and trailing places hold minus infinity, whose exp is 0.
    const int64_t lead = first % 8;
    const auto padded = static_cast<size_t>((lead + count + 7) / 8 * 8);
    const auto head_dim = static_cast<size_t>(spec.head_dim);
    const auto heads = static_cast<size_t>(run.count);
    if (scratch.scores.size() < padded * heads) scratch.scores.resize(padded * heads * 2);
    scratch.sums.assign(heads * 4 * head_dim, 0.0F);
    float* scores = scratch.scores.data();
    constexpr float kMasked = -std::numeric_limits<float>::infinity();
    for (size_t head = 0; head < heads; ++head) {
        std::fill_n(scores + head * padded, lead, kMasked);
        std::fill(scores + head * padded + lead + count, scores + (head + 1) * padded, kMasked);
    }

    const auto stretches = cache.stretches(first, count);
    const auto width = static_cast<size_t>(cache.width);
    const auto offset = [&](const LayerCache::Stretch& part) {
        return static_cast<size_t>(part.row) * width + static_cast<size_t>(run.kv_head) * head_dim;
    };
    for (const auto& part : stretches.parts) {
        float* part_scores = scores + lead + (part.first_position - first);
        if (part.count == 0) continue;
        if (cache.keys_bf16) {
            kernels_.scores_bf16(q, run.count, cache.keys_bf16.get() + offset(part), width, part.count, spec.head_dim,
                                 part_scores, padded, round_);
        } else {
            kernels_.scores_f32(q, run.count, cache.keys_f32.get() + offset(part), width, part.count, spec.head_dim,
                                part_scores, padded, round_);
        }
    }
    for (size_t head = 0; head < heads; ++head) {
        kernels_.softmax(scores + head * padded, static_cast<int64_t>(padded), round_);
    }
    for (const auto& part : stretches.parts) {
        // Some keys at a time: their values are read once for each few columns, so they had better stay in a cache.
        for (int64_t done = 0; done < part.count; done += kKeysAtOnce) {
            const float* probabilities = scores + lead + (part.first_position - first) + done;
            const int64_t some = std::min(kKeysAtOnce, part.count - done);
            const size_t at = offset(part) + static_cast<size_t>(done) * width;
            const int64_t position = part.first_position + done;
            if (cache.values_bf16) {
                kernels_.accumulate_bf16(probabilities, padded, run.count, cache.values_bf16.get() + at, width, some,
                                         spec.head_dim, position, scratch.sums.data());
            } else {
                kernels_.accumulate_f32(probabilities, padded, run.count, cache.values_f32.get() + at, width, some,
                                        spec.head_dim, position, scratch.sums.data());
            }
        }
    }
    for (size_t head = 0; head < heads; ++head) {
        const float* sums = scratch.sums.data() + head * 4 * head_dim;
        for (size_t column = 0; column < head_dim; ++column) {
            const float value =
                ((sums[column] + sums[head_dim + column]) + sums[2 * head_dim + column]) + sums[3 * head_dim + column];
            out[head * head_dim + column] = round_ ? round_bf16(value) : value;
        }
    }
}

}  // namespace gemmatrace::cpu
