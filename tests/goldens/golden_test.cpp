// Every checkpoint of the repository decodes what Transformers 5.13.0 decodes: bf16 as bits, fp32 as tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "cpu/runner.h"
#include "engine/cpu_backend.h"
#include "engine/generator.h"
#include "goldens/golden_file.h"
#include "model/decision.h"

namespace gemmatrace::goldens {
namespace {

constexpr float kFp32LogitTolerance = 1e-3F;  // the reference differs from itself by up to 1e-4 (gemma4.md 11)

std::string test_name(const std::filesystem::path& checkpoint) {
    std::string name = checkpoint.filename().string();
    for (char& c : name) {
        if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
    }
    return name;
}

class EveryCheckpoint : public testing::TestWithParam<std::filesystem::path> {
  protected:
    void SetUp() override { golden_ = read_golden(GetParam()); }

    std::string describe(const GoldenRun& run, size_t step) const {
        return golden_.prompts[run.prompt].name + ", step " + std::to_string(step);
    }

    // One slot that the longest run fits.
    std::unique_ptr<engine::Backend> bf16_backend() const {
        size_t longest = 0;
        for (const auto& run : golden_.runs) {
            longest = std::max(longest, golden_.prompts[run.prompt].ids.size() + run.ids.size());
        }
        const cpu::RunnerOptions options;
        return engine::make_cpu_backend(std::make_unique<cpu::Runner>(GetParam(), options), 1,
                                        static_cast<int64_t>(longest), options.chunk_tokens);
    }

