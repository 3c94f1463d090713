// Bytes and arithmetic of a decode step, counted by hand.
#include "hlo/statistics.h"

#include <gtest/gtest.h>

#include "hlo/toy_modules.h"

namespace gemmatrace::hlo {
namespace {

using enum ElementType;

TEST(Statistics, ADecodeStepReadsWeightsAndCacheOnceAndWritesItsRows) {
    const testing::StepSizes s;
    const Module module = testing::decode_step(s);
    const Statistics statistics = statistics_of(module);
    const int64_t q_rows = s.kv_heads * s.group * s.head_dim, kv_rows = s.kv_heads * s.head_dim;
    const int64_t weights = s.hidden * (2 + q_rows + 2 * kv_rows + q_rows + 3 * s.ff + s.vocab);
    const int64_t cache = s.positions * s.batch * kv_rows;
    EXPECT_EQ(statistics.inputs.at("weights").bytes, static_cast<size_t>(2 * weights));
    EXPECT_EQ(statistics.inputs.at("weights").bytes_read, static_cast<size_t>(2 * weights));
    EXPECT_EQ(statistics.inputs.at("kv").bytes_read, static_cast<size_t>(2 * 2 * cache));
    const int64_t results = 4 * s.batch + 4 * s.batch + 4 * s.batch * s.vocab;  // best, id, logits
    EXPECT_EQ(statistics.bytes_written, static_cast<size_t>(2 * 2 * s.batch * kv_rows + results));
    const int64_t products = s.batch * (weights - 2 * s.hidden + q_rows * 2 * (s.positions + 1) - q_rows);
    EXPECT_EQ(statistics.dot_flop, static_cast<double>(2 * products)) << "the own value enters by a multiplication";
    EXPECT_EQ(statistics.operations.at("dot"), 7 + 1);
    EXPECT_EQ(statistics.input_count, 13);
}

TEST(Statistics, OfAnInputOnlyTheSlicesThatAreTakenAreRead) {
    Builder builder("slices");
    const Value table = builder.parameter("table", Shape(f32, {100, 8}));
    const Value stacked = builder.parameter("stacked", Shape(f32, {10, 8}));
    const Value rows = builder.parameter("rows", Shape(s32, {3}));
    const Value gathered = builder.gather_rows(table, rows);
    const Value whole = builder.add(builder.slice_axis(stacked, 0, 0, 3), builder.slice_axis(stacked, 0, 7, 10));
    const Statistics statistics = statistics_of(builder.finish({{"y", builder.add(gathered, whole)}}));
    EXPECT_EQ(statistics.inputs.at("table").bytes_read, 3U * 8 * 4);
    EXPECT_EQ(statistics.inputs.at("stacked").bytes_read, 6U * 8 * 4);
    EXPECT_EQ(statistics.inputs.at("rows").bytes_read, 12U);
    EXPECT_EQ(statistics.bytes_written, 3U * 8 * 4);
}

TEST(Statistics, PeakMemoryIsWhatTheEvaluatorNeeds) {
    const Module module = testing::decode_step({});
    Evaluator evaluator(module, 1);
    auto inputs = testing::toy_inputs(module, 0);
    const std::vector<std::vector<Argument>> arguments = {testing::arguments_of(inputs)};
    evaluator.run(arguments);
    const Statistics statistics = statistics_of(module);
    EXPECT_EQ(statistics.peak_temporary_bytes, evaluator.peak_temporary_bytes());
    ASSERT_EQ(statistics.largest.size(), 10U);
    EXPECT_GE(statistics.largest[0].shape.bytes(), statistics.largest[1].shape.bytes());
}

}  // namespace
}  // namespace gemmatrace::hlo
