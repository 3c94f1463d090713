// A checkpoint through traced programs on the simulator against the CPU's own forward pass: every bundled family,
// sharded as far as its heads allow, in the situations in which caches go wrong.
#include "trace/device_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>

#include "cpu/runner.h"
#include "model/decision.h"
#include "trace/forwarding_device.h"
#include "trace/sim_device.h"

namespace gemmatrace::trace {
namespace {

constexpr int32_t kChunk = 16;
constexpr int64_t kContext = 256;

struct Case {
    std::string model;
    int32_t ranks;
    model::Precision precision;
};

class OnDevice : public ::testing::TestWithParam<Case> {
  protected:
    static std::filesystem::path directory() { return GEMMATRACE_SOURCE_DIR "/models/" + GetParam().model; }
    static std::unique_ptr<DeviceModel> device_model(int32_t slots) {
        DeviceModelOptions options;
        options.geometry = {GetParam().ranks, slots, kContext, kChunk, GetParam().precision};
        options.buckets = {64, 128, kContext};
        return std::make_unique<DeviceModel>(make_sim_device(GetParam().ranks, 2), directory(), options);
    }
    std::vector<int32_t> random_ids(size_t count) {
        std::vector<int32_t> ids = {2};
        while (ids.size() < count) ids.push_back(static_cast<int32_t>(300 + random_() % 700));
        return ids;
    }
    // In fp32 the logits agree but for the order of sums. In bf16 that order flips roundings here and there; then the
    // choice may be another one only where it was nearly a tie.
    void expect_close(std::span<const float> expected, std::span<const float> got, int32_t best_id) {
        ASSERT_EQ(expected.size(), got.size());
        float largest = 0.0F, difference = 0.0F;
        for (size_t id = 0; id < got.size(); ++id) {
            largest = std::max(largest, std::fabs(expected[id]));
            difference = std::max(difference, std::fabs(expected[id] - got[id]));
        }
        const bool is_fp32 = GetParam().precision == model::Precision::fp32;
        ++rows_;
        if (difference > (is_fp32 ? 3e-5F : 0.06F) * largest) ++far_;
        EXPECT_EQ(best_id, greedy(got)) << "the program's choice is not that of its own logits";
        const int32_t chosen = greedy(expected);
        if (chosen != best_id) {
            const float margin = expected[static_cast<size_t>(chosen)] - expected[static_cast<size_t>(best_id)];
            EXPECT_LE(margin, 2.0F * difference) << "id " << best_id << " instead of " << chosen;
        }
        EXPECT_EQ(best_id, greedy(got));
    }
    int32_t greedy(std::span<const float> logits) const {
        return model::greedy_token(logits, reference_.config().final_softcap, GetParam().precision, {});
    }
    // Where a flipped rounding makes the router choose another expert, a row is another one too.
    void TearDown() override {
        const bool may_route_otherwise =
            GetParam().model == "26b-a4b" && GetParam().precision == model::Precision::bf16;
        EXPECT_LE(far_, may_route_otherwise ? rows_ / 10 : 0) << "of " << rows_;
    }
    static cpu::RunnerOptions reference_options() {
        cpu::RunnerOptions options;
        options.precision = GetParam().precision;
        options.threads = 1;
        return options;
    }

    std::mt19937 random_{1};
    cpu::Runner reference_{directory(), reference_options()};
    size_t rows_ = 0;
    size_t far_ = 0;  // rows whose logits differ by more than the order of sums explains
};

TEST_P(OnDevice, PromptsAndRepliesAcrossWindowChunkAndBucketBorders) {
    const auto device = device_model(2);
    for (const size_t length : {1U, 16U, 17U, 65U, 130U}) {
        cpu::Slot slot = reference_.new_slot(kContext);
        const auto prompt = random_ids(length);
        device->trim(1, 0);
        auto expected = reference_.extend(slot, prompt);
        device->prefill(1, prompt);
        expect_close(expected, device->logits(0), device->best_ids()[0]);
        for (int step = 0; step < (length == 65 ? 64 : 4); ++step) {
            const int32_t id = greedy(expected);
            const int32_t one = 1;
            expected = reference_.extend(slot, {&id, 1});
            device->decode({&one, 1}, {&id, 1});
            expect_close(expected, device->logits(0), device->best_ids()[0]);
        }
    }
}

TEST_P(OnDevice, SlotsAtDifferentPlacesInOneStep) {
    const auto device = device_model(4);
    std::vector<cpu::Slot> slots;
    std::vector<int32_t> numbers = {3, 0, 2, 1};
    for (const size_t length : {90U, 3U, 40U, 17U}) {
        const auto prompt = random_ids(length);
        device->prefill(numbers[slots.size()], prompt);
        slots.push_back(reference_.new_slot(kContext));
        reference_.extend(slots.back(), prompt);
    }
    for (int step = 0; step < 20; ++step) {
        const size_t count = step % 3 == 2 ? 3 : 4;  // one of them pauses now and then
        std::vector<int32_t> ids;
        std::vector<cpu::Slot*> batch;
        for (size_t index = 0; index < count; ++index) {
            ids.push_back(static_cast<int32_t>(300 + random_() % 700));
            batch.push_back(&slots[index]);
        }
        const auto expected = reference_.decode(batch, ids);
        device->decode(std::span(numbers).first(count), ids);
        const auto vocab = static_cast<size_t>(reference_.config().vocab_size);
        for (size_t index = 0; index < count; ++index) {
            expect_close(expected.subspan(index * vocab, vocab), device->logits(index), device->best_ids()[index]);
        }
    }
}

// Counts what is read back.
class CountingDevice : public ForwardingDevice {
  public:
    CountingDevice(std::unique_ptr<Device> inner, size_t& bytes) : ForwardingDevice(std::move(inner)), bytes_(bytes) {}
    void read(std::span<const Read> reads) override {
        for (const Read& part : reads) bytes_ += part.bytes.size();
        ForwardingDevice::read(reads);
    }

