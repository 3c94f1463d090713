// Sampling on the capped logits: partial selection first, so that a cap and an exponential are paid for few ids.
#include "engine/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "model/decision.h"

namespace gemmatrace::engine {
namespace {

// Floats as integers in the same order, so that a bisection can walk over all of them.
int32_t ordered_bits(float value) {
    const auto bits = std::bit_cast<int32_t>(value);
    return bits >= 0 ? bits : std::numeric_limits<int32_t>::min() - bits;
}

float from_ordered_bits(int32_t ordered) {
    return std::bit_cast<float>(ordered >= 0 ? ordered : std::numeric_limits<int32_t>::min() - ordered);
}

constexpr float kNothing = -std::numeric_limits<float>::infinity();  // the logit of what may not be chosen

[[noreturn]] void refuse(const std::string& field, const std::string& message) {
    throw Error(ErrorCode::bad_request, message, {{"field", field}});
}

}  // namespace

void check_sampling(const SamplingParameters& parameters) {
    if (!std::isfinite(parameters.temperature) || parameters.temperature < 0.0) {
        refuse("temperature", fmt::format("temperature must be 0 (greedy) or more, not {}", parameters.temperature));
    }
    if (parameters.top_k < 0)
        refuse("top_k", fmt::format("top_k must be 0 (no limit) or more, not {}", parameters.top_k));
    if (!(parameters.top_p >= 0.0 && parameters.top_p <= 1.0)) {
        refuse("top_p", fmt::format("top_p must be between 0 and 1, not {}", parameters.top_p));
    }
    for (const auto& [field, value] : {std::pair{"frequency_penalty", parameters.frequency_penalty},
                                       std::pair{"presence_penalty", parameters.presence_penalty}}) {
        if (!(value >= -2.0 && value <= 2.0)) {
            refuse(field, fmt::format("{} must be between -2 and 2, not {}", field, value));
        }
    }
    if (!std::isfinite(parameters.repetition_penalty) || parameters.repetition_penalty <= 0.0) {
        refuse("repetition_penalty",
               fmt::format("repetition_penalty must be above 0 (1: none), not {}", parameters.repetition_penalty));
    }
    for (const auto& [id, bias] : parameters.logit_bias) {
        if (!(bias >= -100.0F && bias <= 100.0F)) {
            refuse("logit_bias", fmt::format("the bias of token {} must be between -100 and 100, not {}", id, bias));
        }
    }
    if (!(parameters.min_p >= 0.0 && parameters.min_p <= 1.0)) {
        refuse("min_p", fmt::format("min_p must be between 0 and 1, not {}", parameters.min_p));
    }
}

Sampler::Sampler(const SamplingParameters& parameters, std::optional<double> softcap, model::Precision precision,
                 std::vector<int32_t> suppress_ids)
    : parameters_(parameters),
      softcap_(softcap),
      precision_(precision),
      capped_(softcap, precision),
      has_penalties_(parameters.frequency_penalty != 0.0 || parameters.presence_penalty != 0.0 ||
                     parameters.repetition_penalty != 1.0),
      suppress_ids_(std::move(suppress_ids)) {
    check_sampling(parameters_);
    std::ranges::sort(suppress_ids_);
}

bool Sampler::is_suppressed(int32_t id) const { return std::ranges::binary_search(suppress_ids_, id); }

// The reference caps in the model's precision, goes on in fp32 and divides by the temperature as a fp32 number.
float Sampler::score(float logit) const {
    const float capped = softcap_ ? model::softcapped(logit, *softcap_, precision_) : logit;
    return capped / static_cast<float>(parameters_.temperature);
}

// The score is monotone but not strictly: the cap and its rounding merge neighbours. All ids whose score equals that of
// `logit` have logits at or above the answer.
float Sampler::smallest_logit_scoring_as(float logit) const {
    const float target = score(logit);
    int64_t low = ordered_bits(-std::numeric_limits<float>::infinity());
    int64_t high = ordered_bits(logit);
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (score(from_ordered_bits(static_cast<int32_t>(middle))) >= target) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return from_ordered_bits(static_cast<int32_t>(high));
}

// k >= 1; minus infinity when fewer than k ids may be chosen.
float Sampler::kth_largest(std::span<const float> logits, int32_t k) {
    const auto limit = static_cast<size_t>(k);
    largest_.clear();
    for (size_t id = 0; id < logits.size(); ++id) {
        const float logit = logits[id];
        const bool is_full = largest_.size() == limit;
        if ((is_full && logit <= largest_.front()) || is_suppressed(static_cast<int32_t>(id))) continue;
        if (is_full) {
            std::ranges::pop_heap(largest_, std::greater{});
            largest_.back() = logit;
        } else {
            largest_.push_back(logit);
        }
        std::ranges::push_heap(largest_, std::greater{});
    }
    return largest_.size() < limit ? -std::numeric_limits<float>::infinity() : largest_.front();
}

// Fills candidates_ with what top_k leaves, in the order of ids.
void Sampler::gather(std::span<const float> logits) {
    float threshold = -std::numeric_limits<float>::infinity();
    if (parameters_.top_k > 0 && static_cast<size_t>(parameters_.top_k) < logits.size()) {
        threshold = kth_largest(logits, parameters_.top_k);
        if (std::isfinite(threshold)) threshold = smallest_logit_scoring_as(threshold);
    }
    candidates_.clear();
    for (size_t id = 0; id < logits.size(); ++id) {
        if (std::isnan(logits[id])) {
            throw Error(ErrorCode::internal, "the model computed a logit that is not a number",
                        {{"id", std::to_string(id)}},
                        "check the checkpoint with 'gemmatrace inspect'; if it is sound, please report this");
        }
        if (logits[id] < threshold || logits[id] == kNothing || is_suppressed(static_cast<int32_t>(id))) continue;
        candidates_.push_back({score(logits[id]), static_cast<int32_t>(id)});
    }
    if (candidates_.empty()) throw Error(ErrorCode::internal, "every token of the vocabulary is suppressed");
}

// Scores become weights relative to the best one (softmax before its division). Returns their sum.
double Sampler::weigh() {
    const float best = std::ranges::max_element(candidates_, {}, &Candidate::score)->score;
    if (!std::isfinite(best)) throw Error(ErrorCode::internal, "the model computed a logit that is not finite");
    double total = 0.0;
    for (Candidate& candidate : candidates_) {
        candidate.score = std::exp(candidate.score - best);
        total += static_cast<double>(candidate.score);
    }
    return total;
}

// Keeps a token while those before it, best first, hold less than top_p of the probability. Returns the kept weight.
double Sampler::keep_top_p(double total_weight) {
    // A heap pays only for the tokens that are kept, not for sorting the vocabulary.
    const auto is_worse = [](const Candidate& left, const Candidate& right) {
        return left.score < right.score || (left.score == right.score && left.id > right.id);
    };
    std::ranges::make_heap(candidates_, is_worse);
    double kept = 0.0;
    auto heap_end = candidates_.end();
    do {
        std::pop_heap(candidates_.begin(), heap_end, is_worse);
        --heap_end;
        kept += static_cast<double>(heap_end->score);
    } while (heap_end != candidates_.begin() && kept < parameters_.top_p * total_weight);
    candidates_.erase(candidates_.begin(), heap_end);
    return kept;
}

// Weights are relative to the best token, whose own weight is 1. Returns the kept weight.
double Sampler::keep_min_p() {
    std::erase_if(candidates_, [this](const Candidate& candidate) {
        return static_cast<double>(candidate.score) < parameters_.min_p;
    });
    double kept = 0.0;
    for (const Candidate& candidate : candidates_) kept += static_cast<double>(candidate.score);
    return kept;
}

void Sampler::observe_prompt(std::span<const int32_t> ids) {
    if (parameters_.repetition_penalty == 1.0) return;
    for (const int32_t id : ids) counts_.try_emplace(id, 0);
}

bool Sampler::needs_changes(const Choice& choice) const {
    return !choice.allowed.empty() || !choice.suppressed.empty() || !parameters_.logit_bias.empty() || has_penalties_;
}

// Capped logits with penalties and bias; minus infinity for what may not be chosen.
std::span<const float> Sampler::changed(std::span<const float> logits, const Choice& choice) {
    capped_.cap(logits, changed_);
    const auto is_known = [&](int32_t id) { return id >= 0 && static_cast<size_t>(id) < changed_.size(); };
    const auto repetition = static_cast<float>(parameters_.repetition_penalty);
    for (const auto& [id, count] : counts_) {
        if (!is_known(id)) continue;
        float& value = changed_[static_cast<size_t>(id)];
        value = value > 0.0F ? value / repetition : value * repetition;
        if (count > 0) {
            value -= static_cast<float>(parameters_.presence_penalty + parameters_.frequency_penalty * count);
        }
    }
    for (const auto& [id, bias] : parameters_.logit_bias) {
        if (is_known(id)) changed_[static_cast<size_t>(id)] += bias;
    }
    if (!choice.allowed.empty()) {
        kept_.clear();
        for (const int32_t id : choice.also_allowed) {
            if (is_known(id)) kept_.emplace_back(id, changed_[static_cast<size_t>(id)]);
        }
        for (size_t id = 0; id < changed_.size(); ++id) {
            const bool is_allowed = id / 64 < choice.allowed.size() && (choice.allowed[id / 64] >> (id % 64) & 1) != 0;
            if (!is_allowed) changed_[id] = kNothing;
        }
        for (const auto& [id, value] : kept_) changed_[static_cast<size_t>(id)] = value;
    }
    for (const int32_t id : choice.suppressed) {
        if (is_known(id)) changed_[static_cast<size_t>(id)] = kNothing;
    }
    return changed_;
}

std::optional<int32_t> Sampler::choose_best(std::optional<int32_t> best, const Choice& choice) const {
    if (!best || parameters_.temperature != 0.0 || needs_changes(choice) || is_suppressed(*best)) return std::nullopt;
    return best;
}

int32_t Sampler::choose(std::span<const float> logits, const Choice& choice) {
    int32_t id = 0;
    if (needs_changes(choice)) {
        const std::optional<double> softcap = std::exchange(softcap_, std::nullopt);
        const std::span<const float> values = changed(logits, choice);
        id = parameters_.temperature == 0.0
                 ? model::greedy_token(values, std::nullopt, model::Precision::fp32, suppress_ids_)
                 : draw(values);
        softcap_ = softcap;
        if (std::isinf(values[static_cast<size_t>(id)])) {
            throw Error(ErrorCode::internal, "no token is left to choose from");
        }
    } else {
        id = parameters_.temperature == 0.0 ? model::greedy_token(logits, softcap_, precision_, suppress_ids_)
                                            : draw(logits);
    }
    if (has_penalties_) ++counts_[id];
    return id;
}

int32_t Sampler::draw(std::span<const float> logits) {
    gather(logits);
    double total = weigh();
    if (parameters_.top_p < 1.0) total = keep_top_p(total);
    if (parameters_.min_p > 0.0) total = keep_min_p();

    const double target = CounterRandom(parameters_.seed).unit(draws_++) * total;
    double passed = 0.0;
    for (const Candidate& candidate : candidates_) {
        passed += static_cast<double>(candidate.score);
        if (target < passed) return candidate.id;
    }
    // Only rounding of the running sum leads here. Weights may be 0 at the end, so take the last that is not.
    const auto last = std::find_if(candidates_.rbegin(), candidates_.rend(),
                                   [](const Candidate& candidate) { return candidate.score > 0.0F; });
    return last->id;
}

}  // namespace gemmatrace::engine