    Golden golden_;
};

TEST_P(EveryCheckpoint, HasTheGoldensThatTheComparisonPromises) {
    const int32_t window = checkpoint::load_config(GetParam()).sliding_window;
    std::set<int64_t> lengths;
    for (const auto& prompt : golden_.prompts) lengths.insert(static_cast<int64_t>(prompt.ids.size()));
    for (const int64_t length : {1, window - 1, window, window + 1, 3 * window}) {
        EXPECT_TRUE(lengths.contains(length)) << "no prompt of " << length << " tokens";
    }
    EXPECT_GE(golden_.prompts.size(), 20U);
    EXPECT_GE(*lengths.rbegin(), 300);
    EXPECT_EQ(golden_.runs.size(), 2 * golden_.prompts.size());
    for (const auto& run : golden_.runs) EXPECT_GE(run.ids.size(), 64U);
    EXPECT_GE(golden_.passes.size(), 3U);
}

TEST_P(EveryCheckpoint, Bf16LayersAndLogitsOfTheFullPassAreBitEqual) {
    cpu::Runner runner(GetParam(), {});
    for (const auto& pass : golden_.passes) {
        std::map<std::string, size_t> unequal;
        size_t compared = 0;
        const auto check = [&](const std::string& stage, int64_t first, std::span<const float> values, size_t columns) {
            const Stage* expected = pass.find(stage);
            ASSERT_NE(expected, nullptr) << stage;
            for (size_t row = 0; row * columns < values.size(); ++row, ++compared) {
                const uint64_t hash = row_hash(values.subspan(row * columns, columns));
                if (hash != expected->row_hashes[static_cast<size_t>(first) + row]) ++unequal[stage];
            }
        };
        const auto hidden = static_cast<size_t>(runner.config().hidden_size);
        runner.set_layer_observer([&](int32_t layer, int64_t first, std::span<const float> values) {
            check(layer < 0 ? "embedding" : "layer." + std::to_string(layer), first, values, hidden);
        });
        runner.set_logits_observer([&](int64_t first, std::span<const float> values) {
            check("logits", first, values, static_cast<size_t>(runner.config().vocab_size));
        });
        cpu::Slot slot = runner.new_slot(static_cast<int64_t>(pass.ids.size()));
        runner.extend(slot, pass.ids);
        EXPECT_EQ(compared, pass.ids.size() * (runner.config().layers.size() + 2));
        for (const auto& [stage, rows] : unequal) ADD_FAILURE() << stage << ": " << rows << " rows differ";
    }
}

TEST_P(EveryCheckpoint, Bf16FreeRunsAreEqualTokenForTokenWithEqualLogits) {
    const auto backend = bf16_backend();
    for (const auto& run : golden_.runs) {
        if (run.precision != model::Precision::bf16) continue;
        engine::GenerationRequest request;
        request.prompt_ids = golden_.prompts[run.prompt].ids;
        request.max_tokens = static_cast<int64_t>(run.ids.size());
        request.suppress_ids = golden_.suppress_token_ids;
        request.top_logits = static_cast<int32_t>(golden_.top);
        backend->release(0);
        const auto result = engine::generate(*backend, 0, request, nullptr);
        ASSERT_EQ(result.token_ids, run.ids) << golden_.prompts[run.prompt].name;
        for (size_t step = 0; step < run.ids.size(); ++step) {
            for (size_t place = 0; place < golden_.top; ++place) {
                const auto& [id, logit] = result.top_logits[step][place];
                ASSERT_EQ(id, run.top_ids[step * golden_.top + place]) << describe(run, step);
                ASSERT_EQ(std::bit_cast<uint32_t>(logit),
                          std::bit_cast<uint32_t>(run.top_logits[step * golden_.top + place]))
                    << describe(run, step);
            }
        }
    }
}

TEST_P(EveryCheckpoint, ARunStopsWhereTheReferenceStops) {
    const auto backend = bf16_backend();
    for (const auto& run : golden_.runs) {
        if (run.precision != model::Precision::bf16) continue;
        engine::GenerationRequest request;
        request.prompt_ids = golden_.prompts[run.prompt].ids;
        request.max_tokens = static_cast<int64_t>(run.ids.size());
        request.suppress_ids = golden_.suppress_token_ids;
        request.stop_ids = golden_.eos_token_ids;
        backend->release(0);
        const auto result = engine::generate(*backend, 0, request, nullptr);
        const bool stops = run.stop_step >= 0;
        EXPECT_EQ(result.finish_reason, stops ? engine::FinishReason::stop : engine::FinishReason::length);
        const auto length = stops ? static_cast<std::ptrdiff_t>(run.stop_step) : std::ssize(run.ids);
        EXPECT_EQ(result.token_ids, std::vector<int32_t>(run.ids.begin(), run.ids.begin() + length))
            << golden_.prompts[run.prompt].name;
    }
}

// Judged step by step: where the margin is below what fp32 sums in another order can move, the golden token is taken.
TEST_P(EveryCheckpoint, Fp32GreedyTokensAreEqualAndTopLogitsWithinATolerance) {
    cpu::RunnerOptions options;
    options.precision = model::Precision::fp32;
    cpu::Runner runner(GetParam(), options);
    size_t judged = 0;
    for (const auto& run : golden_.runs) {
        if (run.precision != model::Precision::fp32) continue;
        const auto& prompt = golden_.prompts[run.prompt].ids;
        const std::set<int64_t> unjudged(run.unjudged.begin(), run.unjudged.end());
        cpu::Slot slot = runner.new_slot(static_cast<int64_t>(prompt.size() + run.ids.size()));
        std::span<const float> logits = runner.extend(slot, prompt);
        for (size_t step = 0; step < run.ids.size(); ++step) {
            for (size_t place = 0; place < golden_.top; ++place) {
                const auto id = static_cast<size_t>(run.top_ids[step * golden_.top + place]);
                ASSERT_NEAR(logits[id], run.top_logits[step * golden_.top + place], kFp32LogitTolerance)
                    << describe(run, step) << ", token " << id;
            }
            if (!unjudged.contains(static_cast<int64_t>(step))) {
                const int32_t chosen = model::greedy_token(logits, runner.config().final_softcap,
                                                           model::Precision::fp32, golden_.suppress_token_ids);
                ASSERT_EQ(chosen, run.ids[step]) << describe(run, step);
                ++judged;
            }
            if (step + 1 < run.ids.size()) logits = runner.extend(slot, {&run.ids[step], 1});
        }
    }
    EXPECT_GT(judged, 1000U);
}

INSTANTIATE_TEST_SUITE_P(Golden, EveryCheckpoint, testing::ValuesIn(checkpoints_with_goldens()),
                         [](const auto& parameter) { return test_name(parameter.param); });

TEST(Goldens, CoverEveryBundledCheckpoint) {
    std::set<std::string> names;
    for (const auto& checkpoint : checkpoints_with_goldens()) names.insert(checkpoint.filename().string());
    for (const char* name : {"demo", "e2b", "e4b", "12b", "26b-a4b", "31b"}) EXPECT_TRUE(names.contains(name)) << name;
}

}  // namespace
}  // namespace gemmatrace::goldens
