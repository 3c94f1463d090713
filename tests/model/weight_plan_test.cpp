// The slots of a small model: names, shapes and roles as the files store them.
#include "model/weight_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace gemmatrace::model {
namespace {

using checkpoint::AttentionKind;
using checkpoint::LayerSpec;
using checkpoint::ModelConfig;

ModelConfig two_layers() {
    ModelConfig config;
    config.hidden_size = 8;
    config.vocab_size = 10;
    LayerSpec sliding;
    sliding.q_heads = 4;
    sliding.kv_heads = 2;
    sliding.head_dim = 2;
    sliding.window = 4;
    sliding.ff = 16;
    LayerSpec full = sliding;
    full.attention = AttentionKind::full;
    full.window = 0;
    full.kv_heads = 1;
    full.head_dim = 4;
    full.k_eq_v = true;
    full.kv_layer = 1;
    config.layers = {sliding, full};
    return config;
}

const WeightSlot* find(const std::vector<WeightSlot>& slots, const std::string& name) {
    const auto slot =
        std::find_if(slots.begin(), slots.end(), [&](const WeightSlot& entry) { return entry.name == name; });
    return slot == slots.end() ? nullptr : &*slot;
}

TEST(WeightPlan, NamesShapesAndRolesOfADenseLayer) {
    const auto slots = weight_plan(two_layers());
    const WeightSlot* q = find(slots, "layers.1.self_attn.q_proj.weight");
    ASSERT_NE(q, nullptr);
    EXPECT_EQ(q->shape, (std::vector<int64_t>{16, 8}));
    EXPECT_EQ(q->role, WeightRole::column);
    EXPECT_EQ(find(slots, "layers.0.self_attn.v_proj.weight")->shape, (std::vector<int64_t>{4, 8}));
    EXPECT_EQ(find(slots, "layers.1.self_attn.v_proj.weight"), nullptr) << "values are the key projection";
    EXPECT_EQ(find(slots, "layers.0.self_attn.o_proj.weight")->role, WeightRole::row);
    EXPECT_EQ(find(slots, "layers.0.layer_scalar")->shape, (std::vector<int64_t>{1}));
    EXPECT_EQ(find(slots, "embed_tokens.weight")->role, WeightRole::vocabulary);
    EXPECT_EQ(find(slots, "embed_tokens_per_layer.weight"), nullptr);
}

TEST(WeightPlan, ASharedLayerHasNoKeysAndValuesOfItsOwn) {
    ModelConfig config = two_layers();
    LayerSpec shared = config.layers[0];
    shared.shares_kv = true;
    shared.kv_layer = 0;
    config.layers.push_back(shared);
    const auto plan = plan_weights(config, false);
    EXPECT_FALSE(plan.weights.layers[2].k_proj.has_value());
    EXPECT_EQ(find(plan.slots, "layers.2.self_attn.k_norm.weight"), nullptr);
    EXPECT_NE(find(plan.slots, "layers.2.self_attn.q_norm.weight"), nullptr);
}

TEST(WeightPlan, PerLayerEmbeddingsAndExpertsAddTheirSlots) {
    ModelConfig config = two_layers();
    config.ple_dim = 3;
    config.ple_vocab_size = 10;
    config.layers[0].moe = checkpoint::MoeSpec{6, 2, 5};
    const auto slots = weight_plan(config);
    EXPECT_EQ(find(slots, "embed_tokens_per_layer.weight")->shape, (std::vector<int64_t>{10, 6}));
    EXPECT_EQ(find(slots, "embed_tokens_per_layer.weight")->role, WeightRole::host_table);
    EXPECT_EQ(find(slots, "layers.0.experts.gate_up_proj")->shape, (std::vector<int64_t>{6, 10, 8}));
    EXPECT_EQ(find(slots, "layers.0.experts.gate_up_proj")->role, WeightRole::expert);
    EXPECT_EQ(find(slots, "layers.1.experts.gate_up_proj"), nullptr);
}

TEST(WeightPlan, TheHeadIsTheEmbeddingUnlessAnotherIsStored) {
    const auto tied = plan_weights(two_layers(), false);
    EXPECT_EQ(tied.weights.head.slot, tied.weights.embedding.slot);
    const auto untied = plan_weights(two_layers(), true);
    EXPECT_NE(untied.weights.head.slot, untied.weights.embedding.slot);
    EXPECT_EQ(untied.slots.back().name, "lm_head.weight");
}

}  // namespace
}  // namespace gemmatrace::model
