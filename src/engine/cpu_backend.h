// The CPU as the engine's backend.
#pragma once

#include <filesystem>
#include <memory>

#include "cpu/runner.h"
#include "engine/backend.h"

namespace gemmatrace::engine {

// Slots of context_tokens each over the runner, whose chunk size is the backend's. Memory is reserved, and taken as
// tokens come. Throws Error(too_long) when the model has fewer positions.
std::unique_ptr<Backend> make_cpu_backend(std::unique_ptr<cpu::Runner> runner, int32_t slots, int64_t context_tokens,
                                          int32_t chunk_tokens);

// The same, later. chunk_tokens is the runner's.
std::unique_ptr<BackendSource> make_cpu_source(std::unique_ptr<cpu::Runner> runner, int32_t chunk_tokens);

}  // namespace gemmatrace::engine