  private:
    size_t& bytes_;
};

TEST(ADeviceModel, ReadsLogitsBackOnlyWhenTheyAreAskedFor) {
    size_t bytes = 0;
    DeviceModelOptions options;
    options.geometry = {2, 4, 64, kChunk, model::Precision::bf16};
    options.buckets = {64};
    DeviceModel device(std::make_unique<CountingDevice>(make_sim_device(2, 1), bytes),
                       GEMMATRACE_SOURCE_DIR "/models/demo", options);
    const std::vector<int32_t> prompt = {2, 300, 301}, slots = {0, 1}, ids = {302, 303};
    bytes = 0;
    device.prefill(0, prompt);
    EXPECT_EQ(bytes, 2U * 8);  // of each rank an id and its value
    device.prefill(1, prompt);
    device.decode(slots, ids);
    EXPECT_EQ(bytes, 2U * 8 * 4);
    const auto row = static_cast<size_t>(device.config().vocab_size) * 4;
    bytes = 0;
    const std::vector<float> second(device.logits(1).begin(), device.logits(1).end());
    EXPECT_EQ(bytes, row);
    EXPECT_TRUE(std::ranges::equal(device.logits(1), second));
    EXPECT_EQ(bytes, row);  // once
    device.logits(0);
    EXPECT_EQ(bytes, 2 * row);
    EXPECT_TRUE(std::ranges::equal(device.logits(1), second));
}

class ReuseOnDevice : public OnDevice {};

TEST_P(ReuseOnDevice, ASlotThatServedAnotherRequestAndPrefixesThatAreUsedAgainChangeNoBit) {
    const auto device = device_model(2);
    const auto prompt = random_ids(100);
    device->prefill(0, prompt);
    const std::vector<float> expected(device->logits(0).begin(), device->logits(0).end());
    const auto expect_same = [&](int32_t slot, std::span<const int32_t> ids) {
        device->prefill(slot, ids);
        EXPECT_TRUE(std::ranges::equal(expected, device->logits(0)));
    };
    device->prefill(1, random_ids(200));
    device->trim(1, 0);
    expect_same(1, prompt);
    // in pieces, over borders of chunks
    device->trim(1, 0);
    device->prefill(1, std::span(prompt).first(37));
    device->prefill(1, std::span(prompt).subspan(37, 1));
    expect_same(1, std::span(prompt).subspan(38));
    // cut back as far as the rings reach, and copied
    ASSERT_TRUE(device->can_trim(1, 97));
    device->trim(1, 97);
    expect_same(1, std::span(prompt).subspan(97));
    device->copy_prefix(1, 0, 98);
    expect_same(0, std::span(prompt).subspan(98));
    EXPECT_FALSE(device->can_trim(0, 60));
}

std::vector<Case> cases(const std::vector<int32_t>& numbers_of_ranks) {
    std::vector<Case> all;
    for (const auto precision : {model::Precision::fp32, model::Precision::bf16}) {
        for (const char* model : {"demo", "e2b", "e4b", "12b", "26b-a4b", "31b"}) {
            for (const int32_t ranks : numbers_of_ranks) all.push_back({model, ranks, precision});
        }
    }
    return all;
}

std::string name_of(const ::testing::TestParamInfo<Case>& parameter) {
    const Case& test = parameter.param;
    std::string name =
        test.model + "_tp" + std::to_string(test.ranks) + "_" + std::string(model::precision_name(test.precision));
    std::ranges::replace(name, '-', '_');
    return name;
}

INSTANTIATE_TEST_SUITE_P(Bundled, OnDevice, ::testing::ValuesIn(cases({1, 2, 4})), name_of);
// Which rows are used again does not depend on the ranks.
INSTANTIATE_TEST_SUITE_P(Bundled, ReuseOnDevice, ::testing::ValuesIn(cases({2})), name_of);

}  // namespace
}  // namespace gemmatrace::trace
