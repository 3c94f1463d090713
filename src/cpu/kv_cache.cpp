// Layout of the cache: position-outermost rows, [capacity, kv_heads * head_dim].
#include "cpu/kv_cache.h"

#include <algorithm>

#include "base/bf16.h"

namespace gemmatrace::cpu {
namespace {

// Rows a layer needs. A ring holds the window of the first token of a chunk and the chunk itself.
int64_t layer_rows(const checkpoint::LayerSpec& spec, int64_t capacity_tokens, int32_t chunk_tokens) {
    if (spec.shares_kv) return 0;
    if (spec.window == 0) return capacity_tokens;
    return std::min<int64_t>(capacity_tokens, int64_t{spec.window} - 1 + chunk_tokens);
}

}  // namespace

LayerCache::Stretches LayerCache::stretches(int64_t first, int64_t count) const {
    const int64_t row = first % capacity;
    const int64_t until_wrap = std::min(count, capacity - row);
    return {{{row, first, until_wrap}, {0, first + until_wrap, count - until_wrap}}};
}

void LayerCache::store(int64_t position, const float* keys, const float* values) {
    const int64_t offset = position % capacity * width;
    if (keys_f32) {
        std::copy_n(keys, width, keys_f32.get() + offset);
        std::copy_n(values, width, values_f32.get() + offset);
        return;
    }
    std::transform(keys, keys + width, keys_bf16.get() + offset, float_to_bf16);
    std::transform(values, values + width, values_bf16.get() + offset, float_to_bf16);
}

KvCache::KvCache(const checkpoint::ModelConfig& config, model::Precision precision, int64_t capacity_tokens,
                 int32_t chunk_tokens)
    : layers_(config.layers.size()), capacity_(capacity_tokens) {
    for (size_t index = 0; index < layers_.size(); ++index) {
        const auto& spec = config.layers[index];
        LayerCache& layer = layers_[index];
        layer.capacity = layer_rows(spec, capacity_tokens, chunk_tokens);
        layer.width = spec.kv_heads * spec.head_dim;
        const size_t elements = static_cast<size_t>(layer.capacity) * static_cast<size_t>(layer.width);
        if (elements == 0) continue;
        if (precision == model::Precision::bf16) {
            layer.keys_bf16 = std::make_unique_for_overwrite<uint16_t[]>(elements);
            layer.values_bf16 = std::make_unique_for_overwrite<uint16_t[]>(elements);
        } else {
            layer.keys_f32 = std::make_unique_for_overwrite<float[]>(elements);
            layer.values_f32 = std::make_unique_for_overwrite<float[]>(elements);
        }
    }
}

size_t KvCache::bytes(const checkpoint::ModelConfig& config, model::Precision precision, int64_t capacity_tokens,
                      int32_t chunk_tokens) {
    const size_t element = precision == model::Precision::bf16 ? sizeof(uint16_t) : sizeof(float);
    size_t total = 0;
    for (const auto& spec : config.layers) {
        total += 2 * element * static_cast<size_t>(layer_rows(spec, capacity_tokens, chunk_tokens)) *
                 static_cast<size_t>(spec.kv_heads) * static_cast<size_t>(spec.head_dim);
    }
    return total;
}

}  // namespace gemmatrace::cpu
