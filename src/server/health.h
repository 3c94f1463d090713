// Whether the server may be used, and why not: only after the loaded model decoded what it must.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace gemmatrace::server {

// A short prompt and the tokens that the reference path decodes for it.
struct Canary {
    std::vector<int32_t> prompt_ids;
    std::vector<int32_t> expected_ids;
};

class Health {
  public:
    enum class State { loading, ready, sick, draining };

    State state() const;
    // One sentence; empty when ready.
    std::string reason() const;
    void set_draining();

    // Runs the canary through the engine like any request and compares every token. Waits for the result; a busy queue
    // is no illness. Called by one thread at a time.
    void check(engine::Engine& engine, const Canary& canary);

  private:
    void set(State state, std::string reason);

    mutable std::mutex mutex_;
    State state_ = State::loading;
    std::string reason_ = "the model is loaded and has not been checked yet";
};

}  // namespace gemmatrace::server
