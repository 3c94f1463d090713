// Greedy choice on capped, rounded logits by comparing uncapped ones with a threshold.
#include "model/decision.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/bf16.h"
#include "base/error.h"

namespace gemmatrace::model {
namespace {

// The bf16 value next to a finite one towards minus infinity; below zero comes the smallest negative subnormal.
float bf16_below(float value) {
    const uint16_t bits = float_to_bf16(value);
    if ((bits & 0x7fffU) == 0) return bf16_to_float(0x8001U);
    return bf16_to_float(static_cast<uint16_t>((bits & 0x8000U) != 0 ? bits + 1 : bits - 1));
}

// The smallest bf16 logit that the cap maps to the same number as `best`.
float same_cap_threshold(float best, double softcap) {
    if (!std::isfinite(best)) return best;
    const float capped = softcapped(best, softcap, Precision::bf16);
    float threshold = best;
    while (true) {
        const float below = bf16_below(threshold);
        if (!std::isfinite(below) || softcapped(below, softcap, Precision::bf16) != capped) return threshold;
        threshold = below;
    }
}

}  // namespace

float softcapped(float logit, double softcap, Precision precision) {
    const auto cap = static_cast<float>(softcap);
    if (precision == Precision::fp32) {
        return static_cast<float>(std::tanh(static_cast<double>(logit / cap))) * cap;
    }
    const float ratio = round_bf16(logit / cap);
    const float bent = round_bf16(static_cast<float>(std::tanh(static_cast<double>(ratio))));
    return round_bf16(bent * cap);
}

int32_t greedy_token(std::span<const float> logits, std::optional<double> softcap, Precision precision,
                     std::span<const int32_t> suppressed) {
    const auto is_suppressed = [&](size_t id) {
        return std::find(suppressed.begin(), suppressed.end(), static_cast<int32_t>(id)) != suppressed.end();
    };
    float best = -std::numeric_limits<float>::infinity();
    size_t best_id = logits.size();
    for (size_t id = 0; id < logits.size(); ++id) {
        const float logit = logits[id];
        if (std::isnan(logit)) {
            throw Error(ErrorCode::internal, fmt::format("the logit of token {} is not a number", id), {},
                        "check the checkpoint's weights with `gemmatrace inspect`; fp16 exports may have overflowed");
        }
        const bool is_better = best_id == logits.size() || logit > best;
        if (is_better && !is_suppressed(id)) {
            best = logit;
            best_id = id;
        }
    }
    if (best_id == logits.size()) {
        throw Error(ErrorCode::bad_request, "every token is suppressed", {{"field", "suppress_tokens"}},
                    "leave at least one token that may be generated");
    }
    if (precision == Precision::fp32 || !softcap) return static_cast<int32_t>(best_id);
    const float threshold = same_cap_threshold(best, *softcap);
    for (size_t id = 0; id < best_id; ++id) {
        if (logits[id] >= threshold && !is_suppressed(id)) return static_cast<int32_t>(id);
    }
    return static_cast<int32_t>(best_id);
}

std::vector<float> cap_thresholds(double softcap) {
    std::vector<float> thresholds;
    std::optional<float> last;
    const auto visit = [&](uint16_t bits) {
        const float logit = bf16_to_float(bits);
        const float capped = softcapped(logit, softcap, Precision::bf16);
        if (last != capped) thresholds.push_back(logit);
        last = capped;
    };
    constexpr uint16_t kLargest = 0x7f7f;
    for (uint32_t bits = kLargest; bits > 0; --bits) visit(static_cast<uint16_t>(bits | 0x8000U));
    for (uint32_t bits = 0; bits <= kLargest; ++bits) visit(static_cast<uint16_t>(bits));
    return thresholds;
}

}  // namespace gemmatrace::model
