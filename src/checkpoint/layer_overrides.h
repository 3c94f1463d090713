// per_layer_config: how Transformers 5.15 and later write the sizes that differ between layers.
#pragma once

#include <optional>
#include <vector>

#include "checkpoint/fields.h"

namespace gemmatrace::checkpoint {

// The sizes that the newer form states a layer.
struct LayerShape {
    int32_t head_dim = 0;
    int32_t kv_heads = 0;
    bool operator==(const LayerShape&) const = default;
};

// The shape of each layer by per_layer_config, {"5": {"head_dim": 512, …}, …}: what it does not override is `base`.
// Nothing when the key is absent or null. Throws Error(corrupt) for a broken entry, Error(unsupported) for an override
// of a key that is neither of the two and differs from the flat one.
std::optional<std::vector<LayerShape>> read_layer_overrides(const Fields& text, size_t layer_count,
                                                            const LayerShape& base);

}  // namespace gemmatrace::checkpoint
