// Counter-based random numbers: repeatable, independent by name, evenly spread.
#include "base/random.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

namespace gemmatrace {
namespace {

TEST(CounterRandom, ADrawDependsOnSeedAndCounterAlone) {
    const CounterRandom first(42);
    const CounterRandom second(42);
    const uint64_t late = first.bits(1'000'000);
    EXPECT_EQ(second.bits(1'000'000), late);
    EXPECT_EQ(first.bits(0), second.bits(0));
    EXPECT_NE(first.bits(0), CounterRandom(43).bits(0));
}

TEST(CounterRandom, TheNumbersAreTheSameOnEveryPlatform) {
    // SplitMix64 started at 0 gives 0xe220a8397b1dcdaf first: the same constant and finaliser, so mix(step) must be it.
    EXPECT_EQ(mix_bits(0x9e3779b97f4a7c15ULL), 0xe220a8397b1dcdafULL);
    EXPECT_EQ(CounterRandom(0).bits(0), mix_bits(0xe220a8397b1dcdafULL + 0x9e3779b97f4a7c15ULL));
}

TEST(CounterRandom, NamesGiveStreamsOfTheirOwn) {
    std::set<uint64_t> first_draws;
    for (int name = 0; name < 1000; ++name) {
        first_draws.insert(CounterRandom(7, "layers." + std::to_string(name)).bits(0));
    }
    EXPECT_EQ(first_draws.size(), 1000U);
    EXPECT_EQ(CounterRandom(7, "a").bits(3), CounterRandom(7, "a").bits(3));
    EXPECT_NE(CounterRandom(7, "a").bits(3), CounterRandom(8, "a").bits(3));
}

TEST(CounterRandom, UnitIsBelowOneAndEvenlySpread) {
    constexpr int kDraws = 100'000;
    const CounterRandom random(1);
    std::array<int, 10> tenths{};
    for (int draw = 0; draw < kDraws; ++draw) {
        const double unit = random.unit(static_cast<uint64_t>(draw));
        ASSERT_GE(unit, 0.0);
        ASSERT_LT(unit, 1.0);
        ++tenths[static_cast<size_t>(unit * 10)];
    }
    // A count is binomial: mean n/10, deviation sqrt(n * 0.09); five deviations.
    for (const int count : tenths) EXPECT_NEAR(count, kDraws / 10, 5 * std::sqrt(kDraws * 0.09));
}

}  // namespace
}  // namespace gemmatrace
