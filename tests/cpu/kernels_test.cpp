// Every instruction set computes the bits of the scalar twin, and the twin computes the stated order.
#include "cpu/kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/bf16.h"

namespace gemmatrace::cpu {
namespace {

// Values that cancel, so that another order of summation shows: wide exponents, both signs.
std::vector<float> nasty_values(size_t count, uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::uniform_int_distribution<int> exponent(-6, 6);
    std::vector<float> values(count);
    for (float& value : values) value = round_bf16(std::ldexp(normal(random), exponent(random)));
    return values;
}

std::vector<uint16_t> as_bf16(const std::vector<float>& values) {
    std::vector<uint16_t> bits;
    for (const float value : values) bits.push_back(float_to_bf16(value));
    return bits;
}

// Equal bits; any NaN equals any NaN.
void expect_same_bits(const std::vector<float>& actual, const std::vector<float>& expected, const std::string& what) {
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t index = 0; index < actual.size(); ++index) {
        if (std::isnan(actual[index]) && std::isnan(expected[index])) continue;
        ASSERT_EQ(std::bit_cast<uint32_t>(actual[index]), std::bit_cast<uint32_t>(expected[index]))
            << what << " at " << index << ": " << actual[index] << " against " << expected[index];
    }
}

class EveryIsa : public testing::TestWithParam<Isa> {
  protected:
    void SetUp() override { scratch_.resize(product_scratch(kProductSlab, 8192)); }
    const Kernels& fast() const { return kernels(GetParam()); }
    const Kernels& twin() const { return kernels(Isa::scalar); }
    mutable std::vector<float> scratch_;  // of one test at a time

    void expect_linear_alike(int64_t columns, int32_t tokens, int64_t rows) const {
        // one element of offset: rows need not be aligned to a vector
        const auto x = nasty_values(static_cast<size_t>(columns * tokens + 1), 1);
        const auto weights = nasty_values(static_cast<size_t>(columns * rows + 1), 2);
        const auto bits = as_bf16(weights);
        const auto stride = static_cast<size_t>(columns), out_stride = static_cast<size_t>(rows);
        const std::string sizes = std::to_string(columns) + " columns, " + std::to_string(tokens) + " tokens";
        for (const bool round : {false, true}) {
            std::vector<float> fast_out(static_cast<size_t>(tokens * rows)), twin_out(fast_out.size());
            fast().linear_bf16(x.data() + 1, stride, tokens, bits.data() + 1, columns, 0, rows, fast_out.data(),
                               out_stride, round, scratch_.data());
            twin().linear_bf16(x.data() + 1, stride, tokens, bits.data() + 1, columns, 0, rows, twin_out.data(),
                               out_stride, round, nullptr);
            expect_same_bits(fast_out, twin_out, "bf16, " + sizes);
            fast().linear_f32(x.data(), stride, tokens, weights.data() + 1, columns, 0, rows, fast_out.data(),
                              out_stride, round, scratch_.data());
            twin().linear_f32(x.data(), stride, tokens, weights.data() + 1, columns, 0, rows, twin_out.data(),
                              out_stride, round, nullptr);
            expect_same_bits(fast_out, twin_out, "f32, " + sizes);
        }
    }

