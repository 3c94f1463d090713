// The builder infers shapes at once, shares what is equal, and says what does not fit.
#include "hlo/builder.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "support/expect_error.h"

namespace gemmatrace::hlo {
namespace {

using enum ElementType;
using gemmatrace::testing::expect_error;

TEST(Builder, AFinishedModuleHasDenseUniqueNamesAndTheHostsShapes) {
    Builder builder("toy", 2);
    const Value x = builder.parameter("x", Shape(f32, {2, 3}));
    const Value doubled = builder.named(builder.add(x, x), "doubled");
    const Module module = builder.finish({{"y", builder.all_reduce(doubled, Opcode::add)}, {"same", x}});
    EXPECT_EQ(module.parameter_names(), std::vector<std::string>{"x"});
    EXPECT_EQ(module.output_names(), (std::vector<std::string>{"y", "same"}));
    EXPECT_EQ(module.host_shape.result.text(), "(f32[2,3], f32[2,3])");
    const auto& instructions = module.entry().instructions;
    ASSERT_EQ(instructions.size(), 5U);
    EXPECT_EQ(instructions[1].name, "doubled");
    EXPECT_EQ(instructions[2].groups, (std::vector<std::vector<int64_t>>{{0, 1}}));
    EXPECT_EQ(module.combiner(instructions[2].called_computation), Opcode::add);
    EXPECT_EQ(instructions[3].opcode, Opcode::copy) << "an input that is returned needs memory of its own";
}

TEST(Builder, EqualConstantsBroadcastsAndIotasAreOneInstruction) {
    Builder builder("toy");
    const Value x = builder.parameter("x", Shape(bf16, {4, 8}));
    const Value a = builder.multiply(x, builder.splat_like(x, 0.5));
    const Value b = builder.multiply(a, builder.splat(bf16, 0.5, {4, 8}));
    const Value c = builder.add(b, builder.splat(bf16, -0.0, {4, 8}));
    const Value d = builder.add(c, builder.splat(bf16, 0.0, {4, 8}));
    const Value ids = builder.add(builder.iota(s32, {4}, 0), builder.iota(s32, {4}, 0));
    const Module module = builder.finish({{"d", d}, {"ids", ids}});
    std::array<int, kOpcodeCount> count{};
    for (const auto& instruction : module.entry().instructions) ++count[static_cast<size_t>(instruction.opcode)];
    EXPECT_EQ(count[static_cast<size_t>(Opcode::constant)], 3) << "0.5, -0 and +0";
    EXPECT_EQ(count[static_cast<size_t>(Opcode::broadcast)], 3);
    EXPECT_EQ(count[static_cast<size_t>(Opcode::iota)], 1);
}

TEST(Builder, WhatNoResultNeedsIsLeftOutButParametersStay) {
    Builder builder("toy");
    const Value x = builder.parameter("x", Shape(f32, {2}));
    builder.parameter("unused", Shape(f32, {2}));
    builder.exponential(x);
    const Module module = builder.finish({{"y", builder.negate(x)}});
    EXPECT_EQ(module.entry().instructions.size(), 4U);
    EXPECT_EQ(module.parameter_names(), (std::vector<std::string>{"x", "unused"}));
}

TEST(Builder, ACacheIsWrittenInPlaceThroughAnAlias) {
    Builder builder("toy");
    const Value cache = builder.parameter("kv.must_alias_input", Shape(bf16, {16, 2, 4}));
    const Value update = builder.parameter("row", Shape(bf16, {1, 2, 4}));
    const Value position = builder.parameter("position", Shape(s32, {}));
    const Value zero = builder.constant(s32, 0);
    const std::vector<Value> starts = {position, zero, zero};
    const Value written = builder.dynamic_update_slice(cache, update, starts);
    expect_error(ErrorCode::mismatch, {"cannot take the memory of row bf16[1,2,4]"}, [&] {
        builder.finish({{"kv", written, update}});
    });
    const Module module = builder.finish({{"kv", written, cache}});
    ASSERT_EQ(module.aliases.size(), 1U);
    EXPECT_EQ(module.aliases[0], (Alias{0, 0}));
}

TEST(Builder, ADotStatesItsResultTypeAndKeepsBatchThenFreeAxes) {
    Builder builder("toy");
    const Value q = builder.parameter("q", Shape(bf16, {3, 2, 4, 64}));          // [B, kv, group, head_dim]
    const Value keys = builder.parameter("keys", Shape(bf16, {128, 3, 2, 64}));  // [C, B, kv, head_dim]
    const Value scores = builder.dot(q, keys, {{3}, {3}, {0, 1}, {1, 2}});
    EXPECT_EQ(scores.shape().text(), "f32[3,2,4,128]");
    expect_error(ErrorCode::mismatch, {"dot of bf16[3,2,4,64], bf16[128,3,2,64]", "contracting axes differ"}, [&] {
        builder.dot(q, keys, {{2}, {3}, {}, {}});
    });
}

TEST(Builder, MistakesNameTheShapesAndTheRemedy) {
    Builder builder("toy");
    const Value a = builder.parameter("a", Shape(f32, {2, 1}));
    const Value b = builder.parameter("b", Shape(f32, {2, 3}));
    const Value h = builder.parameter("h", Shape(bf16, {2, 3}));
    const auto refused = [](std::vector<std::string> fragments, auto action) {
        expect_error(ErrorCode::mismatch, fragments, action);
    };
    refused({"add of f32[2,1], f32[2,3]", "broadcast or convert"}, [&] { builder.add(a, b); });
    refused({"add of f32[2,3], bf16[2,3]"}, [&] { builder.add(b, h); });
    refused({"broadcast of f32[2,1]", "axes of size 1", "operand axis 1"}, [&] {
        builder.broadcast(a, {2, 3}, {0, 1});
    });
    refused({"reshape of f32[2,3]", "f32[5]"}, [&] { builder.reshape(b, {5}); });
    refused({"and of f32[2,3]", "not for f32"}, [&] { builder.logical_and(b, b); });
    refused({"slice of f32[2,3]", "[0:4:1]"}, [&] { builder.slice_axis(b, 1, 0, 4); });
    refused({"transpose of f32[2,3]"}, [&] { builder.transpose(b, {0, 0}); });
    refused({"select of"}, [&] { builder.select(b, b, b); });
    refused({"2 GiB"}, [&] { builder.parameter("big", Shape(bf16, {1 << 15, 1 << 15})); });
    refused({"without elements"}, [&] { builder.parameter("none", Shape(bf16, {0})); });
    refused({"two values are called a"}, [&] { builder.parameter("a", Shape(bf16, {1})); });
    refused({"'a b' is no name"}, [&] { builder.named(builder.add(b, b), "a b"); });
    refused({"inf is no constant"}, [&] { builder.constant(bf16, std::numeric_limits<double>::infinity()); });
    refused({"0.5 is no constant of type s32"}, [&] { builder.constant(s32, 0.5); });
    refused({"cannot be reduced by divide"}, [&] { builder.reduce(b, Opcode::divide, {0}, 1); });
}

TEST(Builder, AnAllReduceNamesEveryRankOnceAndIsNothingOnOneRank) {
    Builder builder("toy", 4);
    const Value x = builder.parameter("x", Shape(f32, {2}));
    EXPECT_EQ(builder.name_of(builder.all_reduce(x, Opcode::add, {{0}, {1}, {2}, {3}})), "x");
    expect_error(ErrorCode::mismatch, {"the groups name ranks 0,1", "runs on 4"}, [&] {
        builder.all_reduce(x, Opcode::add, {{0, 1}});
    });
    Builder alone("toy", 1);
    const Value y = alone.parameter("y", Shape(f32, {2}));
    EXPECT_EQ(alone.name_of(alone.all_reduce(y, Opcode::add)), "y");
}

}  // namespace
}  // namespace gemmatrace::hlo
