// How the model is divided over the ranks of tensor parallelism: the rules alone, for whoever packs or traces.
#pragma once

#include <cstdint>

#include "checkpoint/config.h"

namespace gemmatrace::model {

// The heads of one rank. Query heads are divided evenly; each rank holds the KV heads that its queries read, so that
// those that do not divide are held by several ranks. All ranks have the same counts.
struct HeadShard {
    int32_t q_heads = 0;   // of a rank: the global heads from rank * q_heads on
    int32_t kv_heads = 0;  // of a rank; q_heads = kv_heads * group
    int32_t group = 0;     // query heads that read one of them

    // The global KV head that is the `index`-th of `rank`, in a layer of `spec`.
    int32_t global_kv_head(const checkpoint::LayerSpec& spec, int32_t rank, int32_t index) const;
};

// Asks for a layer that check_sharding accepted.
HeadShard shard_heads(const checkpoint::LayerSpec& spec, int32_t ranks);

// Throws Error(unsupported), naming the size that does not divide, unless query heads, the widths of MLP and experts
// and the vocabulary of every layer divide by `ranks`.
void check_sharding(const checkpoint::ModelConfig& config, int32_t ranks);

}  // namespace gemmatrace::model