    void expect_attention_alike(int32_t heads, int32_t head_dim, int64_t count, int64_t first_position) const {
        const size_t stride = static_cast<size_t>(head_dim) * 2 + 1;
        const auto head_count = static_cast<size_t>(heads);
        const auto q = nasty_values(static_cast<size_t>(head_dim) * head_count, 5);
        const auto rows = nasty_values(stride * static_cast<size_t>(count), 6);
        const auto bits = as_bf16(rows);
        const size_t out_stride = static_cast<size_t>(count) + 3;
        const auto probabilities = nasty_values(out_stride * head_count, 7);
        std::vector<float> fast_out(out_stride * head_count), twin_out(fast_out.size());
        fast().scores_bf16(q.data(), heads, bits.data(), stride, count, head_dim, fast_out.data(), out_stride, true);
        twin().scores_bf16(q.data(), heads, bits.data(), stride, count, head_dim, twin_out.data(), out_stride, true);
        expect_same_bits(fast_out, twin_out, "bf16 scores");
        fast().scores_f32(q.data(), heads, rows.data(), stride, count, head_dim, fast_out.data(), out_stride, false);
        twin().scores_f32(q.data(), heads, rows.data(), stride, count, head_dim, twin_out.data(), out_stride, false);
        expect_same_bits(fast_out, twin_out, "f32 scores");
        std::vector<float> fast_sums = nasty_values(static_cast<size_t>(head_dim) * 4 * head_count, 8),
                           twin_sums = fast_sums;
        fast().accumulate_bf16(probabilities.data(), out_stride, heads, bits.data(), stride, count, head_dim,
                               first_position, fast_sums.data());
        twin().accumulate_bf16(probabilities.data(), out_stride, heads, bits.data(), stride, count, head_dim,
                               first_position, twin_sums.data());
        expect_same_bits(fast_sums, twin_sums, "bf16 sums");
        fast().accumulate_f32(probabilities.data(), out_stride, heads, rows.data(), stride, count, head_dim,
                              first_position, fast_sums.data());
        twin().accumulate_f32(probabilities.data(), out_stride, heads, rows.data(), stride, count, head_dim,
                              first_position, twin_sums.data());
        expect_same_bits(fast_sums, twin_sums, "f32 sums");
    }
};

TEST_P(EveryIsa, LinearEqualsTheTwinForOddSizesRowsAndTokens) {
    for (const int64_t columns : {1, 8, 15, 16, 24, 63, 64, 65, 72, 100, 127, 128, 200, 331, 1536}) {
        for (const int32_t tokens : {1, 2, 3, 5, 7, 13}) expect_linear_alike(columns, tokens, 11);
    }
}

TEST_P(EveryIsa, LinearEqualsTheTwinWhereItWorksInParts) {
    expect_linear_alike(2 * 3072 + 72, 13, 29);          // blocks of columns, panels of rows
    expect_linear_alike(136, kProductSlab + 7, 12 + 1);  // slabs of tokens
    expect_linear_alike(64, 2 * kProductSlab, 24);
}

TEST_P(EveryIsa, ALinearRowDoesNotDependOnItsNeighbours) {
    const int64_t columns = 200;
    const int32_t tokens = 13;
    const auto x = nasty_values(static_cast<size_t>(columns) * tokens, 3);
    const auto weights = as_bf16(nasty_values(static_cast<size_t>(columns) * 9, 4));
    std::vector<float> together(tokens * 9);
    fast().linear_bf16(x.data(), columns, tokens, weights.data(), columns, 0, 9, together.data(), 9, true,
                       scratch_.data());
    for (int32_t token = 0; token < tokens; ++token) {
        for (int64_t row = 0; row < 9; ++row) {
            float alone[9] = {};
            fast().linear_bf16(x.data() + token * columns, columns, 1, weights.data(), columns, row, row + 1, alone, 9,
                               true, scratch_.data());
            ASSERT_EQ(alone[row], together[static_cast<size_t>(token * 9 + row)]);
        }
    }
}

TEST_P(EveryIsa, AttentionKernelsEqualTheTwin) {
    for (const int32_t head_dim : {4, 20, 24, 40, 64, 100, 256}) {
        for (const int64_t count : {1, 2, 5, 8, 37}) {
            for (const int64_t first_position : {0, 1, 3, 1002}) {
                for (const int32_t heads : {1, 2, 5, 7}) {
                    expect_attention_alike(heads, head_dim, count, first_position);
                }
            }
        }
    }
}

TEST_P(EveryIsa, SoftmaxEqualsTheTwinWithMaskedAndFarScores) {
    constexpr float kMasked = -std::numeric_limits<float>::infinity();
    for (const size_t count : {8, 16, 64, 200}) {
        auto scores = nasty_values(count, 9);
        scores[0] = kMasked;
        scores[count / 2] = scores[1] - 103.9F;  // a subnormal result
        scores[count - 1] = kMasked;
        for (const bool round : {false, true}) {
            auto fast_out = scores, twin_out = scores;
            fast().softmax(fast_out.data(), static_cast<int64_t>(count), round);
            twin().softmax(twin_out.data(), static_cast<int64_t>(count), round);
            expect_same_bits(fast_out, twin_out, "softmax");
            EXPECT_EQ(fast_out[0], 0.0F);
        }
    }
}

TEST_P(EveryIsa, ExpEqualsTheTwinOverItsWholeRange) {
    for (float distance = 0.0F; distance > -110.0F; distance -= 0.00731F) {
        ASSERT_EQ(std::bit_cast<uint32_t>(fast().exp_of_distance(distance)),
                  std::bit_cast<uint32_t>(twin().exp_of_distance(distance)))
            << distance;
    }
    EXPECT_EQ(fast().exp_of_distance(0.0F), 1.0F);
    EXPECT_EQ(fast().exp_of_distance(-std::numeric_limits<float>::infinity()), 0.0F);
}

TEST_P(EveryIsa, NotANumberAndInfinityPassThrough) {
    for (const float odd : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()}) {
        auto x = nasty_values(80, 10);
        x[67] = odd;
        const auto weights = as_bf16(nasty_values(80 * 4, 11));
        std::vector<float> fast_out(4), twin_out(4);
        fast().linear_bf16(x.data(), 80, 1, weights.data(), 80, 0, 4, fast_out.data(), 4, true, scratch_.data());
        twin().linear_bf16(x.data(), 80, 1, weights.data(), 80, 0, 4, twin_out.data(), 4, true, scratch_.data());
        expect_same_bits(fast_out, twin_out, "odd values");
        EXPECT_FALSE(std::isfinite(fast_out[0]));
    }
}

