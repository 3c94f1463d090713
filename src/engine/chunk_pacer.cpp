// Chunks by the clock: as many tokens as the last ones' speed allows.
#include "engine/chunk_pacer.h"

#include <algorithm>

namespace gemmatrace::engine {
namespace {

constexpr double kSharedSeconds = 0.25;
constexpr double kAloneSeconds = 4.0;  // a new request, or a cancellation, waits no longer
// Fewer tokens share the reading of the weights badly.
constexpr double kSharedTokens = 8;
constexpr double kAloneTokens = 32;

}  // namespace

int64_t ChunkPacer::tokens(bool is_shared) const {
    const double least = is_shared ? kSharedTokens : kAloneTokens;
    const double seconds = is_shared ? std::max(kSharedSeconds, 2.0 * step_seconds_) : kAloneSeconds;
    const double fitting = token_seconds_ > 0.0 ? seconds / token_seconds_ : 0.0;
    return static_cast<int64_t>(std::min<double>(std::max(fitting, least), chunk_tokens_));
}

void ChunkPacer::chunk_took(int64_t tokens, double seconds) {
    token_seconds_ = seconds / static_cast<double>(std::max<int64_t>(tokens, 1));
}

}  // namespace gemmatrace::engine
