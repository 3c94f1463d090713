// The greedy decision equals the argmax of capped and rounded logits, taken the long way.
#include "model/decision.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/bf16.h"
#include "base/error.h"

namespace gemmatrace::model {
namespace {

// What the reference does: cap everything, then take the first largest.
int32_t capped_argmax(const std::vector<float>& logits, double cap, const std::vector<int32_t>& suppressed) {
    int32_t best = -1;
    float best_value = 0.0F;
    for (size_t id = 0; id < logits.size(); ++id) {
        if (std::find(suppressed.begin(), suppressed.end(), static_cast<int32_t>(id)) != suppressed.end()) continue;
        const float value = softcapped(logits[id], cap, Precision::bf16);
        if (best < 0 || value > best_value) {
            best = static_cast<int32_t>(id);
            best_value = value;
        }
    }
    return best;
}

TEST(GreedyToken, F014_TakesTheLowestIdAmongLogitsThatTieAfterTheCap) {
    // 40 and 40.25 are different bf16 numbers with the same capped value
    ASSERT_EQ(softcapped(40.0F, 30.0, Precision::bf16), softcapped(40.25F, 30.0, Precision::bf16));
    const std::vector<float> logits = {1.0F, 40.0F, 40.25F, 40.25F};
    EXPECT_EQ(greedy_token(logits, 30.0, Precision::bf16, {}), 1);
    EXPECT_EQ(greedy_token(logits, std::nullopt, Precision::bf16, {}), 2);
    EXPECT_EQ(greedy_token(logits, 30.0, Precision::fp32, {}), 2);
}

TEST(GreedyToken, EqualsTheArgmaxOfCappedLogits) {
    std::mt19937 random(1);
    for (int trial = 0; trial < 3000; ++trial) {
        const float scale = std::ldexp(1.0F, static_cast<int>(random() % 12) - 4);
        std::normal_distribution<float> normal(0.0F, scale);
        std::vector<float> logits(40);
        for (float& logit : logits) logit = round_bf16(normal(random));
        const std::vector<int32_t> suppressed = {static_cast<int32_t>(random() % 40),
                                                 static_cast<int32_t>(random() % 40)};
        ASSERT_EQ(greedy_token(logits, 30.0, Precision::bf16, suppressed), capped_argmax(logits, 30.0, suppressed));
    }
}

TEST(GreedyToken, WorksWhereAllLogitsAreNegativeOrZero) {
    EXPECT_EQ(greedy_token(std::vector<float>{-5.0F, -0.0F, 0.0F}, 30.0, Precision::bf16, {}), 1);
    EXPECT_EQ(greedy_token(std::vector<float>{-50.0F, -60.0F}, 30.0, Precision::bf16, {}), 0);
    const float infinite = -std::numeric_limits<float>::infinity();
    EXPECT_EQ(greedy_token(std::vector<float>{infinite, infinite}, 30.0, Precision::bf16, {}), 0);
}

TEST(GreedyToken, SuppressedTokensNeverWin) {
    const std::vector<float> logits = {3.0F, 9.0F, 5.0F};
    const std::vector<int32_t> suppressed = {1};
    EXPECT_EQ(greedy_token(logits, 30.0, Precision::fp32, suppressed), 2);
    EXPECT_EQ(greedy_token(logits, 30.0, Precision::bf16, suppressed), 2);
    const std::vector<int32_t> all = {0, 1, 2};
    EXPECT_THROW(greedy_token(logits, 30.0, Precision::bf16, all), Error);
}

TEST(GreedyToken, F115_ANotANumberLogitIsAnErrorThatNamesTheToken) {
    const std::vector<float> logits = {1.0F, std::numeric_limits<float>::quiet_NaN()};
    try {
        greedy_token(logits, 30.0, Precision::fp32, {});
        FAIL();
    } catch (const Error& error) {
        EXPECT_NE(error.message().find("token 1"), std::string::npos);
    }
}

TEST(Softcap, F015_IsCapTimesTanhOfTheRatio) {
    EXPECT_FLOAT_EQ(softcapped(30.0F, 30.0, Precision::fp32), 30.0F * std::tanh(1.0F));
    EXPECT_LE(softcapped(1e6F, 30.0, Precision::bf16), 30.0F);
    EXPECT_EQ(softcapped(20.0F, 30.0, Precision::bf16),
              round_bf16(round_bf16(std::tanh(round_bf16(20.0F / 30.0F))) * 30.0F));
}

}  // namespace
}  // namespace gemmatrace::model
