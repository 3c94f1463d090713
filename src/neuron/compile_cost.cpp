// The estimates, each with what it was fitted to.
#include "neuron/compile_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/progress.h"

namespace gemmatrace::neuron {

CompileCost estimate_compile(const ProgramSize& size) {
    const auto instructions = static_cast<double>(std::max<int64_t>(size.instructions, 0));
    // E2B decode of 512 tokens, 7,926 instructions: 7.5 GB. E2B prefill with 512 rows over 131,072 keys, whose scores
    // take 2.1 GB: 38 GB.
    constexpr double kBaseBytes = 1.5e9;
    constexpr double kBytesOfInstruction = 0.76e6;
    constexpr double kTimesLargest = 14.5;
    // E2B decode 1,173 s; ten of its layers 90 s; 12B prefill and decode 748 s together; 31B 2,365 s.
    constexpr double kSecondsOfInstruction = 0.1;
    constexpr double kBaseSeconds = 10.0;
    // E2B decode: 44.3 MB. The files that a compile writes meanwhile are some tens of times that.
    constexpr double kNeffBytesOfInstruction = 5.6e3;
    constexpr double kTimesNeff = 40.0;

    CompileCost cost;
    cost.memory_bytes = static_cast<uint64_t>(kBaseBytes + kBytesOfInstruction * instructions +
                                              kTimesLargest * static_cast<double>(size.largest_bytes));
    cost.seconds = kBaseSeconds + kSecondsOfInstruction * instructions;
    cost.neff_bytes = static_cast<uint64_t>(kNeffBytesOfInstruction * instructions);
    cost.scratch_bytes = static_cast<uint64_t>(kTimesNeff * static_cast<double>(cost.neff_bytes));
    return cost;
}

int32_t plan_jobs(const std::vector<std::string>& names, const std::vector<CompileCost>& costs,
                  const HostLimits& limits) {
    if (limits.jobs < 0) {
        throw Error(ErrorCode::bad_request, "a negative number of compiles cannot run", {{"field", "--jobs"}},
                    "use --jobs 1 or more");
    }
    std::vector<uint64_t> peaks;
    for (size_t place = 0; place < costs.size(); ++place) {
        const uint64_t needed = costs[place].memory_bytes;
        peaks.push_back(needed);
        const uint64_t available = limits.memory_bytes + limits.swap_bytes;
        if (needed <= available) continue;
        throw Error(
            ErrorCode::resource,
            fmt::format("compiling {} takes about {} of memory, and there are {}", names[place], format_bytes(needed),
                        format_bytes(available)),
            {{"program", names[place]},
             {"needed_bytes", std::to_string(needed)},
             {"available_bytes", std::to_string(available)}},
            "compile on a machine with more memory (it needs no accelerator; the bundle travels), use a smaller "
            "--context or --chunk, or say with --memory-gib how much compilers may take all the same");
    }
    std::ranges::sort(peaks, std::greater());
    constexpr int32_t kCoresOfCompile = 4;
    const int32_t allowed = limits.jobs > 0 ? limits.jobs : std::max(1, limits.cores / kCoresOfCompile);
    int32_t jobs = 0;
    uint64_t together = 0;
    for (const uint64_t peak : peaks) {
        together += peak;
        if (jobs == allowed || together > limits.memory_bytes) break;
        ++jobs;
    }
    return std::max(jobs, 1);
}

}  // namespace gemmatrace::neuron
