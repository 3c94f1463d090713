// Layout of the cache: position-outermost rows, [capacity, kv_heads * head_dim].
#include "cpu/kv_cache.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/bf16.h"
#include "base/error.h"

namespace gemmatrace::cpu {
namespace {

// Rows a layer needs. A ring holds the window of the first token of a chunk and the chunk itself.
int64_t layer_rows(const checkpoint::LayerSpec& spec, int64_t capacity_tokens, int32_t chunk_tokens) {
    if (spec.shares_kv) return 0;
    if (spec.window == 0) return capacity_tokens;
    return std::min<int64_t>(capacity_tokens, int64_t{spec.window} - 1 + chunk_tokens);
}

// Pages that lie wholly in the stretch become zeros that take no memory. Where that fails nothing is lost but memory.
void give_pages_back(std::byte* begin, size_t bytes) {
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const uintptr_t first = (reinterpret_cast<uintptr_t>(begin) + page - 1) / page * page;
    const uintptr_t last = (reinterpret_cast<uintptr_t>(begin) + bytes) / page * page;
    if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

}  // namespace

LayerCache::Stretches LayerCache::stretches(int64_t first, int64_t count) const {
    const int64_t row = first % capacity;
    const int64_t until_wrap = std::min(count, capacity - row);
    return {{{row, first, until_wrap}, {0, first + until_wrap, count - until_wrap}}};
}

std::byte* LayerCache::rows(bool of_keys) {
    if (keys_f32) return reinterpret_cast<std::byte*>(of_keys ? keys_f32.get() : values_f32.get());
    return reinterpret_cast<std::byte*>(of_keys ? keys_bf16.get() : values_bf16.get());
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
        if (is_ring(layer)) {
            ring_rows_ = ring_rows_ == 0 ? layer.capacity : std::min(ring_rows_, layer.capacity);
            window_rows_ = std::max<int64_t>(window_rows_, spec.window - 1);
        }
        if (precision == model::Precision::bf16) {
            layer.keys_bf16 = std::make_unique_for_overwrite<uint16_t[]>(elements);
            layer.values_bf16 = std::make_unique_for_overwrite<uint16_t[]>(elements);
        } else {
            layer.keys_f32 = std::make_unique_for_overwrite<float[]>(elements);
            layer.values_f32 = std::make_unique_for_overwrite<float[]>(elements);
        }
    }
}

void KvCache::advance(int64_t length) {
    length_ = length;
    if (ring_rows_ > 0) oldest_ = std::max(oldest_, length - ring_rows_);
}

bool KvCache::can_trim(int64_t length) const {
    return length == 0 || (length <= length_ && window_begin(length) >= oldest_);
}

void KvCache::trim(int64_t length) {
    require(can_trim(length), "the rings hold the window before the new end");
    length_ = length;
    if (length == 0) oldest_ = 0;
}

void KvCache::release() {
    length_ = 0;
    oldest_ = 0;
    for (LayerCache& layer : layers_) {
        const size_t bytes = static_cast<size_t>(layer.capacity) * layer.row_bytes();
        for (const bool of_keys : {true, false}) give_pages_back(layer.rows(of_keys), bytes);
    }
}

size_t KvCache::window_bytes() const {
    size_t bytes = 0;
    for (const LayerCache& layer : layers_) {
        if (is_ring(layer)) bytes += 2 * static_cast<size_t>(window_rows_) * layer.row_bytes();
    }
    return bytes;
}

KvCache::Window KvCache::save_window(int64_t length) const {
    require(can_trim(length), "the rings hold the window that is saved");
    Window window{length, {}};
    const int64_t begin = window_begin(length);
    for (const LayerCache& layer : layers_) {
        if (!is_ring(layer)) continue;
        for (const bool of_keys : {true, false}) {
            for (const auto& part : layer.stretches(begin, length - begin).parts) {
                const std::byte* rows = layer.rows(of_keys) + static_cast<size_t>(part.row) * layer.row_bytes();
                window.bytes.insert(window.bytes.end(), rows,
                                    rows + static_cast<size_t>(part.count) * layer.row_bytes());
            }
        }
    }
    return window;
}

void KvCache::copy_prefix(const KvCache& from, const Window& window) {
    const int64_t begin = window_begin(window.length);
    const std::byte* saved = window.bytes.data();
    for (size_t index = 0; index < layers_.size(); ++index) {
        LayerCache& layer = layers_[index];
        if (layer.capacity == 0) continue;
        for (const bool of_keys : {true, false}) {
            if (!is_ring(layer)) {
                if (&from == this) continue;
                std::memcpy(layer.rows(of_keys), from.layers_[index].rows(of_keys),
                            static_cast<size_t>(window.length) * layer.row_bytes());
                continue;
            }
            for (const auto& part : layer.stretches(begin, window.length - begin).parts) {
                const size_t bytes = static_cast<size_t>(part.count) * layer.row_bytes();
                if (bytes == 0) continue;
                std::memcpy(layer.rows(of_keys) + static_cast<size_t>(part.row) * layer.row_bytes(), saved, bytes);
                saved += bytes;
            }
        }
    }
    length_ = window.length;
    oldest_ = begin;
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
