// Runs of equal layers, compressed.
#include "cli/layer_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace gemmatrace::cli {
namespace {

constexpr int64_t kCacheElementBytes = 2;

std::string layer_text(const checkpoint::LayerSpec& layer) {
    const bool is_full = layer.attention == checkpoint::AttentionKind::full;
    std::string text = is_full ? "full            " : fmt::format("sliding W={:<6}", layer.window);
    text += fmt::format(" q{} kv{} d{}", layer.q_heads, layer.kv_heads, layer.head_dim);
    if (layer.k_eq_v) text += " k=v";
    if (layer.shares_kv) text += fmt::format(" kv of layer {}", layer.kv_layer);
    text += fmt::format("  ff{}", layer.ff);
    if (layer.moe) text += fmt::format(" + {} of {} experts ff{}", layer.moe->top_k, layer.moe->experts, layer.moe->ff);
    return text;
}

// "0-3, 5-8, 10" from ascending indices.
std::string ranges_text(const std::vector<size_t>& indices) {
    std::string text;
    for (size_t first = 0; first < indices.size();) {
        size_t last = first;
        while (last + 1 < indices.size() && indices[last + 1] == indices[last] + 1) ++last;
        if (!text.empty()) text += ", ";
        text += first == last ? fmt::format("{}", indices[first]) : fmt::format("{}-{}", indices[first], indices[last]);
        first = last + 1;
    }
    return text;
}

}  // namespace

std::string layer_table(std::span<const checkpoint::LayerSpec> layers) {
    std::vector<std::pair<std::string, std::vector<size_t>>> kinds;
    for (size_t layer = 0; layer < layers.size(); ++layer) {
        const std::string text = layer_text(layers[layer]);
        auto kind = std::ranges::find(kinds, text, &std::pair<std::string, std::vector<size_t>>::first);
        if (kind == kinds.end()) kind = kinds.insert(kinds.end(), {text, {}});
        kind->second.push_back(layer);
    }
    size_t width = 0;
    for (const auto& kind : kinds) width = std::max(width, ranges_text(kind.second).size());
    std::string table;
    for (const auto& [text, indices] : kinds) {
        table += fmt::format("  {:<{}}  {}\n", ranges_text(indices), width, text);
    }
    return table;
}

int64_t KvSizes::bytes_at(int64_t tokens) const {
    return full_bytes_per_token * tokens + sliding_bytes_per_token * std::min(tokens, window_tokens);
}

KvSizes kv_sizes(const checkpoint::ModelConfig& config) {
    KvSizes sizes;
    for (const checkpoint::LayerSpec& layer : config.layers) {
        if (layer.shares_kv) continue;
        const int64_t bytes = 2 * int64_t{layer.kv_heads} * layer.head_dim * kCacheElementBytes;  // keys and values
        const bool is_full = layer.attention == checkpoint::AttentionKind::full;
        (is_full ? sizes.full_bytes_per_token : sizes.sliding_bytes_per_token) += bytes;
        if (!is_full) sizes.window_tokens = std::max<int64_t>(sizes.window_tokens, layer.window);
    }
    return sizes;
}

}  // namespace gemmatrace::cli
