// Checked arithmetic: the answer, or nothing, never a wrapped number.
#include "base/numbers.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace gemmatrace {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

TEST(Numbers, MultiplyAndAddAnswerOrRefuse) {
    EXPECT_EQ(checked_multiply(6, -7), -42);
    EXPECT_EQ(checked_multiply(kMost, 1), kMost);
    EXPECT_EQ(checked_multiply(kMost / 2 + 1, 2), std::nullopt);
    EXPECT_EQ(checked_multiply(int64_t{1} << 32, int64_t{1} << 32), std::nullopt);
    EXPECT_EQ(checked_multiply(kLeast, -1), std::nullopt);
    EXPECT_EQ(checked_add(kMost - 1, 1), kMost);
    EXPECT_EQ(checked_add(kMost, 1), std::nullopt);
    EXPECT_EQ(checked_add(kLeast, -1), std::nullopt);
}

TEST(Numbers, ElementCountIsTheProductOfTheDimensions) {
    const auto count = [](const std::vector<int64_t>& shape) { return element_count(shape); };
    EXPECT_EQ(count({}), 1);
    EXPECT_EQ(count({3, 4, 5}), 60);
    EXPECT_EQ(count({3, 0, 5}), 0);
    EXPECT_EQ(count({-1}), std::nullopt);
    EXPECT_EQ(count({-1, -1}), std::nullopt);
    EXPECT_EQ(count({int64_t{1} << 40, int64_t{1} << 40}), std::nullopt);
    EXPECT_EQ(count({int64_t{1} << 40, int64_t{1} << 40, 0}), std::nullopt);  // refused before the zero is seen
}

}  // namespace
}  // namespace gemmatrace
