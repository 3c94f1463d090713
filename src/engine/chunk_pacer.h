// How much of a prompt to run at once, so that nobody else waits long.
#pragma once

#include <cstdint>

namespace gemmatrace::engine {

// Chunks as long as the time allows that others may be made to wait. The borders change no bit of any result (Backend),
// so they may follow the clock. A long chunk uses the machine best; while streams run, a chunk takes about as long as
// two of their tokens, which leaves the prompt most of the time and lets no stream stall.
class ChunkPacer {
  public:
    explicit ChunkPacer(int32_t chunk_tokens) : chunk_tokens_(chunk_tokens) {}

    // Tokens of the next chunk, 1 to chunk_tokens. `is_shared`: other requests wait for their turn.
    int64_t tokens(bool is_shared) const;
    void chunk_took(int64_t tokens, double seconds);
    void step_took(double seconds) { step_seconds_ = seconds; }

  private:
    int32_t chunk_tokens_;
    double token_seconds_ = 0.0;  // of a chunk's token, measured last; 0: not yet
    double step_seconds_ = 0.0;   // of a decode step
};

}  // namespace gemmatrace::engine
