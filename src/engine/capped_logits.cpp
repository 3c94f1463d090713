// Soft cap by table and log-probabilities.
#include "engine/capped_logits.h"

#include <algorithm>
#include <cmath>

#include "base/bf16.h"
#include "base/error.h"
#include "engine/top_logits.h"
#include "model/decision.h"

namespace gemmatrace::engine {
namespace {

constexpr size_t kBf16Values = 65536;

}  // namespace

void CappedLogits::cap(std::span<const float> logits, std::vector<float>& capped) {
    capped.assign(logits.begin(), logits.end());
    if (!softcap_) return;
    if (precision_ != model::Precision::bf16) {
        for (float& value : capped) value = model::softcapped(value, *softcap_, precision_);
        return;
    }
    if (table_.empty()) {
        table_.resize(kBf16Values);
        for (size_t bits = 0; bits < kBf16Values; ++bits) {
            table_[bits] = model::softcapped(bf16_to_float(static_cast<uint16_t>(bits)), *softcap_, precision_);
        }
    }
    for (float& value : capped) value = table_[float_to_bf16(value)];
}

GeneratedToken CappedLogits::logprobs(std::span<const float> logits, int32_t id, int32_t top) {
    cap(logits, capped_);
    const float best = *std::ranges::max_element(capped_);
    double total = 0.0;
    for (const float value : capped_) total += std::exp(static_cast<double>(value) - static_cast<double>(best));
    if (!std::isfinite(best) || !std::isfinite(total)) {
        throw Error(ErrorCode::internal, "the model computed a logit that is not finite");
    }
    const double log_total = static_cast<double>(best) + std::log(total);
    const auto logprob = [&](float value) { return static_cast<float>(static_cast<double>(value) - log_total); };
    GeneratedToken token;
    token.id = id;
    token.logprob = logprob(capped_[static_cast<size_t>(id)]);
    if (top > 0) {
        for (const auto& [candidate, value] : best_logits(capped_, top)) {
            token.top.push_back({candidate, logprob(value)});
        }
    }
    return token;
}

}  // namespace gemmatrace::engine
