// The ledger's promise, fault by fault: nothing defaulted, nothing padded, nothing unread without a reason.
#include "checkpoint/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/tiny_checkpoint.h"
#include "support/expect_error.h"

namespace gemmatrace::checkpoint {
namespace {

using testing::expect_error;
using testing::filled_tensor;
using ::testing::HasSubstr;
using testing::TensorToWrite;

constexpr const char* kPrefix = "model.language_model.";

class LedgerOfTinyCheckpoint : public ::testing::Test {
  protected:
    TensorToWrite& stored(const std::string& name) {
        const auto found =
            std::find_if(tensors_.begin(), tensors_.end(), [&](const auto& t) { return t.name == name; });
        EXPECT_NE(found, tensors_.end()) << name;
        return *found;
    }
    void remove(const std::string& name) {
        std::erase_if(tensors_, [&](const TensorToWrite& tensor) { return tensor.name == name; });
    }

    // Writes the tensors and opens a ledger on them.
    Ledger& open() {
        testing::write_bytes(folder_ / "model.safetensors", testing::safetensors_file(tensors_));
        config_ = parse_config(document_, "config.json");
        ledger_.reset();
        store_ = std::make_unique<TensorStore>(TensorStore::open(folder_.path()));
        ledger_ = std::make_unique<Ledger>(*store_, config_);
        return *ledger_;
    }
    // Fills every slot, settles the head and closes, as a loader does. Answers the untied head, null when tied.
    const StoredTensor* load() {
        Ledger& ledger = open();
        const StoredTensor* embedding = nullptr;
        for (const TinySlot& slot : tiny_slots()) {
            const StoredTensor& tensor = ledger.take(slot.name, slot.shape);
            if (slot.name == "embed_tokens.weight") embedding = &tensor;
        }
        const StoredTensor* head = ledger.take_untied_head(*embedding);
        ledger.close();
        return head;
    }
    void expect_load_error(const std::vector<std::string>& fragments) {
        expect_error(ErrorCode::mismatch, fragments, [&] { load(); });
    }
    size_t ignored_count(IgnoreReason reason) const {
        return static_cast<size_t>(std::count_if(ledger_->ignored().begin(), ledger_->ignored().end(),
                                                 [&](const auto& entry) { return entry.reason == reason; }));
    }

