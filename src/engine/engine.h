// Continuous batching: requests join and leave between steps, prompts are run in chunks between decode steps, and what
// earlier requests left in their slots is used again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/backend.h"
#include "engine/request.h"

namespace gemmatrace::engine {

struct EngineOptions {
    size_t queue_requests = 64;  // waiting requests; one more is Error(overloaded)
    size_t cache_bytes = 0;      // memory for the tokens of all slots together
    size_t snapshot_bytes = 0;   // memory for snapshots of all slots together
    bool reuses_prefixes = true;
};

// A moment's figures, for metrics and health.
struct EngineStatistics {
    int32_t running = 0;
    int32_t waiting = 0;
    size_t cache_bytes_used = 0;
    size_t cache_bytes = 0;
    uint64_t steps = 0;          // decode steps
    uint64_t step_slots = 0;     // slots of all decode steps together
    uint64_t prompt_tokens = 0;  // of all requests that got a slot
    uint64_t cached_tokens = 0;
    uint64_t generated_tokens = 0;
    uint64_t preemptions = 0;
    double busy_seconds = 0.0;  // inside the backend
};

using RequestId = uint64_t;

class Engine {
  public:
    // Throws Error(resource) when cache_bytes does not hold one sequence of the whole context.
    Engine(std::unique_ptr<Backend> backend, const EngineOptions& options);
    // Stops.
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    const BackendLimits& limits() const;
    std::string backend_description() const;

    // Queues a request. The listener is told how it goes and is let go after its last call. Throws Error(bad_request),
    // Error(too_long) with both numbers, Error(overloaded) when the queue is full, Error(not_ready) after drain().
    RequestId submit(Request request, std::shared_ptr<RequestListener> listener);
    // The same for several that are one client's request: all are queued or none is, and no listener hears of a
    // refusal. Error(bad_request) when they are more than the queue could ever hold.
    struct Submission {
        Request request;
        std::shared_ptr<RequestListener> listener;
    };
    std::vector<RequestId> submit(std::vector<Submission> together);
    // Takes effect at the next step; unknown and finished ids are ignored.
    void cancel(RequestId id);
    // Nothing new is taken from now on.
    void drain();
    // Cancels what runs and ends the thread; afterwards submit() throws. Other threads may still hold the engine.
    void stop();
    bool is_idle() const;
    EngineStatistics statistics() const;

  private:
    class Scheduler;
    std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace gemmatrace::engine
