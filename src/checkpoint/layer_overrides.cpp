// Reading per_layer_config, which 5.13 stores and ignores and later releases use instead of the global_ keys.
#include "checkpoint/layer_overrides.h"

#include <fmt/format.h>

#include <charconv>

namespace gemmatrace::checkpoint {
namespace {

// "5" -> 5, or nothing unless the whole key is the index of a layer.
std::optional<size_t> layer_index(const std::string& key, size_t layer_count) {
    size_t index = 0;
    const auto [end, problem] = std::from_chars(key.data(), key.data() + key.size(), index);
    if (problem != std::errc{} || end != key.data() + key.size() || index >= layer_count) return std::nullopt;
    return index;
}

LayerShape overridden(const Fields& text, const Fields& layer, const nlohmann::ordered_json& values,
                      const LayerShape& base) {
    for (const auto& [key, value] : values.items()) {
        if (key == "head_dim" || key == "num_key_value_heads") continue;
        const auto* flat = text.find(key);
        if (flat != nullptr && *flat == value) continue;
        throw layer.error(ErrorCode::unsupported, key, "differs from the other layers",
                          "only head_dim and num_key_value_heads may vary between layers");
    }
    return {layer.dimension("head_dim", base.head_dim), layer.dimension("num_key_value_heads", base.kv_heads)};
}

}  // namespace

std::optional<std::vector<LayerShape>> read_layer_overrides(const Fields& text, size_t layer_count,
                                                            const LayerShape& base) {
    const auto* given = text.find("per_layer_config");
    if (given == nullptr) return std::nullopt;
    const Fields overrides(*given, text.file(), text.field_name("per_layer_config"));
    std::vector<LayerShape> shapes(layer_count, base);
    for (const auto& [key, value] : given->items()) {
        const auto index = layer_index(key, layer_count);
        if (!index) {
            throw overrides.error(ErrorCode::corrupt, key, fmt::format("names no layer of {}", layer_count),
                                  "the keys must be layer numbers from 0");
        }
        shapes[*index] = overridden(text, Fields(value, text.file(), overrides.field_name(key)), value, base);
    }
    return shapes;
}

}  // namespace gemmatrace::checkpoint
