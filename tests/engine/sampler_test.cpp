// Sampling keeps exactly the tokens that Transformers' filters keep, in their order, and draws them as often as it
// must.
#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "base/bf16.h"
#include "base/error.h"
#include "model/decision.h"

namespace gemmatrace::engine {
namespace {

using model::Precision;

// Transformers' filters written as in generation/logits_process.py: whole rows, sorted ascending, masked.
std::vector<double> reference_probabilities(std::vector<float> logits, const SamplingParameters& parameters,
                                            std::optional<double> softcap, Precision precision,
                                            const std::vector<int32_t>& suppressed) {
    constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();
    std::vector<double> scores;
    for (const float logit : logits) {
        const float capped = softcap ? model::softcapped(logit, *softcap, precision) : logit;
        scores.push_back(static_cast<double>(capped / static_cast<float>(parameters.temperature)));
    }
    for (const int32_t id : suppressed) scores[static_cast<size_t>(id)] = kMinusInfinity;
    const auto softmax = [](const std::vector<double>& row) {
        const double best = *std::ranges::max_element(row);
        std::vector<double> probabilities;
        double total = 0.0;
        for (const double score : row) probabilities.push_back(std::exp(score - best));
        for (const double weight : probabilities) total += weight;
        for (double& weight : probabilities) weight /= total;
        return probabilities;
    };
    if (parameters.top_k > 0) {
        std::vector<double> sorted = scores;
        std::ranges::sort(sorted, std::greater{});
        const double kth = sorted[std::min(static_cast<size_t>(parameters.top_k), sorted.size()) - 1];
        for (double& score : scores) {
            if (score < kth) score = kMinusInfinity;
        }
    }
    if (parameters.top_p < 1.0) {
        const std::vector<double> probabilities = softmax(scores);
        std::vector<size_t> order(scores.size());
        std::iota(order.begin(), order.end(), size_t{0});
        // Ascending; among equal scores the lowest id last, so that it is kept first.
        std::ranges::sort(order, [&](size_t left, size_t right) {
            return scores[left] < scores[right] || (scores[left] == scores[right] && left > right);
        });
        double cumulative = 0.0;
        for (size_t rank = 0; rank + 1 < order.size(); ++rank) {
            cumulative += probabilities[order[rank]];
            if (cumulative <= 1.0 - parameters.top_p) scores[order[rank]] = kMinusInfinity;
        }
    }
    if (parameters.min_p > 0.0) {
        const std::vector<double> probabilities = softmax(scores);
        const double best = *std::ranges::max_element(probabilities);
        for (size_t id = 0; id < scores.size(); ++id) {
            if (probabilities[id] < parameters.min_p * best) scores[id] = kMinusInfinity;
        }
    }
    return softmax(scores);
}

std::vector<float> random_logits(uint32_t seed, size_t size, float spread, bool is_bf16) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.0F, spread);
    std::vector<float> logits(size);
    for (float& logit : logits) logit = is_bf16 ? round_bf16(normal(random)) : normal(random);
    return logits;
}

TEST(SamplerTest, draws_follow_the_probabilities_of_the_reference) {
    const std::vector<SamplingParameters> settings = {
        {.temperature = 1.0},
        {.temperature = 0.7, .top_k = 5},
        {.temperature = 1.3, .top_k = 1000},
        {.temperature = 1.0, .top_p = 0.6},
        {.temperature = 1.0, .top_p = 0.0},
        {.temperature = 2.0, .min_p = 0.2},
        {.temperature = 1.5, .top_k = 20, .top_p = 0.8, .min_p = 0.05},
        {.temperature = 1.0, .top_k = 1},
    };
    constexpr int kDraws = 20000;
    uint32_t case_number = 0;
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
        for (SamplingParameters parameters : settings) {
            const auto logits = random_logits(++case_number, 60, 3.0F, precision == Precision::bf16);
            const std::vector<int32_t> suppressed = {3, 17};
            parameters.seed = case_number;
            const auto expected = reference_probabilities(logits, parameters, 30.0, precision, suppressed);
            Sampler sampler(parameters, 30.0, precision, suppressed);
            std::vector<int> counts(logits.size());
            for (int draw = 0; draw < kDraws; ++draw) ++counts[static_cast<size_t>(sampler.choose(logits))];
            for (size_t id = 0; id < logits.size(); ++id) {
                // Five standard deviations of a binomial count; what is filtered out never comes.
                const double deviation = std::sqrt(kDraws * expected[id] * (1.0 - expected[id]));
                EXPECT_NEAR(counts[id], kDraws * expected[id], 5.0 * deviation + 0.5)
                    << "id " << id << " case " << case_number;
                if (expected[id] == 0.0) {
                    EXPECT_EQ(counts[id], 0) << "id " << id << " case " << case_number;
                }
            }
        }
    }
}