    testing::TemporaryFolder folder_;
    std::vector<TensorToWrite> tensors_ = tiny_tensors();
    nlohmann::ordered_json document_ = tiny_config_document();
    ModelConfig config_;
    std::unique_ptr<TensorStore> store_;
    std::unique_ptr<Ledger> ledger_;
};

TEST_F(LedgerOfTinyCheckpoint, AWholeCheckpointIsConsumedToTheLastTensor) {
    EXPECT_EQ(load(), nullptr);
    EXPECT_EQ(ledger_->prefix(), kPrefix);
    EXPECT_EQ(ledger_->consumed().size(), tensors_.size());
    EXPECT_TRUE(ledger_->ignored().empty());
}

TEST_F(LedgerOfTinyCheckpoint, F111TheNameWithoutTheLeadingModelIsFoundToo) {
    tensors_ = tiny_tensors("language_model.");
    load();
    EXPECT_EQ(ledger_->prefix(), "language_model.");
}

TEST_F(LedgerOfTinyCheckpoint, F111ATextExportStoresUnderModelOrBare) {
    document_ = document_["text_config"];
    for (const std::string prefix : {"model.", ""}) {
        tensors_ = tiny_tensors(prefix);
        load();
        EXPECT_EQ(ledger_->prefix(), prefix);
    }
}

TEST_F(LedgerOfTinyCheckpoint, F111APrefixThatTransformersDoesNotAcceptIsRefusedWithAHint) {
    tensors_ = tiny_tensors("model.");
    expect_load_error({"no text tensors under model.language_model.*", "they stand under model.*"});
    document_ = document_["text_config"];
    tensors_ = tiny_tensors(kPrefix);
    expect_load_error({"no text tensors under model.*", "they stand under model.language_model.*"});
    tensors_ = tiny_tensors("transformer.");
    expect_load_error({"no text tensors", "check that config.json and the weights are of one checkpoint"});
}

TEST_F(LedgerOfTinyCheckpoint, F111OnePrefixHoldsThroughout) {
    stored(std::string(kPrefix) + "norm.weight").name = "language_model.norm.weight";
    expect_load_error({"tensor=model.language_model.norm.weight"});
}

TEST_F(LedgerOfTinyCheckpoint, F007AMissingLayerScalarIsNeverDefaulted) {
    remove("model.language_model.layers.2.layer_scalar");
    expect_load_error({"not stored", "tensor=model.language_model.layers.2.layer_scalar", "shape=[1]"});
}

TEST_F(LedgerOfTinyCheckpoint, F007ARenamedLayerScalarIsNeverDefaulted) {
    stored("model.language_model.layers.2.layer_scalar").name += ".weight";
    expect_load_error({"tensor=model.language_model.layers.2.layer_scalar"});
}

TEST_F(LedgerOfTinyCheckpoint, EverySlotIsNeeded) {
    for (const TinySlot& slot : tiny_slots()) {
        SCOPED_TRACE(slot.name);
        tensors_ = tiny_tensors();
        remove(kPrefix + slot.name);
        expect_load_error({"not stored", "tensor=" + (kPrefix + slot.name)});
    }
}

TEST_F(LedgerOfTinyCheckpoint, F010AMatrixOneRowShortIsNeverPadded) {
    for (const TinySlot& slot : tiny_slots()) {
        SCOPED_TRACE(slot.name);
        tensors_ = tiny_tensors();
        auto shorter = slot.shape;
        shorter[0] -= 1;
        stored(kPrefix + slot.name) = filled_tensor(kPrefix + slot.name, shorter, 1.0F);
        expect_load_error({"is not the [", "tensor=" + (kPrefix + slot.name), "file="});
    }
}

TEST_F(LedgerOfTinyCheckpoint, AShapeOfTheSameSizeIsNotTheShape) {
    stored("model.language_model.embed_tokens.weight").shape = {8, 10};
    expect_load_error({"the stored shape [8, 10] is not the [10, 8]"});
    stored("model.language_model.embed_tokens.weight").shape = {80};
    expect_load_error({"the stored shape [80]"});
}

TEST_F(LedgerOfTinyCheckpoint, HalfAndSinglePrecisionAreWeightsOtherDtypesAreNot) {
    const std::string name = "model.language_model.norm.weight";
    stored(name) = {name, "F16", {8}, std::string(16, '\0')};
    load();
    stored(name) = {name, "F32", {8}, std::string(32, '\0')};
    load();
    stored(name) = {name, "F64", {8}, std::string(64, '\0')};
    expect_load_error({"stored as F64", "tensor=" + name});
    stored(name) = {name, "U8", {8}, std::string(8, '\0')};
    expect_load_error({"stored as U8"});
}

TEST_F(LedgerOfTinyCheckpoint, ATensorFillsOneSlotOnly) {
    Ledger& ledger = open();
    const std::vector<int64_t> shape{8};
    ledger.take("norm.weight", shape);
    expect_error(ErrorCode::mismatch, {"two slots"}, [&] { ledger.take("norm.weight", shape); });
}

TEST_F(LedgerOfTinyCheckpoint, F108AMissingPerLayerTableIsRefusedByName) {
    remove("model.language_model.embed_tokens_per_layer.weight");
    expect_load_error({"tensor=model.language_model.embed_tokens_per_layer.weight"});
}

TEST_F(LedgerOfTinyCheckpoint, F104UnusedKeysAndValuesOfSharedLayersAreIgnored) {
    for (const char* part : {"k_proj", "v_proj", "k_norm"}) {
        tensors_.push_back(
            filled_tensor(std::string(kPrefix) + "layers.2.self_attn." + part + ".weight", {4, 8}, 1.0F));
        tensors_.push_back(
            filled_tensor(std::string(kPrefix) + "layers.3.self_attn." + part + ".weight", {8, 8}, 1.0F));
    }
    load();
    EXPECT_EQ(ignored_count(IgnoreReason::shared_layer_kv), 6U);
}

TEST_F(LedgerOfTinyCheckpoint, F104AnUnknownTensorIsRefusedByName) {
    for (const std::string name : {"model.language_model.layers.2.self_attn.v_norm.weight",   // no export has it
                                   "model.language_model.layers.1.self_attn.k_proj.bias",     // not a shared layer's
                                   "model.language_model.layers.4.self_attn.k_proj.weight",   // no such layer
                                   "model.language_model.layers.2x.self_attn.k_proj.weight",  // no layer number
                                   "layers.2.self_attn.k_proj.weight", "model.language_model.extra", "extra",
                                   "lm_head.bias", "model.vision_towers.weight", "x.model.vision_tower.weight"}) {
        SCOPED_TRACE(name);
        tensors_ = tiny_tensors();
        tensors_.push_back(filled_tensor(name, {4}, 1.0F));
        expect_load_error({"1 stored tensor would stay unread", name});
    }
}

TEST_F(LedgerOfTinyCheckpoint, AtMostTenUnreadTensorsAreListedAndTheRestCounted) {
    for (int extra = 0; extra < 13; ++extra) {
        tensors_.push_back(filled_tensor("extra." + std::to_string(100 + extra), {1}, 1.0F));
    }
    const auto error = testing::thrown_error([&] { load(); });
    ASSERT_TRUE(error.has_value());
    EXPECT_THAT(error->what(), HasSubstr("13 stored tensors would stay unread: extra.100, "));
    EXPECT_THAT(error->what(), HasSubstr("extra.109 and 3 more"));
    EXPECT_THAT(error->what(), ::testing::Not(HasSubstr("extra.110")));
}

TEST_F(LedgerOfTinyCheckpoint, TowersOfAConditionalModelAreIgnoredWithAndWithoutTheLeadingModel) {
    for (const std::string start : {"model.", ""}) {
        for (const std::string name : {"vision_tower.patch_embedder.input_proj.weight", "vision_tower.std_bias",
                                       "embed_vision.embedding_projection.weight", "vision_embedder.patch_ln1.bias",
                                       // A tower's own layers must not be taken for the text's.
                                       "vision_tower.encoder.layers.2.self_attn.k_proj.linear.weight"}) {
            tensors_.push_back(filled_tensor(start + name, {3}, 1.0F));
        }
        tensors_.push_back(filled_tensor(start + "audio_tower.output_proj.bias", {3}, 1.0F));
        tensors_.push_back(filled_tensor(start + "embed_audio.embedding_projection.weight", {3}, 1.0F));
    }
    load();
    EXPECT_EQ(ignored_count(IgnoreReason::vision_tower), 10U);
    EXPECT_EQ(ignored_count(IgnoreReason::audio_tower), 4U);
}

TEST_F(LedgerOfTinyCheckpoint, ATextExportHasNoTowers) {
    document_ = document_["text_config"];
    tensors_ = tiny_tensors("model.");
    tensors_.push_back(filled_tensor("model.vision_tower.std_bias", {3}, 1.0F));
    expect_load_error({"model.vision_tower.std_bias"});
}

TEST_F(LedgerOfTinyCheckpoint, F011AnEqualHeadIsTied) {
    auto head = stored("model.language_model.embed_tokens.weight");
    head.name = "lm_head.weight";
    tensors_.push_back(head);
    EXPECT_EQ(load(), nullptr);
    EXPECT_EQ(ignored_count(IgnoreReason::equal_head), 1U);
    EXPECT_FALSE(ledger_->consumed().contains("lm_head.weight"));
}

TEST_F(LedgerOfTinyCheckpoint, F011AHeadThatDiffersInOneValueIsUsedWhateverTheConfigSays) {
    auto head = stored("model.language_model.embed_tokens.weight");
    head.name = "lm_head.weight";
    head.bytes.back() = static_cast<char>(head.bytes.back() ^ 1);
    tensors_.push_back(head);
    for (const bool is_tied : {true, false}) {
        document_["tie_word_embeddings"] = is_tied;
        const StoredTensor* untied = load();
        ASSERT_NE(untied, nullptr);
        EXPECT_EQ(untied->name, "lm_head.weight");
        EXPECT_TRUE(ledger_->consumed().contains("lm_head.weight"));
    }
}

TEST_F(LedgerOfTinyCheckpoint, F011AHeadOfAnotherShapeIsRefused) {
    tensors_.push_back(filled_tensor("lm_head.weight", {9, 8}, 1.0F));
    expect_load_error({"tensor=lm_head.weight", "the stored shape [9, 8] is not the [10, 8]"});
}

TEST_F(LedgerOfTinyCheckpoint, F011AnUntiedModelWithoutAHeadIsRefusedNotRandom) {
    document_["tie_word_embeddings"] = false;
    expect_load_error({"tie_word_embeddings is false", "tensor=lm_head.weight"});
}

TEST_F(LedgerOfTinyCheckpoint, AConfigThatContradictsTheTensorsNamesTheFirstTensor) {
    document_["text_config"]["num_kv_shared_layers"] = 0;
    // Layers 2 and 3 would now have keys and values of their own, which are not stored.
    Ledger& ledger = open();
    const std::vector<int64_t> shape{4, 8};
    expect_error(ErrorCode::mismatch, {"tensor=model.language_model.layers.2.self_attn.k_proj.weight", "shape=[4, 8]"},
                 [&] { ledger.take("layers.2.self_attn.k_proj.weight", shape); });
}

}  // namespace
}  // namespace gemmatrace::checkpoint
