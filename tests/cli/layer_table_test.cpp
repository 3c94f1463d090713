// The layer plan as people read it, and what its keys and values cost.
#include "cli/layer_table.h"

#include <gtest/gtest.h>

#include "cli/sizes.h"

namespace gemmatrace::cli {
namespace {

using checkpoint::AttentionKind;
using checkpoint::LayerSpec;

// Four sliding layers and a full one, twice; the second five read the keys and values of the first.
checkpoint::ModelConfig small_config() {
    checkpoint::ModelConfig config;
    for (int32_t layer = 0; layer < 10; ++layer) {
        const bool is_full = layer % 5 == 4;
        LayerSpec spec;
        spec.attention = is_full ? AttentionKind::full : AttentionKind::sliding;
        spec.q_heads = 8;
        spec.kv_heads = 1;
        spec.head_dim = is_full ? 512 : 256;
        spec.window = is_full ? 0 : 64;
        spec.shares_kv = layer >= 5;
        spec.kv_layer = layer < 5 ? layer : (is_full ? 4 : 3);
        spec.ff = layer < 5 ? 100 : 200;
        config.layers.push_back(spec);
    }
    return config;
}

TEST(LayerTableTest, equal_layers_share_a_line) {
    EXPECT_EQ(layer_table(small_config().layers),
              "  0-3  sliding W=64     q8 kv1 d256  ff100\n"
              "  4    full             q8 kv1 d512  ff100\n"
              "  5-8  sliding W=64     q8 kv1 d256 kv of layer 3  ff200\n"
              "  9    full             q8 kv1 d512 kv of layer 4  ff200\n");
}

TEST(LayerTableTest, runs_are_joined_with_commas) {
    auto layers = small_config().layers;
    layers[6] = layers[0];
    layers[8].moe = checkpoint::MoeSpec{.experts = 128, .top_k = 8, .ff = 704};
    const std::string table = layer_table(layers);
    EXPECT_NE(table.find("  0-3, 6  sliding"), std::string::npos) << table;
    EXPECT_NE(table.find("  5, 7    sliding"), std::string::npos) << table;
    EXPECT_NE(table.find("ff200 + 8 of 128 experts ff704\n"), std::string::npos) << table;
}

TEST(KvSizesTest, only_layers_that_own_a_cache_count_and_the_window_bounds_the_sliding_ones) {
    const KvSizes sizes = kv_sizes(small_config());
    EXPECT_EQ(sizes.full_bytes_per_token, 2 * 512 * 2);
    EXPECT_EQ(sizes.sliding_bytes_per_token, 4 * 2 * 256 * 2);
    EXPECT_EQ(sizes.window_tokens, 64);
    EXPECT_EQ(sizes.bytes_at(10), 10 * (2048 + 4096));
    EXPECT_EQ(sizes.bytes_at(1000), 1000 * 2048 + 64 * 4096);
}

TEST(SizeTextTest, units_fit_the_size) {
    EXPECT_EQ(size_text(0), "0 bytes");
    EXPECT_EQ(size_text(9999), "9999 bytes");
    EXPECT_EQ(size_text(20480), "20.5 kB (20.0 KiB)");
    EXPECT_EQ(size_text(3'580'000), "3.58 MB (3.41 MiB)");
    EXPECT_EQ(size_text(10'246'357'958), "10.25 GB (9.54 GiB)");
}

}  // namespace
}  // namespace gemmatrace::cli