INSTANTIATE_TEST_SUITE_P(Kernels, EveryIsa, testing::ValuesIn(available_isas()),
                         [](const auto& parameter) { return std::string(isa_name(parameter.param)); });

// The law itself, on numbers where the order decides: 2^24 swallows a 1 that is added to it alone.
TEST(ScalarTwin, AddsElementKToSumKModulo64AndFoldsByHalves) {
    std::vector<float> x(128, 0.0F);
    const std::vector<float> ones(128, 1.0F);
    x[0] = 16777216.0F;  // sum 0
    x[64] = 1.0F;        // sum 0 again: lost
    x[1] = 1.0F;         // sum 1
    x[33] = 1.0F;        // sum 33, folded into sum 1 before that meets sum 0
    float out = 0.0F;
    kernels(Isa::scalar).linear_f32(x.data(), 128, 1, ones.data(), 128, 0, 1, &out, 1, false, nullptr);
    EXPECT_EQ(out, 16777218.0F);
}

TEST(ScalarTwin, TakesColumnsBeyond64InEightSumsAndTheLastOneByOne) {
    std::vector<float> x(64 + 16 + 2, 0.0F);
    const std::vector<float> ones(x.size(), 1.0F);
    x[0] = 16777216.0F;
    x[64] = 1.0F;  // further sum 0
    x[72] = 1.0F;  // further sum 0 again: 2, which survives the addition
    x[80] = 0.5F;  // one by one: lost
    x[81] = 0.5F;  // one by one: lost
    float out = 0.0F;
    kernels(Isa::scalar)
        .linear_f32(x.data(), x.size(), 1, ones.data(), static_cast<int64_t>(x.size()), 0, 1, &out, 1, false, nullptr);
    EXPECT_EQ(out, 16777218.0F);
}

TEST(ScalarTwin, DealsKeysToFourSumsByAbsolutePosition) {
    const std::vector<float> probabilities = {1.0F, 2.0F, 4.0F};
    const std::vector<float> values = {1.0F, 1.0F, 1.0F};
    std::vector<float> sums(4, 0.0F);
    kernels(Isa::scalar).accumulate_f32(probabilities.data(), 3, 1, values.data(), 1, 3, 1, 7, sums.data());
    EXPECT_EQ(sums, (std::vector<float>{2.0F, 4.0F, 0.0F, 1.0F}));
}

}  // namespace
}  // namespace gemmatrace::cpu
