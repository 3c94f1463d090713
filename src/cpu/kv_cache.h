// Keys and values of one sequence: a ring for sliding layers, a growing run for full ones, nothing for shared layers.
#pragma once

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
    void set_length(int64_t length) { length_ = length; }

    // Bytes of such a cache when full.
    static size_t bytes(const checkpoint::ModelConfig& config, model::Precision precision, int64_t capacity_tokens,
                        int32_t chunk_tokens);

  private:
    std::vector<LayerCache> layers_;
    int64_t length_ = 0;
    int64_t capacity_ = 0;
};

}  // namespace gemmatrace::cpu
