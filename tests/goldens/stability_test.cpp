// The same request gives the same bits: whatever the threads, the chunks, the instruction set, and the company in a
// batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cpu/runner.h"
#include "goldens/golden_file.h"

namespace gemmatrace::goldens {
namespace {

constexpr int kSteps = 12;

// Logits of the last prompt row and of a few decoded rows, one after the other.
std::vector<float> run_alone(cpu::Runner& runner, const std::vector<int32_t>& prompt,
                             const std::vector<int32_t>& output) {
    cpu::Slot slot = runner.new_slot(static_cast<int64_t>(prompt.size()) + kSteps);
    std::vector<float> all;
    auto logits = runner.extend(slot, prompt);
    all.insert(all.end(), logits.begin(), logits.end());
    for (int step = 0; step < kSteps; ++step) {
        logits = runner.extend(slot, {&output[static_cast<size_t>(step)], 1});
        all.insert(all.end(), logits.begin(), logits.end());
    }
    return all;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](float x, float y) {
               return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y);
           });
}

class SameBits : public testing::TestWithParam<std::filesystem::path> {
  protected:
    void SetUp() override {
        const Golden golden = read_golden(GetParam());
        // the longest prompts: several windows
        std::vector<const GoldenRun*> runs;
        for (const auto& run : golden.runs) {
            if (run.precision == model::Precision::bf16) runs.push_back(&run);
        }
        std::sort(runs.begin(), runs.end(), [&](const GoldenRun* a, const GoldenRun* b) {
            return golden.prompts[a->prompt].ids.size() > golden.prompts[b->prompt].ids.size();
        });
        for (size_t index = 0; index < 8; ++index) {
            const GoldenRun& run = *runs[index * runs.size() / 8];  // eight of very different lengths
            prompts_.push_back(golden.prompts[run.prompt].ids);
            outputs_.push_back(run.ids);
        }
    }

    std::vector<float> alone(const cpu::RunnerOptions& options, size_t index) {
        cpu::Runner runner(GetParam(), options);
        return run_alone(runner, prompts_[index], outputs_[index]);
    }

    std::vector<std::vector<int32_t>> prompts_, outputs_;
};

cpu::RunnerOptions options_for(model::Precision precision, int threads, int32_t chunk) {
    cpu::RunnerOptions options;
    options.precision = precision;
    options.threads = threads;
    options.chunk_tokens = chunk;
    return options;
}

TEST_P(SameBits, InAnyChunks) {
    for (const auto precision : {model::Precision::bf16, model::Precision::fp32}) {
        const auto expected = alone(options_for(precision, 1, 512), 0);
        for (const int32_t chunk : {1, 7, 64}) {
            EXPECT_TRUE(same_bits(alone(options_for(precision, 1, chunk), 0), expected)) << "chunks of " << chunk;
        }
    }
}

TEST_P(SameBits, WithAnyNumberOfThreads) {
    for (const auto precision : {model::Precision::bf16, model::Precision::fp32}) {
        const auto expected = alone(options_for(precision, 1, 512), 0);
        for (const auto& [threads, chunk] : {std::pair(2, 7), std::pair(2, 512), std::pair(3, 64)}) {
            EXPECT_TRUE(same_bits(alone(options_for(precision, threads, chunk), 0), expected))
                << threads << " threads, chunks of " << chunk;
        }
    }
}

TEST_P(SameBits, OnEveryInstructionSet) {
    for (const auto precision : {model::Precision::bf16, model::Precision::fp32}) {
        auto options = options_for(precision, 2, 64);
        options.isa = cpu::Isa::scalar;
        const auto expected = alone(options, 1);
        for (const cpu::Isa isa : cpu::available_isas()) {
            options.isa = isa;
            EXPECT_TRUE(same_bits(alone(options, 1), expected)) << cpu::isa_name(isa);
        }
    }
}

TEST_P(SameBits, InABatchOfEightAsAlone) {
    for (const auto precision : {model::Precision::bf16, model::Precision::fp32}) {
        cpu::Runner runner(GetParam(), options_for(precision, 2, 64));
        std::vector<cpu::Slot> slots;
        std::vector<std::vector<float>> together(prompts_.size());
        for (size_t index = 0; index < prompts_.size(); ++index) {
            slots.push_back(runner.new_slot(static_cast<int64_t>(prompts_[index].size()) + kSteps));
            const auto logits = runner.extend(slots.back(), prompts_[index]);
            together[index].assign(logits.begin(), logits.end());
        }
        std::vector<cpu::Slot*> batch;
        for (auto& slot : slots) batch.push_back(&slot);
        const auto vocab = static_cast<size_t>(runner.config().vocab_size);
        for (int step = 0; step < kSteps; ++step) {
            std::vector<int32_t> ids;
            for (const auto& output : outputs_) ids.push_back(output[static_cast<size_t>(step)]);
            const auto logits = runner.decode(batch, ids);
            for (size_t index = 0; index < batch.size(); ++index) {
                const auto row = logits.subspan(index * vocab, vocab);
                together[index].insert(together[index].end(), row.begin(), row.end());
            }
        }
        for (size_t index = 0; index < prompts_.size(); ++index) {
            EXPECT_TRUE(same_bits(together[index], run_alone(runner, prompts_[index], outputs_[index])))
                << "prompt of " << prompts_[index].size() << " tokens";
        }
    }
}

TEST_P(SameBits, InASlotThatServedAnotherRequestBefore) {
    cpu::Runner runner(GetParam(), options_for(model::Precision::bf16, 2, 64));
    const auto expected = run_alone(runner, prompts_[1], outputs_[1]);
    cpu::Slot slot = runner.new_slot(static_cast<int64_t>(prompts_[0].size()) + kSteps);
    runner.extend(slot, prompts_[0]);
    slot.clear();
    const auto logits = runner.extend(slot, prompts_[1]);
    EXPECT_TRUE(std::equal(logits.begin(), logits.end(), expected.begin()));
}

INSTANTIATE_TEST_SUITE_P(Stability, SameBits, testing::ValuesIn(checkpoints_with_goldens()), [](const auto& parameter) {
    std::string name = parameter.param.filename().string();
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
});

}  // namespace
}  // namespace gemmatrace::goldens
