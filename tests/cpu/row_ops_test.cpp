// Norms, rotation, gelu and expert choice on numbers small enough to check by hand.
#include "cpu/row_ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/bf16.h"

namespace gemmatrace::cpu {
namespace {

TEST(SumInReferenceOrder, DealsFewerThanEightValuesToFourSums) {
    // sum 0 takes 2^24 and, at index 4, a 1 that is lost; sum 1 is 1 and lost as well: in order 1 + 1 would survive
    EXPECT_EQ(sum_in_reference_order(std::vector<float>{16777216.0F, 1.0F, 0.0F, 0.0F, 1.0F}), 16777216.0F);
    EXPECT_EQ(sum_in_reference_order(std::vector<float>{1.0F, 16777216.0F, 0.0F, 0.0F, 1.0F}), 16777218.0F);
}

TEST(SumOverExperts, GoesInOrderButInTheLastColumnsInFours) {
    const std::vector<float> products = {1.0F, 16777216.0F, 0.0F, 0.0F, 1.0F};
    EXPECT_EQ(sum_over_experts(products, false), 16777216.0F);
    EXPECT_EQ(sum_over_experts(products, true), 16777218.0F);
}

TEST(SumInReferenceOrder, AddsLeftOverElementsBeforeTheLanes) {
    // 8 + 2 elements: the left-over ones first (index 8, 9), then lanes 0 to 7
    std::vector<float> values(10, 0.0F);
    values[8] = 16777216.0F;
    values[9] = 1.0F;  // lost: added to 2^24 alone
    values[0] = 1.0F;  // lost too
    EXPECT_EQ(sum_in_reference_order(values), 16777216.0F);
    values[8] = 1.0F;
    values[0] = 16777214.0F;  // 1 + 1 + 16777214
    EXPECT_EQ(sum_in_reference_order(values), 16777216.0F);
}

TEST(SumInReferenceOrder, SpillsToASecondLevelAfterSixteenRounds) {
    // 17 rounds of 32: element 0 of round 0 is spilled before element 0 of round 16 is added to an empty sum
    std::vector<float> values(17 * 32, 0.0F);
    values[0] = 16777216.0F;
    values[16 * 32] = 1.0F;
    values[16 * 32 + 8] = 1.0F;  // sum 1 of the same lane: 1 + 1 is not formed, each is lost on its own
    EXPECT_EQ(sum_in_reference_order(values), 16777216.0F);
}

TEST(RmsNorm, MultipliesByThePlainWeight) {
    const std::vector<float> x = {3.0F, -3.0F, 3.0F, -3.0F};
    const std::vector<float> weight = {1.0F, 2.0F, 0.0F, -1.0F};
    std::vector<float> scratch(4), out(4);
    rms_norm_row(x, weight, 0.0F, false, scratch, out.data());
    EXPECT_EQ(out, (std::vector<float>{1.0F, -2.0F, 0.0F, 1.0F}));
    rms_norm_row(x, {}, 0.0F, false, scratch, out.data());
    EXPECT_EQ(out, (std::vector<float>{1.0F, -1.0F, 1.0F, -1.0F}));
}

TEST(Rope, PairsAColumnWithTheOneHalfAHeadAway) {
    const std::vector<float> x = {1.0F, 2.0F, 3.0F, 4.0F};
    const std::vector<float> cosines = {0.0F, 1.0F, 0.0F, 1.0F};  // a quarter turn of pair 0, none of pair 1
    const std::vector<float> sines = {1.0F, 0.0F, 1.0F, 0.0F};
    std::vector<float> out(4);
    rope_head(x.data(), cosines, sines, false, out.data());
    EXPECT_EQ(out, (std::vector<float>{-3.0F, 2.0F, 1.0F, 4.0F}));
}

TEST(Gelu, IsTheTanhForm) {
    EXPECT_NEAR(gelu_tanh(1.0F), 0.841192F, 1e-6);  // the exact form gives 0.841345
    EXPECT_EQ(gelu_tanh(0.0F), 0.0F);
    EXPECT_EQ(gelu_tanh(30.0F), 30.0F);
}

TEST(Gelu, VectorAndLeftOverFormsDifferInFourBf16Inputs) {
    std::vector<uint32_t> unequal;
    for (uint32_t bits = 0; bits < 65536; ++bits) {
        const float x = bf16_to_float(static_cast<uint16_t>(bits));
        if (!std::isfinite(x)) continue;
        if (float_to_bf16(gelu_tanh(x)) != float_to_bf16(gelu_tanh_left_over(x))) unequal.push_back(bits);
    }
    EXPECT_EQ(unequal, (std::vector<uint32_t>{0xc0a2, 0xc0a3, 0xc0a4, 0xc0a5}));
}

TEST(Gelu, RoundsBeforeAndAfterTheProduct) {
    const float gate = 1.0F;
    const float up = 3.0F;
    float out = 0.0F;
    gelu_mul_row(&gate, &up, 1, 1, true, &out);
    EXPECT_EQ(out, round_bf16(round_bf16(gelu_tanh(1.0F)) * 3.0F));
}

TEST(TopExperts, AreTheLargestBestFirst) {
    const std::vector<float> probabilities = {0.1F, 0.4F, 0.2F, 0.3F};
    std::vector<int32_t> order(2);
    top_experts(probabilities, order);
    EXPECT_EQ(order, (std::vector<int32_t>{1, 3}));
}

TEST(TopExperts, OfManyEqualOnesAreThoseTheReferenceKeeps) {
    // torch.topk(torch.full((16,), 0.0625), 4).indices of 2.12.1
    const std::vector<float> equal(16, 0.0625F);
    std::vector<int32_t> order(4);
    top_experts(equal, order);
    std::vector<int32_t> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(std::unique(sorted.begin(), sorted.end()), sorted.end());
    EXPECT_EQ(order, (std::vector<int32_t>{10, 11, 12, 9}));
}

}  // namespace
}  // namespace gemmatrace::cpu
