// Opening a folder of weights: one file or shards, and every way in which index and shards can disagree.
#include "checkpoint/tensor_store.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/safetensors_writer.h"
#include "support/temporary_folder.h"

namespace gemmatrace::checkpoint {
namespace {

using testing::bf16_tensor;
using testing::expect_error;
using testing::safetensors_file;
using testing::TemporaryFolder;
using testing::write_bytes;

constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kFirst = "model-00001-of-00002.safetensors";
constexpr const char* kSecond = "model-00002-of-00002.safetensors";

// A folder with two shards, of tensors a and b, and the index that names them.
class ShardedCheckpoint : public ::testing::Test {
  protected:
    void SetUp() override {
        write_bytes(folder_ / kFirst, safetensors_file({bf16_tensor("a", {1}, {1})}));
        write_bytes(folder_ / kSecond, safetensors_file({bf16_tensor("b", {2}, {2, 3})}));
        write_index({{"a", kFirst}, {"b", kSecond}});
    }
    void write_index(const nlohmann::ordered_json& weight_map) {
        const nlohmann::ordered_json index = {{"metadata", {{"total_size", 6}}}, {"weight_map", weight_map}};
        write_bytes(folder_ / kIndex, index.dump());
    }
    void expect_open_error(ErrorCode code, const std::vector<std::string>& fragments) {
        expect_error(code, fragments, [&] { TensorStore::open(folder_.path()); });
    }
    TemporaryFolder folder_;
};

TEST_F(ShardedCheckpoint, FindsTensorsInTheirShards) {
    const auto store = TensorStore::open(folder_.path());
    ASSERT_EQ(store.files().size(), 2U);
    ASSERT_NE(store.find("b"), nullptr);
    EXPECT_EQ(store.find("b")->file_index, 1U);
    EXPECT_EQ(store.files()[1].path().filename(), kSecond);
    EXPECT_EQ(store.find("c"), nullptr);
    EXPECT_EQ(store.total_bytes(), 6U);
}

TEST_F(ShardedCheckpoint, StaysReadableAfterAMove) {
    auto opened = TensorStore::open(folder_.path());
    const TensorStore store = std::move(opened);
    EXPECT_EQ(static_cast<int>(store.find("a")->data[1]), 0x3f);
}

TEST_F(ShardedCheckpoint, ASingleFileWinsOverAnIndexAsInTransformers) {
    write_bytes(folder_ / "model.safetensors", safetensors_file({bf16_tensor("single", {1}, {1})}));
    const auto store = TensorStore::open(folder_.path());
    EXPECT_EQ(store.tensors().size(), 1U);
    EXPECT_NE(store.find("single"), nullptr);
}

TEST_F(ShardedCheckpoint, F009AMissingShardIsNamed) {
    std::filesystem::remove(folder_ / kSecond);
    expect_open_error(ErrorCode::not_found, {std::string("shard ") + kSecond + " is missing", "tensors=1"});
}

TEST_F(ShardedCheckpoint, F009ATensorMissingFromItsShardIsNamed) {
    write_index({{"a", kFirst}, {"b", kSecond}, {"layers.3.layer_scalar", kSecond}});
    expect_open_error(ErrorCode::mismatch, {"tensor=layers.3.layer_scalar", kSecond, "not there"});
}

TEST_F(ShardedCheckpoint, F009ATensorThatTheIndexDoesNotNameIsRefused) {
    write_bytes(folder_ / kSecond, safetensors_file({bf16_tensor("b", {2}, {2, 3}), bf16_tensor("c", {1}, {1})}));
    expect_open_error(ErrorCode::mismatch, {"tensor=c", "does not name it"});
}

TEST_F(ShardedCheckpoint, ATensorInAnotherShardThanTheIndexSaysIsRefused) {
    write_index({{"a", kSecond}, {"b", kFirst}});
    expect_open_error(ErrorCode::mismatch, {std::string("the index says ") + kSecond, "tensor=a"});
}

TEST_F(ShardedCheckpoint, ATensorThatLiesInTwoShardsIsRefused) {
    write_bytes(folder_ / kSecond, safetensors_file({bf16_tensor("b", {2}, {2, 3}), bf16_tensor("a", {1}, {9})}));
    expect_open_error(ErrorCode::mismatch, {"tensor=a"});
}

TEST_F(ShardedCheckpoint, ACutShardIsCorrupt) {
    std::filesystem::resize_file(folder_ / kSecond, std::filesystem::file_size(folder_ / kSecond) - 1);
    expect_open_error(ErrorCode::corrupt, {kSecond, "tensor=b"});
}

TEST_F(ShardedCheckpoint, ShardNamesMayNotLeaveTheFolder) {
    for (const std::string shard :
         {"../model.safetensors", "/etc/passwd", "sub/a.safetensors", "..", "", "a.bin", "a\\b.safetensors"}) {
        SCOPED_TRACE(shard);
        write_index({{"a", shard}});
        expect_open_error(ErrorCode::corrupt, {"no plain .safetensors file name", "tensor=a"});
    }
    write_index({{"a", std::string("x\0.safetensors", 14)}});
    expect_open_error(ErrorCode::corrupt, {"no plain"});
}

TEST_F(ShardedCheckpoint, ABrokenIndexIsCorrupt) {
    const std::vector<std::pair<std::string, std::string>> cases{{"", "empty"},
                                                                 {"{", "not valid JSON"},
                                                                 {"[]", "not a JSON object"},
                                                                 {"{}", "weight_map is missing"},
                                                                 {R"({"weight_map":[]})", "not a JSON object"},
                                                                 {R"({"weight_map":{}})", "weight_map is empty"},
                                                                 {R"({"weight_map":{"a":1}})", "weight_map.a is 1"}};
    for (const auto& [text, fragment] : cases) {
        SCOPED_TRACE(text);
        write_bytes(folder_ / kIndex, text);
        expect_open_error(ErrorCode::corrupt, {fragment, kIndex});
    }
}

TEST(TensorStoreOpen, SaysWhatItLookedForWhenThereIsNothing) {
    const TemporaryFolder folder;
    expect_error(ErrorCode::not_found, {"model.safetensors", kIndex, folder.path().string()},
                 [&] { TensorStore::open(folder.path()); });
    expect_error(ErrorCode::not_found, {"no weights"}, [&] { TensorStore::open(folder / "nowhere"); });
}

TEST(TensorStoreOpen, AnEmptyFileIsCorrupt) {
    const TemporaryFolder folder;
    write_bytes(folder / "model.safetensors", "");
    expect_error(ErrorCode::corrupt, {"0 bytes", "model.safetensors"}, [&] { TensorStore::open(folder.path()); });
}

}  // namespace
}  // namespace gemmatrace::checkpoint
