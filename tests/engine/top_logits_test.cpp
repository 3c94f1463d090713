// The k best logits are what a full sort would give, lowest id first among equal ones.
#include "engine/top_logits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace gemmatrace::engine {
namespace {

TEST(TopLogitsTest, equals_a_stable_sort_of_the_whole_row) {
    std::mt19937 random(7);
    for (const int size : {1, 2, 5, 64, 1000}) {
        std::vector<float> logits(static_cast<size_t>(size));
        for (float& logit : logits) logit = static_cast<float>(random() % 17) - 8.0F;  // many ties
        std::vector<std::pair<int32_t, float>> sorted;
        for (int id = 0; id < size; ++id) sorted.emplace_back(id, logits[static_cast<size_t>(id)]);
        std::ranges::stable_sort(sorted, [](auto left, auto right) { return left.second > right.second; });
        for (const int k : {0, 1, 3, size - 1, size, size + 5}) {
            const size_t expected = static_cast<size_t>(std::clamp(k, 0, size));
            EXPECT_EQ(best_logits(logits, k),
                      (std::vector<std::pair<int32_t, float>>(sorted.begin(), sorted.begin() + expected)))
                << size << " logits, k " << k;
        }
    }
}

}  // namespace
}  // namespace gemmatrace::engine
