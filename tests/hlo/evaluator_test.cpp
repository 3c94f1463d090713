// Programs as a whole: memory in place, order, probes, and what is refused.
#include "hlo/evaluator.h"

#include <gtest/gtest.h>

#include <map>

#include "hlo/evaluation_plan.h"
#include "hlo/tensors.h"
#include "support/expect_error.h"

namespace gemmatrace::hlo {
namespace {

using enum ElementType;
using gemmatrace::testing::expect_error;
using testing::arguments_of;
using testing::numbers_of;
using testing::tensor_of;
using Numbers = std::vector<double>;

std::map<Manner, int> manners(const Module& module) {
    std::map<Manner, int> count;
    for (const Step& step : plan_evaluation(module).steps) ++count[step.manner];
    return count;
}

// Writes `row` into a cache at `position` before, in the program's order, the cache as it was is summed.
Module cache_program() {
    Builder builder("cache");
    const Value cache = builder.parameter("kv.must_alias_input", Shape(f32, {4, 2}));
    const Value row = builder.parameter("row", Shape(f32, {1, 2}));
    const Value position = builder.parameter("position", Shape(s32, {}));
    const std::vector<Value> starts = {position, builder.constant(s32, 0)};
    const Value written = builder.dynamic_update_slice(cache, row, starts);
    const Value sum = builder.reduce(cache, Opcode::add, {0}, 0);
    return builder.finish({{"kv", written, cache}, {"sum", sum}});
}

TEST(Evaluator, ACacheIsReadAsItWasAndThenChangedWhereItLies) {
    const Module module = cache_program();
    EXPECT_EQ(manners(module)[Manner::in_place], 1);
    Evaluator evaluator(module, 1);
    std::vector<Tensor> inputs = {tensor_of(f32, {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), tensor_of(f32, {1, 2}, {10, 20}),
                                  tensor_of(s32, {}, {1})};
    const std::vector<std::vector<Argument>> arguments = {arguments_of(inputs)};
    const auto results = evaluator.run(arguments);
    EXPECT_EQ(numbers_of(inputs[0]), (Numbers{1, 2, 10, 20, 5, 6, 7, 8}));
    EXPECT_TRUE(results[0][0].bytes.empty()) << "the aliased result is in its argument";
    EXPECT_EQ(numbers_of(results[0][1]), (Numbers{16, 20}));
    EXPECT_EQ(numbers_of(evaluator.run(arguments)[0][1]), (Numbers{23, 36}))
        << "a second run sees what the first wrote";
}

TEST(Evaluator, AReadAfterTheWriteSeesTheNewRowAndAReadOfTheOldStaysRight) {
    Builder builder("both");
    const Value cache = builder.parameter("kv.must_alias_input", Shape(f32, {2}));
    const Value row = builder.parameter("row", Shape(f32, {1}));
    const std::vector<Value> starts = {builder.constant(s32, 0)};
    const Value written = builder.dynamic_update_slice(cache, row, starts);
    const Value both = builder.subtract(written, cache);  // needs old and new at once: a copy
    const Module module = builder.finish({{"kv", written, cache}, {"both", both}});
    EXPECT_EQ(manners(module)[Manner::in_place], 0);
    std::vector<Tensor> inputs = {tensor_of(f32, {1, 2}), tensor_of(f32, {5})};
    const std::vector<std::vector<Argument>> arguments = {arguments_of(inputs)};
    EXPECT_EQ(numbers_of(Evaluator(module, 1).run(arguments)[0][1]), (Numbers{4, 0}));
    EXPECT_EQ(numbers_of(inputs[0]), (Numbers{5, 2}));
}

TEST(Evaluator, ResultsMayTradeTheMemoryOfTheirParameters) {
    Builder builder("swap");
    const Value a = builder.parameter("a.must_alias_input", Shape(f32, {1}));
    const Value b = builder.parameter("b.must_alias_input", Shape(f32, {1}));
    const Module module = builder.finish({{"a", b, a}, {"b", a, b}});
    std::vector<Tensor> inputs = {tensor_of(f32, {1}), tensor_of(f32, {2})};
    const std::vector<std::vector<Argument>> arguments = {arguments_of(inputs)};
    Evaluator(module, 1).run(arguments);
    EXPECT_EQ(numbers_of(inputs[0]), Numbers{2});
    EXPECT_EQ(numbers_of(inputs[1]), Numbers{1});
}

TEST(Evaluator, InputsThatAreNotAliasedAreNeverWrittenTo) {
    Builder builder("const");
    const Value buffer = builder.parameter("buffer", Shape(f32, {2}));
    const Value part = builder.slice_axis(buffer, 0, 1, 2);
    const std::vector<Value> starts = {builder.constant(s32, 0)};
    const Value changed = builder.dynamic_update_slice(part, builder.splat(f32, 9, {1}), starts);
    const Value twice = builder.dynamic_update_slice(changed, builder.splat(f32, 8, {1}), starts);
    const Module module = builder.finish({{"changed", twice}});
    EXPECT_EQ(manners(module)[Manner::in_place], 1) << "only the temporary copy is changed in place";
    std::vector<Tensor> inputs = {tensor_of(f32, {1, 2})};
    const std::vector<std::vector<Argument>> arguments = {arguments_of(inputs)};
    EXPECT_EQ(numbers_of(Evaluator(module, 1).run(arguments)[0][0]), Numbers{8});
    EXPECT_EQ(numbers_of(inputs[0]), (Numbers{1, 2}));
}

TEST(Evaluator, TemporaryMemoryIsGivenBackAtTheLastUse) {
    Builder builder("chain");
    const Value x = builder.parameter("x", Shape(f32, {1000}));
    Value y = x;
    for (int step = 0; step < 50; ++step) y = builder.add(y, x);
    Evaluator evaluator(builder.finish({{"y", y}}), 1);
    std::vector<Tensor> inputs = {testing::random_tensor(Shape(f32, {1000}), 1)};
    const std::vector<std::vector<Argument>> arguments = {arguments_of(inputs)};
    for (int run = 0; run < 3; ++run) evaluator.run(arguments);
    EXPECT_EQ(evaluator.peak_temporary_bytes(), 8000U) << "an operand and a result";
}

TEST(Evaluator, AProbeSeesEveryNamedValueOfEveryRank) {
    Builder builder("probe", 2);
    const Value x = builder.parameter("x", Shape(f32, {1}));
    const Value doubled = builder.named(builder.add(x, x), "doubled");
    const Value total = builder.named(builder.all_reduce(doubled, Opcode::add), "total");
    Evaluator evaluator(builder.finish({{"y", builder.negate(total)}}), 2, 2);
    std::vector<Tensor> first = {tensor_of(f32, {1})}, second = {tensor_of(f32, {10})};
    const std::vector<std::vector<Argument>> arguments = {arguments_of(first), arguments_of(second)};
    std::map<std::string, double> seen;
    evaluator.run(arguments, [&](int32_t rank, const Instruction& instruction, std::span<const std::byte> bytes) {
        seen[instruction.name + "@" + std::to_string(rank)] = decode_number(f32, bytes);
    });
    EXPECT_EQ(seen["doubled@0"], 2);
    EXPECT_EQ(seen["doubled@1"], 20);
    EXPECT_EQ(seen["total@0"], 22);
    EXPECT_EQ(seen["total@1"], 22);
}

TEST(Evaluator, ArgumentsMustFitTheParameters) {
    Evaluator evaluator(cache_program(), 1);
    std::vector<Tensor> inputs = {tensor_of(f32, {4, 2}, Numbers(8)), tensor_of(f32, {1, 2}, {1, 2}),
                                  tensor_of(s32, {}, {1})};
    std::vector<std::vector<Argument>> arguments = {arguments_of(inputs)};
    arguments[0][0] = std::as_bytes(std::span(inputs[0].bytes));
    expect_error(ErrorCode::mismatch, {"kv.must_alias_input is written to"}, [&] { evaluator.run(arguments); });
    arguments[0][0] = std::span(inputs[0].bytes).first(4);
    expect_error(ErrorCode::mismatch, {"4 bytes for parameter kv.must_alias_input f32[4,2]"},
                 [&] { evaluator.run(arguments); });
    arguments[0].pop_back();
    expect_error(ErrorCode::mismatch, {"2 arguments for 3 parameters"}, [&] { evaluator.run(arguments); });
    arguments.clear();
    expect_error(ErrorCode::mismatch, {"arguments of 0 ranks for 1"}, [&] { evaluator.run(arguments); });
}

}  // namespace
}  // namespace gemmatrace::hlo
