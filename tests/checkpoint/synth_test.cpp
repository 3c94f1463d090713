// Synthetic checkpoints: readable by the program's own reader, repeatable, and whole or not there.
#include "checkpoint/synth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/bf16.h"
#include "base/file_mapping.h"
#include "checkpoint/config.h"
#include "checkpoint/tensor_store.h"
#include "support/expect_error.h"
#include "support/safetensors_writer.h"
#include "support/temporary_folder.h"

namespace gemmatrace::checkpoint {
namespace {

using testing::expect_error;
using testing::TemporaryFolder;
namespace fs = std::filesystem;

// Sizes that do not divide the writer's buffer: odd lengths, one tensor larger than a buffer.
const std::vector<SynthTensor> kTensors{{"scalar", {1}, 0.5F, 0.25F},
                                        {"odd", {3, 7}, 0.0F, 1.0F},
                                        {"empty", {0, 4}, 0.0F, 1.0F},
                                        {"large", {1111, 1013}, 0.0F, 0.02F},
                                        {"constant", {5}, 1.0F, 0.0F}};

void write(const fs::path& folder, const std::vector<SynthTensor>& tensors, uint64_t seed, size_t shard_bytes) {
    write_synthetic_checkpoint(folder, published_config("E2B", 3), tensors, seed, shard_bytes, nullptr, nullptr);
}

float value(const StoredTensor& tensor, size_t element) {
    uint16_t bits = 0;
    std::memcpy(&bits, tensor.data.data() + 2 * element, sizeof(bits));
    return bf16_to_float(bits);
}

std::vector<std::string> files_in(const fs::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
}

TEST(Synth, WritesAFolderThatLoads) {
    const TemporaryFolder folder;
    write(folder / "new", kTensors, 1, size_t{1} << 40);
    EXPECT_EQ(files_in(folder / "new"),
              (std::vector<std::string>{"config.json", "generation_config.json", "model.safetensors"}));
    const auto store = TensorStore::open(folder / "new");
    for (const SynthTensor& tensor : kTensors) {
        ASSERT_NE(store.find(tensor.name), nullptr);
        EXPECT_EQ(store.find(tensor.name)->shape, tensor.shape);
        EXPECT_EQ(store.find(tensor.name)->dtype, Dtype::bf16);
    }
    const ModelConfig config = load_config(folder / "new");
    EXPECT_EQ(config.layers.size(), 3U);
    EXPECT_EQ(load_generation_config(folder / "new", config).eos_token_ids, (std::vector<int32_t>{1, 106, 50}));
}

TEST(Synth, ValuesAreSpreadEvenlyAroundTheCenter) {
    const TemporaryFolder folder;
    write(folder / "new", kTensors, 1, size_t{1} << 40);
    const auto store = TensorStore::open(folder / "new");
    const StoredTensor& large = *store.find("large");
    const size_t count = 1111 * 1013;
    double sum = 0.0;
    double squares = 0.0;
    for (size_t element = 0; element < count; ++element) {
        const float sample = value(large, element);
        ASSERT_LE(std::abs(sample), 0.02F * 1.004F);  // one rounding to bf16 beyond the bound
        sum += sample;
        squares += double{sample} * sample;
    }
    // Uniform on ±s: mean 0 with standard error s/sqrt(3n), mean square s²/3; five standard errors each.
    EXPECT_NEAR(sum / count, 0.0, 5 * 0.02 / std::sqrt(3.0 * count));
    EXPECT_NEAR(squares / count, 0.02 * 0.02 / 3, 5 * 0.02 * 0.02 * std::sqrt(4.0 / 45.0 / count));
    EXPECT_EQ(value(*store.find("constant"), 4), 1.0F);
    EXPECT_NEAR(value(*store.find("scalar"), 0), 0.5F, 0.251F);
}

TEST(Synth, TheSameSeedGivesTheSameBytesHoweverTheyAreSharded) {
    const TemporaryFolder folder;
    write(folder / "one", kTensors, 7, size_t{1} << 40);
    write(folder / "again", kTensors, 7, size_t{1} << 40);
    write(folder / "shards", kTensors, 7, 64);
    write(folder / "other", kTensors, 8, size_t{1} << 40);
    const auto one = TensorStore::open(folder / "one");
    const auto again = TensorStore::open(folder / "again");
    const auto shards = TensorStore::open(folder / "shards");
    const auto other = TensorStore::open(folder / "other");
    EXPECT_GT(shards.files().size(), 1U);
    for (const SynthTensor& tensor : kTensors) {
        const auto is_equal = [&](const TensorStore& store) {
            return std::ranges::equal(one.find(tensor.name)->data, store.find(tensor.name)->data);
        };
        EXPECT_TRUE(is_equal(again)) << tensor.name;
        EXPECT_TRUE(is_equal(shards)) << tensor.name;
        EXPECT_EQ(is_equal(other), tensor.name == "constant" || tensor.name == "empty") << tensor.name;
    }
}

TEST(Synth, TensorsOfTheSameShapeDiffer) {
    const TemporaryFolder folder;
    write(folder / "new", {{"a", {64}, 0.0F, 1.0F}, {"b", {64}, 0.0F, 1.0F}}, 1, size_t{1} << 40);
    const auto store = TensorStore::open(folder / "new");
    EXPECT_FALSE(std::ranges::equal(store.find("a")->data, store.find("b")->data));
}

TEST(Synth, LargeCheckpointsAreShardedWithAnIndex) {
    const TemporaryFolder folder;
    write(folder / "new", kTensors, 1, 100);
    EXPECT_EQ(files_in(folder / "new"),
              (std::vector<std::string>{"config.json", "generation_config.json", "model-00001-of-00003.safetensors",
                                        "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors",
                                        "model.safetensors.index.json"}));
    EXPECT_EQ(TensorStore::open(folder / "new").tensors().size(), kTensors.size());
}

TEST(Synth, ProgressEndsAtTheTotal) {
    const TemporaryFolder folder;
    std::vector<std::pair<size_t, size_t>> reports;
    write_synthetic_checkpoint(
        folder / "new", published_config("E2B", 3), kTensors, 1, size_t{1} << 40,
        [&](size_t done, size_t total) { reports.emplace_back(done, total); }, nullptr);
    ASSERT_FALSE(reports.empty());
    const size_t total = TensorStore::open(folder / "new").total_bytes();
    EXPECT_EQ(reports.back(), (std::pair{total, total}));
}

TEST(Synth, NothingIsLeftBehindWhenItIsStopped) {
    const TemporaryFolder folder;
    const auto stopped_at = [&](int call) {
        int calls = 0;
        write_synthetic_checkpoint(folder / "outer" / "new", published_config("E2B", 3), kTensors, 1, 100, nullptr,
                                   [&] { return ++calls == call; });
    };
    for (const int call : {1, 2, 4}) {
        const auto error = testing::thrown_error([&] { stopped_at(call); });
        ASSERT_TRUE(error.has_value());
        EXPECT_EQ(error->code(), ErrorCode::interrupted);
        EXPECT_TRUE(files_in(folder.path()).empty()) << call;
    }
}

TEST(Synth, AnEmptyFolderIsKeptWhenItIsStopped) {
    const TemporaryFolder folder;
    EXPECT_THROW(write_synthetic_checkpoint(folder.path(), published_config("E2B", 3), kTensors, 1, 100, nullptr,
                                            [] { return true; }),
                 Error);
    EXPECT_TRUE(fs::exists(folder.path()));
    EXPECT_TRUE(files_in(folder.path()).empty());
}

TEST(Synth, AFolderWithFilesIsNotTouched) {
    const TemporaryFolder folder;
    testing::write_bytes(folder / "mine", "precious");
    expect_error(ErrorCode::bad_request, {"not an empty folder"}, [&] { write(folder.path(), kTensors, 1, 100); });
    expect_error(ErrorCode::bad_request, {"not an empty folder"}, [&] { write(folder / "mine", kTensors, 1, 100); });
    EXPECT_EQ(files_in(folder.path()), (std::vector<std::string>{"mine"}));
    EXPECT_EQ(read_file(folder / "mine", 100), "precious");
}

TEST(Synth, ADiskThatIsTooSmallIsSaidBeforeAnythingIsWritten) {
    const TemporaryFolder folder;
    const std::vector<SynthTensor> huge{{"huge", {int64_t{1} << 24, int64_t{1} << 24}, 0.0F, 1.0F}};  // 512 TiB
    expect_error(ErrorCode::resource, {"needed_bytes=", "available_bytes="},
                 [&] { write(folder / "new", huge, 1, size_t{1} << 40); });
    EXPECT_TRUE(files_in(folder.path()).empty());
}

TEST(Synth, AFolderThatCannotBeMadeIsAnError) {
    expect_error(ErrorCode::resource, {"cannot create"},
                 [] { write("/proc/nowhere/new", kTensors, 1, size_t{1} << 40); });
}

TEST(Synth, The12BModelSuppressesTheIdsWithOverwrittenRows) {
    const TemporaryFolder folder;
    write_synthetic_checkpoint(folder / "new", published_config("12B", 6), kTensors, 1, size_t{1} << 40, nullptr,
                               nullptr);
    const ModelConfig config = load_config(folder / "new");
    EXPECT_EQ(load_generation_config(folder / "new", config).suppress_tokens, (std::vector<int32_t>{258883, 258882}));
}

}  // namespace
}  // namespace gemmatrace::checkpoint
