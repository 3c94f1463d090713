// The final soft cap over a whole vocabulary, for what needs the model's distribution and not only its best token.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/request.h"
#include "model/precision.h"

namespace gemmatrace::engine {

// Keeps its buffers from call to call. In bf16 the cap is a table of all 65,536 logits, made at the first use.
class CappedLogits {
  public:
    CappedLogits(std::optional<double> softcap, model::Precision precision)
        : softcap_(softcap), precision_(precision) {}

    // logits: [vocab_size], before the cap, bf16 values in bf16. Writes the capped ones, model::softcapped's bits.
    void cap(std::span<const float> logits, std::vector<float>& capped);

    // The natural logarithm of the probability of `id`, and the `top` most likely ids (best first, lowest id first
    // among equals), in the softmax of the capped logits: what the model says before temperature, filters and
    // penalties. Throws Error(internal) if a logit is not finite.
    GeneratedToken logprobs(std::span<const float> logits, int32_t id, int32_t top);

  private:
    std::optional<double> softcap_;
    model::Precision precision_;
    std::vector<float> table_;
    std::vector<float> capped_;
};

}  // namespace gemmatrace::engine
