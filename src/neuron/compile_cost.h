// What compiling a program will take of the host: memory, time and disk, estimated from compiles that were measured,
// and how many may therefore run at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gemmatrace::neuron {

// What decides it, of a program.
struct ProgramSize {
    int64_t instructions = 0;
    uint64_t largest_bytes = 0;  // of its largest intermediate
};

struct CompileCost {
    uint64_t memory_bytes = 0;   // at its peak
    double seconds = 0.0;        // on a host with four cores
    uint64_t scratch_bytes = 0;  // files that it writes meanwhile
    uint64_t neff_bytes = 0;
};

// Orders of magnitude: measured compiles of one program lie within a factor of three of it.
CompileCost estimate_compile(const ProgramSize& size);

struct HostLimits {
    uint64_t memory_bytes = 0;  // that compilers may hold together
    uint64_t swap_bytes = 0;    // beyond it, for one that does not fit
    int32_t cores = 1;
    int32_t jobs = 0;  // compiles at once that the user allows; 0: as many as memory and cores let
};

// How many compiles may run at once: the largest so many fit together, and each has four cores; at least one. Throws
// Error(resource) naming the program when one alone does not fit, even with swap, Error(bad_request) for jobs < 0.
int32_t plan_jobs(const std::vector<std::string>& names, const std::vector<CompileCost>& costs,
                  const HostLimits& limits);

}  // namespace gemmatrace::neuron
