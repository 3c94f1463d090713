// The five published configs, read into the table of gemma4.md 1.1.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/config.h"
#include "checkpoint/synth.h"
#include "support/expect_error.h"

namespace gemmatrace::checkpoint {
namespace {

using testing::expect_error;

ModelConfig published(std::string_view size, std::optional<int32_t> layers = std::nullopt) {
    return parse_config(published_config(size, layers), "config.json");
}

// What the table says of one size; kv heads and ff of the first sliding and the first full layer.
struct PublishedRow {
    std::string_view size;
    std::string_view model_type;
    int32_t hidden_size;
    size_t layers;
    int32_t q_heads;
    int32_t sliding_kv_heads;
    int32_t full_kv_heads;
    int32_t ff;
    size_t full_layers;
    int32_t window;
    int32_t ple_dim;
    int64_t positions;
    bool k_eq_v;
};
const std::vector<PublishedRow> kRows{
    {"E2B", "gemma4", 1536, 35, 8, 1, 1, 6144, 7, 512, 256, 131072, false},
    {"E4B", "gemma4", 2560, 42, 8, 2, 2, 10240, 7, 512, 256, 131072, false},
    {"12B", "gemma4_unified", 3840, 48, 16, 8, 1, 15360, 8, 1024, 0, 262144, true},
    {"26B", "gemma4", 2816, 30, 16, 8, 2, 2112, 5, 1024, 0, 262144, true},
    {"31B", "gemma4", 5376, 60, 32, 16, 4, 21504, 10, 1024, 0, 262144, true},
};

TEST(PublishedConfig, F110AllFiveSizesGiveTheirTable) {
    for (const PublishedRow& row : kRows) {
        SCOPED_TRACE(row.size);
        const ModelConfig config = published(row.size);
        EXPECT_EQ(config.model_type, row.model_type);
        EXPECT_FALSE(config.is_text_only);
        EXPECT_EQ(config.hidden_size, row.hidden_size);
        EXPECT_EQ(config.vocab_size, 262144);
        EXPECT_EQ(config.ple_dim, row.ple_dim);
        EXPECT_EQ(config.ple_vocab_size, row.ple_dim == 0 ? 0 : 262144);
        EXPECT_EQ(config.max_position_embeddings, row.positions);
        EXPECT_EQ(config.sliding_window, row.window);
        EXPECT_EQ(config.final_softcap, 30.0);
        EXPECT_EQ(config.rms_norm_eps, 1e-6);
        EXPECT_EQ(config.dtype, "bfloat16");
        EXPECT_TRUE(config.tie_word_embeddings);
        EXPECT_EQ(config.pad_token_id, 0);
        EXPECT_EQ(config.bos_token_id, 2);
        EXPECT_EQ(config.eos_token_ids, (std::vector<int32_t>{1, 106}));
        EXPECT_EQ(config.media_token_ids, (std::vector<int32_t>{258880, 258881, 258884}));
        ASSERT_EQ(config.layers.size(), row.layers);
        size_t full_layers = 0;
        for (size_t layer = 0; layer < config.layers.size(); ++layer) {
            const LayerSpec& spec = config.layers[layer];
            const bool is_full = spec.attention == AttentionKind::full;
            full_layers += is_full ? 1 : 0;
            EXPECT_EQ(is_full, (layer + 1) % (row.layers / row.full_layers) == 0) << layer;
            EXPECT_EQ(spec.q_heads, row.q_heads);
            EXPECT_EQ(spec.kv_heads, is_full ? row.full_kv_heads : row.sliding_kv_heads) << layer;
            EXPECT_EQ(spec.head_dim, is_full ? 512 : 256) << layer;
            EXPECT_EQ(spec.window, is_full ? 0 : row.window) << layer;
            EXPECT_EQ(spec.k_eq_v, row.k_eq_v && is_full) << layer;
        }
        EXPECT_EQ(full_layers, row.full_layers);
        EXPECT_EQ(config.layers.front().ff, row.ff);
    }
}

TEST(PublishedConfig, RopeTurns128PairsOnSlidingAnd64OnFullLayers) {
    for (const PublishedRow& row : kRows) {
        SCOPED_TRACE(row.size);
        const ModelConfig config = published(row.size);
        EXPECT_EQ(config.sliding_rope.theta, 1e4);
        EXPECT_EQ(config.sliding_rope.rotated_pairs, 128);
        EXPECT_EQ(config.sliding_rope.factor, 1.0);
        EXPECT_EQ(config.full_rope.theta, 1e6);
        EXPECT_EQ(config.full_rope.rotated_pairs, 64);
        EXPECT_EQ(config.full_rope.factor, 1.0);
    }
}

void expect_donors(const ModelConfig& config, size_t first_shared, int32_t sliding_donor, int32_t full_donor) {
    for (size_t layer = 0; layer < config.layers.size(); ++layer) {
        const LayerSpec& spec = config.layers[layer];
        EXPECT_EQ(spec.shares_kv, layer >= first_shared) << layer;
        const int32_t donor = spec.attention == AttentionKind::full ? full_donor : sliding_donor;
        EXPECT_EQ(spec.kv_layer, spec.shares_kv ? donor : static_cast<int32_t>(layer)) << layer;
    }
}

TEST(PublishedConfig, SharedLayersReadTheLastOwnLayerOfTheirKind) {
    expect_donors(published("E2B"), 15, 13, 14);
    expect_donors(published("E4B"), 24, 22, 23);
    for (const std::string_view size : {"12B", "26B", "31B"}) {
        const ModelConfig config = published(size);
        expect_donors(config, config.layers.size(), -1, -1);
    }
}

TEST(PublishedConfig, OnlyTheSharedLayersOfE2BAreDoubleWide) {
    const ModelConfig e2b = published("E2B");
    for (size_t layer = 0; layer < 35; ++layer) EXPECT_EQ(e2b.layers[layer].ff, layer >= 15 ? 12288 : 6144) << layer;
    for (const LayerSpec& layer : published("E4B").layers) EXPECT_EQ(layer.ff, 10240);
}

TEST(PublishedConfig, Only26BHasExperts) {
    for (const LayerSpec& layer : published("26B").layers) {
        ASSERT_TRUE(layer.moe.has_value());
        EXPECT_EQ(layer.moe->experts, 128);
        EXPECT_EQ(layer.moe->top_k, 8);
        EXPECT_EQ(layer.moe->ff, 704);
    }
    for (const std::string_view size : {"E2B", "E4B", "12B", "31B"}) {
        for (const LayerSpec& layer : published(size).layers) EXPECT_FALSE(layer.moe.has_value()) << size;
    }
}

TEST(PublishedConfig, EveryCutKeepsAFullLastLayerAndADonorForEverySharedLayer) {
    for (const PublishedRow& row : kRows) {
        for (int32_t layers = 1; layers <= static_cast<int32_t>(row.layers); ++layers) {
            SCOPED_TRACE(std::string(row.size) + " " + std::to_string(layers));
            const ModelConfig config = published(row.size, layers);
            ASSERT_EQ(config.layers.size(), static_cast<size_t>(layers));
            EXPECT_EQ(config.layers.back().attention, AttentionKind::full);
        }
    }
    expect_donors(published("E2B", 10), 5, 3, 4);
    expect_donors(published("E4B", 12), 7, 6, 5);
}

TEST(PublishedConfig, SizesAreFoundInAnyCaseAndOthersRefused) {
    EXPECT_EQ(published("e2b").hidden_size, 1536);
    EXPECT_EQ(published("26b").hidden_size, 2816);
    for (const std::string_view size : {"", "E2", "E2BB", "27B"}) {
        expect_error(ErrorCode::bad_request, {"no published size"}, [&] { published_config(size); });
    }
    for (const int32_t layers : {0, -1, 36}) {
        expect_error(ErrorCode::bad_request, {"E2B cannot have"}, [&] { published_config("E2B", layers); });
    }
}

}  // namespace
}  // namespace gemmatrace::checkpoint
