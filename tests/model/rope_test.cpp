// Rotary angles against bits read from the reference.
#include "model/rope.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "base/bf16.h"
#include "model/reference_power.h"

namespace gemmatrace::model {
namespace {

TEST(InverseFrequencies, OfSlidingLayersTurnEveryPair) {
    const auto frequencies = inverse_frequencies({10000.0, 128, 1.0}, 256);
    ASSERT_EQ(frequencies.size(), 128U);
    EXPECT_EQ(frequencies[0], 1.0F);
    EXPECT_EQ(std::bit_cast<uint32_t>(frequencies[111]),
              0x39b229fbU);  // one ulp above the rounded quotient, as torch has it
}

TEST(InverseFrequencies, F017_OfFullLayersUseTheWholeHeadAsDenominatorAndTurn64Pairs) {
    const auto frequencies = inverse_frequencies({1000000.0, 64, 1.0}, 512);
    ASSERT_EQ(frequencies.size(), 256U);
    EXPECT_NEAR(frequencies[1], std::pow(1e6, -2.0 / 512), 1e-7);
    EXPECT_EQ(std::bit_cast<uint32_t>(frequencies[29]), 0x3e561912U);
    EXPECT_GT(frequencies[63], 0.0F);
    for (size_t pair = 64; pair < 256; ++pair) EXPECT_EQ(frequencies[pair], 0.0F);
}

TEST(InverseFrequencies, AreDividedByTheFactor) { EXPECT_EQ(inverse_frequencies({10000.0, 4, 8.0}, 8)[0], 0.125F); }

TEST(ReferencePower, IsWithinOneUnitInTheLastPlace) {
    for (float exponent = 0.0F; exponent <= 1.0F; exponent += 0.0009765625F) {
        for (const float base : {1000.0F, 10000.0F, 1000000.0F}) {
            const double exact = std::pow(static_cast<double>(base), static_cast<double>(exponent));
            EXPECT_NEAR(reference_power(base, exponent) / exact, 1.0, 0x1p-23);
        }
    }
}

TEST(RopeRow, GivesCosineAndSineOfTheFp32AngleTwice) {
    const std::vector<float> frequencies = {1.0F, 0.0F};
    std::vector<float> cosines(4), sines(4);
    rope_row(frequencies, 3, Precision::fp32, cosines, sines);
    EXPECT_EQ(cosines, (std::vector<float>{std::cos(3.0F), 1.0F, std::cos(3.0F), 1.0F}));
    EXPECT_EQ(sines[1], 0.0F);
    rope_row(frequencies, 3, Precision::bf16, cosines, sines);
    EXPECT_EQ(cosines[0], round_bf16(std::cos(3.0F)));
}

TEST(RopeRow, StaysExactFarOut) {
    const auto frequencies = inverse_frequencies({10000.0, 128, 1.0}, 256);
    std::vector<float> cosines(256), sines(256);
    rope_row(frequencies, 131071, Precision::fp32, cosines, sines);
    EXPECT_EQ(cosines[1], static_cast<float>(std::cos(static_cast<double>(frequencies[1] * 131071.0F))));
}

}  // namespace
}  // namespace gemmatrace::model
