// The k best logits of one step, for comparison with a reference and for people who want to see the alternatives.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace gemmatrace::engine {

// The k largest of logits [vocab_size] as (id, logit), best first, lowest id first among equal ones; fewer when the
// vocabulary is smaller. One pass with a heap of k entries: the vocabulary is never sorted.
std::vector<std::pair<int32_t, float>> best_logits(std::span<const float> logits, int32_t k);

}  // namespace gemmatrace::engine
