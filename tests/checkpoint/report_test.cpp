// The inspect document of a small checkpoint, and that its sums agree with the store.
#include "checkpoint/report.h"

#include <gtest/gtest.h>

#include "checkpoint/tiny_checkpoint.h"

namespace gemmatrace::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

// The tiny checkpoint with an equal head, a vision tensor and one unused key projection, loaded and described.
Json describe_tiny() {
    const testing::TemporaryFolder folder;
    auto tensors = tiny_tensors();
    auto head = tensors.front();
    head.name = "lm_head.weight";
    tensors.push_back(head);
    tensors.push_back(testing::filled_tensor("model.vision_tower.std_bias", {3}, 1.0F));
    tensors.push_back({"model.language_model.layers.2.self_attn.k_norm.weight", "F32", {4}, std::string(16, '\0')});
    testing::write_bytes(folder / "model.safetensors", testing::safetensors_file(tensors));
    const ModelConfig config = parse_config(tiny_config_document(), "config.json");
    const TensorStore store = TensorStore::open(folder.path());
    Ledger ledger(store, config);
    for (const TinySlot& slot : tiny_slots()) ledger.take(slot.name, slot.shape);
    ledger.take_untied_head(*store.find("model.language_model.embed_tokens.weight"));
    ledger.close();
    return describe_checkpoint(config, store, ledger);
}

const Json& row(const Json& rows, const std::string& key, const std::string& name) {
    for (const Json& entry : rows) {
        if (entry[key] == name) return entry;
    }
    throw std::runtime_error("no row " + name);
}

TEST(Report, NamesModelAndLayers) {
    const Json document = describe_tiny();
    EXPECT_EQ(document["model"]["model_type"], "gemma4");
    EXPECT_EQ(document["model"]["layers"], 4);
    EXPECT_EQ(document["model"]["final_softcap"], nullptr);
    EXPECT_EQ(document["model"]["has_untied_head"], false);
    EXPECT_EQ(document["model"]["rope"]["full"]["rotated_pairs"], 1);
    ASSERT_EQ(document["layers"].size(), 4U);
    EXPECT_EQ(document["layers"][3].dump(),
              R"({"index":3,"attention":"full","q_heads":2,"kv_heads":1,"head_dim":8,"window":0,"k_eq_v":false,)"
              R"("shares_kv":true,"kv_layer":1,"ff":6,"experts":0,"top_k":0,"expert_ff":0})");
}

TEST(Report, CountsConsumedByGroupAndIgnoredByReason) {
    const Json document = describe_tiny();
    EXPECT_EQ(row(document["groups"], "group", "embedding")["bytes"], 160);
    EXPECT_EQ(row(document["groups"], "group", "per_layer_table")["bytes"], 160);
    // Four layers of q and o, two of k and v; norms are a group of their own.
    EXPECT_EQ(row(document["groups"], "group", "attention")["tensors"], 12);
    EXPECT_EQ(row(document["groups"], "group", "mlp")["bytes"], 4 * 3 * 6 * 8 * 2);
    EXPECT_EQ(row(document["groups"], "group", "other")["tensors"], 9);  // gates and projections of the embeddings
    EXPECT_EQ(row(document["groups"], "group", "norms_and_scalars")["tensors"], 2 + 4 * 7 + 2);
    EXPECT_EQ(document["ignored"].size(), 3U);
    EXPECT_EQ(row(document["ignored"], "reason", "vision_tower")["bytes"], 6);
    EXPECT_EQ(row(document["ignored"], "reason", "equal_head")["bytes"], 160);
    EXPECT_EQ(row(document["ignored"], "reason", "shared_layer_kv")["bytes"], 16);
    EXPECT_EQ(row(document["dtypes"], "dtype", "F32")["tensors"], 1);
    EXPECT_EQ(document["files"][0]["name"], "model.safetensors");
}

TEST(Report, TheSumsAgree) {
    const Json document = describe_tiny();
    const auto sum = [&](const char* rows, const char* field) {
        size_t total = 0;
        for (const Json& entry : document[rows]) total += entry[field].get<size_t>();
        return total;
    };
    for (const char* field : {"tensors", "bytes"}) {
        EXPECT_EQ(sum("groups", field), document["consumed"][field]);
        EXPECT_EQ(sum("groups", field) + sum("ignored", field), document["total"][field]);
        EXPECT_EQ(sum("dtypes", field), document["total"][field]);
    }
}

}  // namespace
}  // namespace gemmatrace::checkpoint
