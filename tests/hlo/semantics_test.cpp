// What each elementwise operation computes, by its special values.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "hlo/tensors.h"

namespace gemmatrace::hlo {
namespace {

using enum ElementType;
using testing::computed;
using testing::numbers_of;
using testing::tensor_of;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLowest = -2147483648.0;
using Numbers = std::vector<double>;

// Equal numbers, zeros with their signs; any NaN equals any NaN.
void expect_numbers(const Tensor& tensor, const Numbers& expected) {
    const Numbers actual = numbers_of(tensor);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t index = 0; index < actual.size(); ++index) {
        if (std::isnan(expected[index])) {
            EXPECT_TRUE(std::isnan(actual[index])) << "at " << index << ": " << actual[index];
        } else {
            EXPECT_EQ(actual[index], expected[index]) << "at " << index;
            EXPECT_EQ(std::signbit(actual[index]), std::signbit(expected[index])) << "at " << index;
        }
    }
}

Tensor binary(Opcode opcode, ElementType type, const Numbers& a, const Numbers& b) {
    return computed({tensor_of(type, a), tensor_of(type, b)},
                    [&](Builder& builder, auto& p) { return builder.binary(opcode, p[0], p[1]); });
}

Tensor unary(Opcode opcode, ElementType type, const Numbers& a) {
    return computed({tensor_of(type, a)}, [&](Builder& builder, auto& p) { return builder.unary(opcode, p[0]); });
}

Tensor converted(ElementType from, ElementType to, const Numbers& a) {
    return computed({tensor_of(from, a)}, [&](Builder& builder, auto& p) { return builder.convert(p[0], to); });
}

TEST(Semantics, AnOperationOfBf16IsRoundedOnce) {
    expect_numbers(binary(Opcode::add, bf16, {1, 256, 256}, {0x1p-9, 1, 3}), {1, 256, 260});
    expect_numbers(binary(Opcode::multiply, f32, {1 + 0x1p-23}, {1 + 0x1p-23}), {1 + 0x1p-22});
    expect_numbers(binary(Opcode::divide, f32, {1, -1, 0}, {0, 0, 0}), {kInfinity, -kInfinity, kNan});
}

TEST(Semantics, IntegersWrapAndDivideAsHloSays) {
    expect_numbers(binary(Opcode::add, s32, {2147483647, kLowest}, {1, -1}), {kLowest, 2147483647});
    expect_numbers(binary(Opcode::multiply, s32, {65536, 123456789}, {65536, 1000}), {0, -1097262584});
    expect_numbers(binary(Opcode::divide, s32, {7, -7, 5, kLowest}, {2, 2, 0, -1}), {3, -3, -1, kLowest});
    expect_numbers(binary(Opcode::remainder, s32, {7, -7, 5, kLowest}, {2, 2, 0, -1}), {1, -1, 5, 0});
    expect_numbers(binary(Opcode::divide, ElementType::u32, {5, 4000000000}, {0, 2}), {4294967295, 2000000000});
    expect_numbers(unary(Opcode::negate, s32, {kLowest, 3}), {kLowest, -3});
    expect_numbers(unary(Opcode::abs, s32, {kLowest, -3}), {kLowest, 3});
    expect_numbers(unary(Opcode::sign, ElementType::s8, {-128, 0, 5}), {-1, 0, 1});
}

TEST(Semantics, MaximumAndMinimumKeepNanAndOrderZeros) {
    for (const auto type : {f32, bf16}) {
        expect_numbers(binary(Opcode::maximum, type, {kNan, 1, -0.0, 0.0, -kInfinity}, {1, kNan, 0.0, -0.0, 2}),
                       {kNan, kNan, 0.0, 0.0, 2});
        expect_numbers(binary(Opcode::minimum, type, {kNan, 1, -0.0, 0.0, -kInfinity}, {1, kNan, 0.0, -0.0, 2}),
                       {kNan, kNan, -0.0, -0.0, -kInfinity});
    }
}

TEST(Semantics, RemainderHasTheSignOfTheDividend) {
    expect_numbers(binary(Opcode::remainder, f32, {5.5, -5.5, 5.5}, {2, 2, -2}), {1.5, -1.5, 1.5});
}

TEST(Semantics, UnaryFunctionsAtTheirEdges) {
    expect_numbers(unary(Opcode::sign, f32, {-0.0, 0.0, -3, 7, kNan}), {-0.0, 0.0, -1, 1, kNan});
    expect_numbers(unary(Opcode::rsqrt, f32, {-0.0, 0.0, 4, -1}), {-kInfinity, kInfinity, 0.5, kNan});
    expect_numbers(unary(Opcode::sqrt, f32, {2, -0.0}), {static_cast<double>(std::sqrt(2.0F)), -0.0});
    expect_numbers(unary(Opcode::exponential, f32, {0, -kInfinity, 200}), {1, 0, kInfinity});
    expect_numbers(unary(Opcode::log, f32, {1, 0, -1}), {0, -kInfinity, kNan});
    expect_numbers(unary(Opcode::tanh, f32, {0.5, 20}), {static_cast<double>(static_cast<float>(std::tanh(0.5))), 1});
    expect_numbers(unary(Opcode::cosine, f32, {0, 100000}),
                   {1, static_cast<double>(static_cast<float>(std::cos(1e5)))});
    expect_numbers(unary(Opcode::sine, f32, {-0.0}), {-0.0});
    expect_numbers(unary(Opcode::logistic, f32, {0, -kInfinity}), {0.5, 0});
    expect_numbers(unary(Opcode::floor, f32, {-0.5, 2.5}), {-1, 2});
    expect_numbers(unary(Opcode::ceil, bf16, {-0.5, 2.5}), {-0.0, 3});
    expect_numbers(binary(Opcode::power, f32, {0, 1, -8, 4}, {0, kNan, 0.5, -0.5}), {1, 1, kNan, 0.5});
}

TEST(Semantics, LogicIsOfPredsOrOfBits) {
    expect_numbers(binary(Opcode::logical_and, ElementType::pred, {0, 0, 1, 1}, {0, 1, 0, 1}), {0, 0, 0, 1});
    expect_numbers(binary(Opcode::logical_or, ElementType::pred, {0, 0, 1, 1}, {0, 1, 0, 1}), {0, 1, 1, 1});
    expect_numbers(unary(Opcode::logical_not, ElementType::pred, {0, 1}), {1, 0});
    expect_numbers(binary(Opcode::logical_and, s32, {12, -1}, {10, 7}), {8, 7});
    expect_numbers(unary(Opcode::logical_not, s32, {0, 5}), {-1, -6});
}

TEST(Semantics, ConversionToIntegersSaturatesAndTakesNanAsZero) {
    expect_numbers(converted(f32, s32, {2.9, -2.9, 3e9, -3e9, kNan, kInfinity}),
                   {2, -2, 2147483647, kLowest, 0, 2147483647});
    expect_numbers(converted(f32, ElementType::s8, {200, -200, 7.9}), {127, -128, 7});
    expect_numbers(converted(bf16, ElementType::u32, {-1, 5e9, 3}), {0, 4294967295, 3});
    expect_numbers(converted(s32, ElementType::s8, {200, -129, 5}), {-56, 127, 5});
    expect_numbers(converted(f32, ElementType::pred, {0, -0.0, 0.5, kNan}), {0, 0, 1, 1});
    expect_numbers(converted(ElementType::pred, f32, {0, 1}), {0, 1});
    expect_numbers(converted(s32, f32, {16777217, 16777219}), {16777216, 16777220});
}

TEST(Semantics, ConversionToBf16RoundsToNearestEvenAndOverflows) {
    expect_numbers(converted(f32, bf16, {1 + 0x1p-8, 1 + 3 * 0x1p-8, 3.4e38, -3.4e38, kNan}),
                   {1, 1 + 0x1p-6, kInfinity, -kInfinity, kNan});
    expect_numbers(converted(f32, ElementType::f16, {1 + 0x1p-11, 65520, 0x1p-25, 3 * 0x1p-25}),
                   {1, kInfinity, 0, 0x1p-23});
    EXPECT_EQ(round_to_bf16(std::bit_cast<float>(0xff812345U)), 0xffc0) << "the sign stays, the payload does not";
}

TEST(Semantics, ComparisonsWithNanAreFalseExceptNotEqual) {
    const Numbers a = {kNan, -0.0, 1}, b = {kNan, 0.0, 2};
    const auto compared = [&](Comparison comparison) {
        return computed({tensor_of(f32, a), tensor_of(f32, b)},
                        [&](Builder& builder, auto& p) { return builder.compare(comparison, p[0], p[1]); });
    };
    expect_numbers(compared(Comparison::eq), {0, 1, 0});
    expect_numbers(compared(Comparison::ne), {1, 0, 1});
    expect_numbers(compared(Comparison::lt), {0, 0, 1});
    expect_numbers(compared(Comparison::le), {0, 1, 1});
    expect_numbers(compared(Comparison::gt), {0, 0, 0});
    expect_numbers(compared(Comparison::ge), {0, 1, 0});
    expect_numbers(computed({tensor_of(ElementType::pred, {0, 1}), tensor_of(ElementType::pred, {1, 1})},
                            [](Builder& builder, auto& p) { return builder.compare(Comparison::lt, p[0], p[1]); }),
                   {1, 0});
}

TEST(Semantics, TheValueThatIsNotSelectedHasNoInfluence) {
    const auto selected = [](Builder& builder, auto& p) { return builder.select(p[0], p[1], p[2]); };
    expect_numbers(computed({tensor_of(ElementType::pred, {1, 0, 1}), tensor_of(bf16, {1, kNan, -0.0}),
                             tensor_of(bf16, {kInfinity, 2, 3})},
                            selected),
                   {1, 2, -0.0});
}

TEST(Semantics, ClampTakesScalarOrFullBounds) {
    const auto clamped = [](Builder& builder, auto& p) { return builder.clamp(p[0], p[1], p[2]); };
    expect_numbers(
        computed({tensor_of(f32, {}, {0}), tensor_of(f32, {-1, 0.5, 9, kNan}), tensor_of(f32, {1, 1, 2, 1})}, clamped),
        {0, 0.5, 2, kNan});
}

}  // namespace
}  // namespace gemmatrace::hlo
