// Keys and values of one sequence: a ring for sliding layers, a growing run for full ones, nothing for shared layers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "checkpoint/config.h"
#include "model/precision.h"

namespace gemmatrace::cpu {

// One layer's storage: position p lies in row p mod capacity. Elements are bf16 bits or floats.
struct LayerCache {
    int64_t capacity = 0;  // rows; 0 for a layer that owns none
    int32_t width = 0;     // kv_heads * head_dim
    std::unique_ptr<uint16_t[]> keys_bf16, values_bf16;
    std::unique_ptr<float[]> keys_f32, values_f32;

    // Up to two stretches of consecutive rows that hold positions [first, first + count), oldest first.
    struct Stretch {
        int64_t row = 0;
        int64_t first_position = 0;
        int64_t count = 0;
    };
    struct Stretches {
        Stretch parts[2];
    };
    Stretches stretches(int64_t first, int64_t count) const;

    // Bytes of one row of keys, and where rows begin.
    size_t row_bytes() const { return static_cast<size_t>(width) * (keys_f32 ? sizeof(float) : sizeof(uint16_t)); }
    std::byte* rows(bool of_keys);
    const std::byte* rows(bool of_keys) const { return const_cast<LayerCache*>(this)->rows(of_keys); }

    // Stores one position's keys and values, [width] each.
    void store(int64_t position, const float* keys, const float* values);
};

class KvCache {
  public:
    // Room for capacity_tokens positions, of which a step writes at most chunk_tokens before it reads.
    // Storage is reserved, not touched: pages become real as positions are written.
    KvCache(const checkpoint::ModelConfig& config, model::Precision precision, int64_t capacity_tokens,
            int32_t chunk_tokens);

    LayerCache& layer(int32_t index) { return layers_[static_cast<size_t>(index)]; }
    int64_t length() const { return length_; }
    int64_t capacity() const { return capacity_; }
    // After a step has stored the positions up to `length`.
    void advance(int64_t length);

    // Whether the rings still hold the window before position `length`, which must not be after the end.
    bool can_trim(int64_t length) const;
    // Forgets what comes after `length`. Asks for can_trim(length).
    void trim(int64_t length);
    // Empties the cache and gives its memory back to the system.
    void release();

    // The window before one position, of all rings: [rows, width] of keys, then of values, layer after layer.
    struct Window {
        int64_t length = 0;
        std::vector<std::byte> bytes;
    };
    // Asks for can_trim(length).
    Window save_window(int64_t length) const;
    // Becomes the first `length` positions of `from` (same geometry), whose rings are not asked: the window comes from
    // `window`, taken at that length. `from` may be this cache.
    void copy_prefix(const KvCache& from, const Window& window);
    // Bytes of a window when full.
    size_t window_bytes() const;

    // Bytes of such a cache when full.
    static size_t bytes(const checkpoint::ModelConfig& config, model::Precision precision, int64_t capacity_tokens,
                        int32_t chunk_tokens);

  private:
    bool is_ring(const LayerCache& layer) const { return layer.capacity > 0 && layer.capacity < capacity_; }
    int64_t window_begin(int64_t length) const { return std::max<int64_t>(0, length - window_rows_); }

    std::vector<LayerCache> layers_;
    int64_t length_ = 0;
    int64_t capacity_ = 0;
    int64_t ring_rows_ = 0;    // of the smallest ring; 0 without rings
    int64_t window_rows_ = 0;  // earlier positions that a ring must hold for the next token
    int64_t oldest_ = 0;       // position from which on the rings hold everything
};

}  // namespace gemmatrace::cpu