TEST(SamplerTest, top_k_keeps_every_tie_of_the_kth_also_ties_that_only_the_cap_makes) {
    // bf16 logits just above 100 differ, but their capped values are equal: the reference keeps all of them for
    // top_k 1.
    const std::vector<float> logits = {100.0F, 100.5F, 101.0F, 20.0F, -5.0F};
    ASSERT_EQ(model::softcapped(100.0F, 30.0, Precision::bf16), model::softcapped(101.0F, 30.0, Precision::bf16));
    Sampler sampler({.temperature = 1.0, .top_k = 1, .seed = 3}, 30.0, Precision::bf16, {});
    std::map<int32_t, int> counts;
    for (int draw = 0; draw < 3000; ++draw) ++counts[sampler.choose(logits)];
    ASSERT_EQ(counts.size(), 3U);
    for (const auto& [id, count] : counts) EXPECT_NEAR(count, 1000, 130) << id;
}

TEST(SamplerTest, a_seed_repeats_its_draws_and_another_one_gives_others) {
    const auto logits = random_logits(5, 500, 1.0F, false);
    const auto draw = [&](uint64_t seed) {
        Sampler sampler({.temperature = 1.0, .seed = seed}, 30.0, Precision::fp32, {});
        std::vector<int32_t> ids;
        for (int step = 0; step < 50; ++step) ids.push_back(sampler.choose(logits));
        return ids;
    };
    EXPECT_EQ(draw(1), draw(1));
    EXPECT_NE(draw(1), draw(2));
    EXPECT_NE(draw(0), draw(1));
}

TEST(SamplerTest, temperature_zero_is_greedy_whatever_the_other_fields_say) {
    const std::vector<float> logits = {1.0F, 4.0F, 4.0F, 3.0F};
    Sampler sampler({.temperature = 0.0, .top_k = 3, .top_p = 0.1, .seed = 9}, 30.0, Precision::bf16, {1});
    EXPECT_EQ(sampler.choose(logits), 2);
}

TEST(SamplerTest, the_greedy_choice_alone_decides_only_where_nothing_changes_it) {
    const auto decides = [](const SamplingParameters& parameters, std::optional<int32_t> best,
                            const Sampler::Choice& choice = {}) {
        const Sampler sampler(parameters, 30.0, Precision::bf16, {7});
        return sampler.choose_best(best, choice);
    };
    SamplingParameters greedy;
    greedy.temperature = 0.0;
    EXPECT_EQ(decides(greedy, 3), 3);
    EXPECT_EQ(decides(greedy, std::nullopt), std::nullopt);
    EXPECT_EQ(decides(greedy, 7), std::nullopt) << "suppressed: another id wins";
    const std::vector<int32_t> ends = {1};
    EXPECT_EQ(decides(greedy, 3, {.suppressed = ends}), std::nullopt);
    const std::vector<uint64_t> allowed = {8};
    EXPECT_EQ(decides(greedy, 3, {.allowed = allowed}), std::nullopt);
    for (const auto change : {+[](SamplingParameters& parameters) { parameters.temperature = 0.5; },
                              +[](SamplingParameters& parameters) { parameters.repetition_penalty = 1.1; },
                              +[](SamplingParameters& parameters) { parameters.presence_penalty = 0.5; },
                              +[](SamplingParameters& parameters) { parameters.frequency_penalty = -0.5; },
                              +[](SamplingParameters& parameters) {
                                  parameters.logit_bias = {{4, 1.0F}};
                              }}) {
        SamplingParameters parameters = greedy;
        change(parameters);
        EXPECT_EQ(decides(parameters, 3), std::nullopt);
    }
}

TEST(SamplerTest, suppressed_ids_never_win) {
    const std::vector<float> logits = {1.0F, 50.0F, 49.0F, 0.5F};
    for (const double temperature : {0.0, 0.1, 3.0}) {
        Sampler sampler({.temperature = temperature, .top_k = 2}, 30.0, Precision::fp32, {2, 1});
        for (int draw = 0; draw < 100; ++draw) {
            const int32_t id = sampler.choose(logits);
            EXPECT_TRUE(id == 0 || id == 3);
        }
    }
}

TEST(SamplerTest, F115_a_logit_that_is_not_a_number_is_an_error) {
    std::vector<float> logits(40, 0.0F);
    logits[23] = std::numeric_limits<float>::quiet_NaN();
    for (const SamplingParameters& parameters :
         {SamplingParameters{.temperature = 0.0}, SamplingParameters{.temperature = 1.0},
          SamplingParameters{.temperature = 1.0, .top_k = 3}}) {
        Sampler sampler(parameters, 30.0, Precision::fp32, {});
        EXPECT_THROW(sampler.choose(logits), Error);
    }
}

TEST(SamplerTest, values_out_of_range_are_refused_by_field) {
    const double not_a_number = std::numeric_limits<double>::quiet_NaN();
    const std::vector<std::pair<std::string, SamplingParameters>> bad = {
        {"temperature", {.temperature = -0.1}},
        {"temperature", {.temperature = not_a_number}},
        {"top_k", {.top_k = -1}},
        {"top_p", {.top_p = 1.01}},
        {"top_p", {.top_p = not_a_number}},
        {"min_p", {.min_p = -0.5}},
    };
    for (const auto& [field, parameters] : bad) {
        try {
            check_sampling(parameters);
            FAIL() << field << " was accepted";
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::bad_request);
            EXPECT_EQ(error.context().at(0).second, field);
        }
    }
}

}  // namespace
}  // namespace gemmatrace::engine
