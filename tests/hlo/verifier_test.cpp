// Sound programs have no findings; each broken rule is found in the instruction that breaks it.
#include "hlo/verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "hlo/toy_modules.h"
#include "support/expect_error.h"

namespace gemmatrace::hlo {
namespace {

using gemmatrace::testing::expect_error;
using ::testing::HasSubstr;
using enum ElementType;

Instruction& instruction_of(Module& module, Opcode opcode) {
    for (Instruction& instruction : module.computations.back().instructions) {
        if (instruction.opcode == opcode) return instruction;
    }
    throw Error(ErrorCode::internal, "no such instruction");
}

// The decode step on two ranks after `change` must have a finding of this kind with this text.
void expect_finding(const std::string& fault, bool is_sound, const std::function<void(Module&)>& change) {
    Module module = testing::decode_step({.ranks = 2});
    change(module);
    const auto findings = verify(module, 2);
    ASSERT_FALSE(findings.empty()) << fault;
    EXPECT_THAT(findings[0].fault, HasSubstr(fault)) << findings[0].instruction;
    EXPECT_EQ(findings[0].is_sound, is_sound) << fault;
}
void expect_unsound(const std::string& fault, const std::function<void(Module&)>& change) {
    expect_finding(fault, false, change);
}

TEST(Verifier, WhatTheBuilderMakesFromAllowedOperationsIsClean) {
    for (const int32_t ranks : {1, 2, 8})
        EXPECT_EQ(verify(testing::decode_step({.ranks = ranks}), ranks), std::vector<Finding>{});
}

TEST(Verifier, UnsoundProgramsAreFoundInTheirInstruction) {
    expect_unsound("another instruction has this name",
                   [](Module& m) { instruction_of(m, Opcode::add).name = "hidden"; });
    expect_unsound("the name is empty", [](Module& m) { instruction_of(m, Opcode::add).name = "a b"; });
    expect_unsound("does not come before it", [](Module& m) { instruction_of(m, Opcode::add).operands[1] = 5000; });
    expect_unsound("operands differ", [](Module& m) { instruction_of(m, Opcode::add).operands[1] = 0; });
    expect_unsound("its shape is", [](Module& m) { instruction_of(m, Opcode::compare).shape.type = f32; });
    expect_unsound("the operands differ in shape",
                   [](Module& m) { ++instruction_of(m, Opcode::broadcast).shape.dimensions[0]; });
    expect_unsound("given twice", [](Module& m) { m.computations.back().instructions[1].parameter_number = 0; });
    expect_unsound("its groups name ranks 0 where",
                   [](Module& m) { instruction_of(m, Opcode::all_reduce).groups = {{0}}; });
    expect_unsound("what it calls", [](Module& m) { instruction_of(m, Opcode::reduce).called_computation = 7; });
    expect_unsound("what it calls is made for", [](Module& m) {
        instruction_of(m, Opcode::reduce).called_computation =
            m.computations.back().instructions.back().called_computation = -1;
        for (const Instruction& other : m.computations.back().instructions) {
            if (other.opcode == Opcode::reduce && other.shape.type == s32) {
                instruction_of(m, Opcode::reduce).called_computation = other.called_computation;
            }
        }
    });
    expect_unsound("is aliased twice", [](Module& m) { m.aliases[1] = m.aliases[0]; });
    expect_unsound("not both there", [](Module& m) { m.aliases[1].parameter = 99; });
    expect_unsound("its memory, bf16[2,32]", [](Module& m) { m.aliases[1].parameter = 0; });
    expect_unsound("has no root", [](Module& m) { m.computations.back().root = -1; });
    expect_unsound("2 GiB", [](Module& m) {
        m.computations.back().instructions[0].shape.dimensions = {1 << 30, 1 << 30};
    });
    expect_unsound("there is no entry", [](Module& m) { m.computations.clear(); });
    expect_unsound("names 2", [](Module& m) {
        m.computations.back().instructions.back().frontend_attributes[std::string(kOutputNames)] = "a,b";
    });
}

TEST(Verifier, WhatTheCompilerWouldMistakeIsReportedOfSoundPrograms) {
    const auto expect_warning = [](const std::string& fault, const std::function<Value(Builder&, Value)>& build) {
        Builder builder("warned");
        const Value x = builder.parameter("x", Shape(bf16, {4, 4}));
        const Module module = builder.finish({{"y", build(builder, x)}});
        const auto findings = verify(module, 1);
        ASSERT_EQ(findings.size(), 1U) << fault;
        EXPECT_THAT(findings[0].fault, HasSubstr(fault));
        EXPECT_TRUE(findings[0].is_sound);
        EXPECT_NO_THROW(require_sound(module, 1));
    };
    expect_warning("remainder is not among", [](Builder& b, Value x) { return b.remainder(x, x); });
    expect_warning("logistic is not among", [](Builder& b, Value x) { return b.logistic(x); });
    expect_warning("typed bf16", [](Builder& b, Value x) { return b.dot(x, x, {{1}, {1}, {}, {}}, bf16); });
    expect_warning("a sum in bf16", [](Builder& b, Value x) { return b.reduce(x, Opcode::add, {0}, 0); });
    expect_finding("host program shape", true, [](Module& m) { m.host_shape.parameters[0].dimensions[0] = 7; });
    expect_finding("nothing reads this parameter", true, [](Module& m) {
        Instruction unused = m.computations.back().instructions[0];
        unused.name = "unused";
        unused.parameter_number = std::ssize(m.parameters());
        m.host_shape.parameters.push_back(unused.shape);
        m.host_shape.parameter_names.push_back("unused");
        auto& instructions = m.computations.back().instructions;
        instructions.push_back(unused);  // after the root, which is no fault
    });
    expect_finding("is NaN or infinite", true, [](Module& m) {
        Instruction& constant = instruction_of(m, Opcode::constant);
        constant.literal = testing::tensor_of(f32, {}, {std::nan("")}).bytes;
    });
    expect_finding("no result depends on it", true, [](Module& m) {
        Instruction dead = instruction_of(m, Opcode::negate);
        dead.name = "dead";
        m.computations.back().instructions.push_back(dead);
    });
}

TEST(Verifier, AnUnsoundProgramIsNotExecuted) {
    Module module = testing::decode_step({});
    instruction_of(module, Opcode::compare).operands[0] = 100000;
    expect_error(ErrorCode::corrupt, {"does not come before it", "instruction=compare."},
                 [&] { Evaluator(module, 1); });
}

}  // namespace
}  // namespace gemmatrace::hlo
