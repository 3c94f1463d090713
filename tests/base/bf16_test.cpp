// bf16 and half conversions over every bit pattern, against definitions written with other means.
#include "base/bf16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace gemmatrace {
namespace {

constexpr uint32_t kPatterns = 1U << 16;

bool is_nan_pattern(uint16_t bits) { return (bits & 0x7fffU) > 0x7f80U; }

// A bf16 by its definition: sign, 8 bits of exponent, 7 of fraction.
double bf16_by_definition(uint16_t bits) {
    const double sign = (bits & 0x8000U) != 0 ? -1.0 : 1.0;
    const int exponent = (bits >> 7) & 0xff;
    const int fraction = bits & 0x7f;
    if (exponent == 255) return sign * std::numeric_limits<double>::infinity();
    return sign * (exponent == 0 ? std::ldexp(fraction, -126 - 7) : std::ldexp(128 + fraction, exponent - 127 - 7));
}

TEST(Bf16, EveryPatternHasTheValueOfItsDefinition) {
    for (uint32_t bits = 0; bits < kPatterns; ++bits) {
        const auto pattern = static_cast<uint16_t>(bits);
        const float value = bf16_to_float(pattern);
        if (is_nan_pattern(pattern)) {
            ASSERT_TRUE(std::isnan(value)) << bits;
        } else {
            ASSERT_EQ(static_cast<double>(value), bf16_by_definition(pattern)) << bits;
            ASSERT_EQ(std::signbit(value), bits >= 0x8000U) << bits;
        }
    }
}

TEST(Bf16, EveryPatternSurvivesTheRoundTrip) {
    for (uint32_t bits = 0; bits < kPatterns; ++bits) {
        const auto pattern = static_cast<uint16_t>(bits);
        if (is_nan_pattern(pattern)) continue;
        ASSERT_EQ(float_to_bf16(bf16_to_float(pattern)), pattern);
    }
}

TEST(Bf16, RoundsToTheNearestAndTiesToEvenBetweenAllNeighbours) {
    for (uint32_t bits = 0; bits < 0x7f7fU; ++bits) {  // pairs of finite neighbours; the signs are symmetric
        const float low = bf16_to_float(static_cast<uint16_t>(bits));
        const float high = bf16_to_float(static_cast<uint16_t>(bits + 1));
        const float middle = static_cast<float>((double{low} + double{high}) / 2);  // exact: one more fraction bit
        const auto even = static_cast<uint16_t>(bits % 2 == 0 ? bits : bits + 1);
        ASSERT_EQ(float_to_bf16(middle), even) << bits;
        ASSERT_EQ(float_to_bf16(std::nextafter(middle, low)), bits) << bits;
        ASSERT_EQ(float_to_bf16(std::nextafter(middle, high)), bits + 1) << bits;
        ASSERT_EQ(float_to_bf16(-middle), even | 0x8000U) << bits;
    }
}

TEST(Bf16, TheLargestFloatsRoundToInfinityAndNanStaysQuietNan) {
    const float largest = bf16_to_float(0x7f7f);
    const float beyond = std::numeric_limits<float>::max();
    EXPECT_EQ(float_to_bf16(largest), 0x7f7f);
    EXPECT_EQ(float_to_bf16(beyond), 0x7f80);
    EXPECT_EQ(float_to_bf16(-beyond), 0xff80);
    EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::infinity()), 0x7f80);
    // A NaN whose payload lies only in the low half must not become an infinity.
    for (const uint32_t nan : {0x7f800001U, 0x7f80ffffU, 0xff800001U, 0x7fc00000U, 0x7fffffffU}) {
        const uint16_t bits = float_to_bf16(std::bit_cast<float>(nan));
        EXPECT_TRUE(is_nan_pattern(bits)) << std::hex << nan;
        EXPECT_NE(bits & 0x40U, 0U) << "quiet";
        EXPECT_EQ(bits >> 15, nan >> 31) << "sign";
    }
}

TEST(Bf16, RoundBf16IsIdempotentAndKeepsZeroSigns) {
    EXPECT_EQ(round_bf16(1.00390625F), 1.0F);  // 1 + 2^-8 ties to the even 1.0
    EXPECT_EQ(round_bf16(1.01171875F), 1.015625F);
    EXPECT_EQ(round_bf16(round_bf16(3.14159F)), round_bf16(3.14159F));
    EXPECT_TRUE(std::signbit(round_bf16(-0.0F)));
    EXPECT_EQ(round_bf16(std::numeric_limits<float>::denorm_min()), 0.0F);
}

TEST(Half, EveryPatternHasTheValueOfItsDefinition) {
    for (uint32_t bits = 0; bits < kPatterns; ++bits) {
        const float value = half_to_float(static_cast<uint16_t>(bits));
        const double sign = bits >= 0x8000U ? -1.0 : 1.0;
        const int exponent = static_cast<int>((bits >> 10) & 0x1f);
        const int fraction = static_cast<int>(bits & 0x3ff);
        if (exponent == 31 && fraction != 0) {
            ASSERT_TRUE(std::isnan(value)) << bits;
            continue;
        }
        const double expected = exponent == 31  ? sign * std::numeric_limits<double>::infinity()
                                : exponent == 0 ? sign * std::ldexp(fraction, -24)
                                                : sign * std::ldexp(1024 + fraction, exponent - 25);
        ASSERT_EQ(static_cast<double>(value), expected) << bits;
        ASSERT_EQ(std::signbit(value), bits >= 0x8000U) << bits;
    }
}

}  // namespace
}  // namespace gemmatrace
