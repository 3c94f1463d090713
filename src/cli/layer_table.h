// The layer plan in the form people read: equal layers on one line, and what their keys and values cost.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "checkpoint/config.h"

namespace gemmatrace::cli {

// One line for each kind of layer, in the order of first appearance, e.g.
//   "  0-3, 5-8   sliding W=512  q8 kv1 d256  ff6144".
std::string layer_table(std::span<const checkpoint::LayerSpec> layers);

// Bytes of keys and values in bf16, over the layers that own a cache.
struct KvSizes {
    int64_t full_bytes_per_token = 0;
    int64_t sliding_bytes_per_token = 0;
    int64_t window_tokens = 0;

    // What a sequence of that many tokens must keep.
    int64_t bytes_at(int64_t tokens) const;
};
KvSizes kv_sizes(const checkpoint::ModelConfig& config);

}  // namespace gemmatrace::cli
