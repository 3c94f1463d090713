// What is divided over ranks computes what the CPU computes, for every combination of query heads, KV heads and ranks
// of the published sizes, on random weights; and for some that no published size has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/synth.h"
#include "cpu/runner.h"
#include "model/decision.h"
#include "model/shard.h"
#include "support/temporary_folder.h"
#include "trace/device_model.h"
#include "trace/sim_device.h"

namespace gemmatrace::trace {
namespace {

struct Heads {
    const char* like;  // whose layers it has
    int32_t q_heads, kv_heads, global_kv_heads;
    int32_t ranks;
};

void PrintTo(const Heads& heads, std::ostream* out) {
    *out << heads.like << " " << heads.q_heads << "/" << heads.kv_heads << "/" << heads.global_kv_heads << " tp "
         << heads.ranks;
}

// A published config made small, with these heads.
nlohmann::ordered_json small_config(const Heads& heads) {
    nlohmann::ordered_json config = checkpoint::published_config(heads.like, 6);
    nlohmann::ordered_json& text = config.contains("text_config") ? config["text_config"] : config;
    text["hidden_size"] = 48;
    text["vocab_size"] = 384;
    text["intermediate_size"] = 64;
    text["head_dim"] = 16;
    text["global_head_dim"] = 24;
    text["sliding_window"] = 12;
    text["max_position_embeddings"] = 512;
    text["num_attention_heads"] = heads.q_heads;
    text["num_key_value_heads"] = heads.kv_heads;
    if (!text["num_global_key_value_heads"].is_null()) text["num_global_key_value_heads"] = heads.global_kv_heads;
    constexpr const char* kPleDim = "hidden_size_per_layer_input";
    if (text.contains(kPleDim) && text[kPleDim].is_number() && text[kPleDim] > 0) text[kPleDim] = 8;
    if (text.contains("vocab_size_per_layer_input")) text["vocab_size_per_layer_input"] = 384;
    if (text.contains("num_experts") && text["num_experts"].is_number()) {
        text["num_experts"] = 20;  // more than are run at once
        text["top_k_experts"] = 3;
        text["moe_intermediate_size"] = 32;
    }
    return config;
}

std::filesystem::path write_random(const std::filesystem::path& directory, const nlohmann::ordered_json& document) {
    const checkpoint::ModelConfig config = checkpoint::parse_config(document, "config.json");
    std::vector<checkpoint::SynthTensor> tensors;
    for (const auto& slot : model::weight_plan(config)) {
        const bool is_vector = slot.shape.size() == 1;
        const float spread = is_vector ? 0.3F : 1.7F / std::sqrt(static_cast<float>(slot.shape.back()));
        tensors.push_back({"model.language_model." + slot.name, slot.shape, is_vector ? 1.0F : 0.0F, spread});
    }
    checkpoint::write_synthetic_checkpoint(
        directory, document, tensors, 3, size_t{1} << 30, [](size_t, size_t) {}, [] { return false; });
    return directory;
}

std::unique_ptr<DeviceModel> model_on(const std::filesystem::path& checkpoint, int32_t ranks) {
    DeviceModelOptions options;
    options.geometry = {ranks, 2, 128, 16, model::Precision::fp32};
    options.buckets = {64, 128};
    return std::make_unique<DeviceModel>(make_sim_device(ranks, 1), checkpoint, options);
}

class Sharded : public ::testing::TestWithParam<Heads> {};

// In fp32, where nothing but the order of sums differs: a wrong head or a missing sum is no rounding.
TEST_P(Sharded, ComputesWhatTheCpuComputes) {
    const testing::TemporaryFolder folder;
    const auto checkpoint = write_random(folder.path() / "random", small_config(GetParam()));
    cpu::RunnerOptions options;
    options.precision = model::Precision::fp32;
    options.threads = 1;
    cpu::Runner reference(checkpoint, options);
    cpu::Slot slot = reference.new_slot(128);
    const auto sharded = model_on(checkpoint, GetParam().ranks);
    const auto compare = [&](std::span<const float> expected) {
        const auto got = sharded->logits(0);
        float largest = 0.0F, difference = 0.0F;
        for (size_t id = 0; id < got.size(); ++id) {
            largest = std::max(largest, std::fabs(expected[id]));
            difference = std::max(difference, std::fabs(expected[id] - got[id]));
        }
        EXPECT_LE(difference, 1e-4F * largest);
        EXPECT_EQ(sharded->best_ids()[0], model::greedy_token(expected, {}, model::Precision::fp32, {}));
    };
    std::vector<int32_t> prompt = {2};
    for (int32_t index = 1; index < 45; ++index) prompt.push_back(100 + index * 37 % 251);
    const int32_t place = 1;
    for (size_t begin = 0; begin < prompt.size(); begin += 9) {
        const auto part = std::span(prompt).subspan(begin, std::min<size_t>(9, prompt.size() - begin));
        const auto expected = reference.extend(slot, part);
        sharded->prefill(place, part);
        compare(expected);
    }
    for (int32_t step = 0; step < 20; ++step) {
        const int32_t id = 100 + step * 53 % 251;
        const auto expected = reference.extend(slot, {&id, 1});
        sharded->decode({&place, 1}, {&id, 1});
        compare(expected);
    }
}

INSTANTIATE_TEST_SUITE_P(Families, Sharded,
                         ::testing::Values(Heads{"E2B", 8, 1, 1, 2}, Heads{"E2B", 8, 1, 1, 4}, Heads{"E2B", 8, 1, 1, 8},
                                           Heads{"E4B", 8, 2, 2, 2}, Heads{"E4B", 8, 2, 2, 4}, Heads{"E4B", 8, 2, 2, 8},
                                           Heads{"12B", 16, 8, 1, 2}, Heads{"12B", 16, 8, 1, 4},
                                           Heads{"12B", 16, 8, 1, 8}, Heads{"26B", 16, 8, 2, 2},
                                           Heads{"26B", 16, 8, 2, 4}, Heads{"26B", 16, 8, 2, 8},
                                           Heads{"31B", 32, 16, 4, 2}, Heads{"31B", 32, 16, 4, 4},
                                           Heads{"31B", 32, 16, 4, 8}));
// Groups that end inside a rank: some KV heads are then held twice.
INSTANTIATE_TEST_SUITE_P(Uneven, Sharded,
                         ::testing::Values(Heads{"12B", 12, 3, 1, 2}, Heads{"12B", 12, 2, 3, 4},
                                           Heads{"31B", 24, 8, 3, 4}));

TEST(ShardHeads, EveryRankHoldsTheHeadsThatItsQueriesRead) {
    for (const auto& [q, kv] :
         {std::pair{8, 1}, {8, 2}, {16, 8}, {16, 2}, {32, 16}, {32, 4}, {12, 3}, {24, 3}, {48, 6}}) {
        for (const int32_t ranks : {1, 2, 4, 8}) {
            if (q % ranks != 0) continue;
            checkpoint::LayerSpec spec;
            spec.q_heads = q;
            spec.kv_heads = kv;
            const model::HeadShard shard = model::shard_heads(spec, ranks);
            EXPECT_EQ(shard.q_heads, shard.kv_heads * shard.group);
            for (int32_t rank = 0; rank < ranks; ++rank) {
                for (int32_t local = 0; local < shard.q_heads; ++local) {
                    const int32_t read = (rank * shard.q_heads + local) / (q / kv);
                    EXPECT_EQ(shard.global_kv_head(spec, rank, local / shard.group), read)
                        << q << "/" << kv << "/" << ranks;
                }
            }
        }
    }
}

TEST(ShardHeads, SizesThatDoNotDivideAreNamed) {
    const auto config = checkpoint::parse_config(small_config({"E2B", 8, 1, 1, 1}), "config.json");
    try {
        model::check_sharding(config, 3);
        FAIL() << "8 heads over 3 ranks";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::unsupported);
        EXPECT_NE(error.message().find("8 query heads"), std::string::npos) << error.message();
    }
}

}  // namespace
}  // namespace gemmatrace::trace
