// Compiling the programs of a bundle: from the cache what is there, the rest by the Neuron compiler, several at once as
// memory and cores allow.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "neuron/compile_cost.h"
#include "neuron/graph_cache.h"
#include "neuron/neff.h"
#include "neuron/toolchain.h"

namespace gemmatrace::neuron {

// A program to compile, whose HLO lies in FOLDER/programs/NAME.hlo.pb.
struct CompileJob {
    std::string name;
    std::string program_sha256;
    std::vector<NeffTensor> tensors;  // that the NEFF must take and give
    CompileCost cost;
};

struct CompileSettings {
    Toolchain toolchain;
    std::vector<std::string> flags;
    HostLimits limits;
    bool is_memory_stated = false;  // by the user: then the limit is enforced; otherwise it is what is free
    // Asked in between; true stops everything.
    std::function<bool()> is_cancelled = [] { return false; };
    std::function<void(const std::string& line)> say = [](const std::string&) {};    // what happened
    std::function<void(const std::string& state)> show = [](const std::string&) {};  // what goes on, often
};

struct CompiledJob {
    std::string key;
    uint64_t neff_bytes = 0;
    std::string neff_sha256;
    double seconds = 0.0;
    uint64_t peak_memory_bytes = 0;
    uint64_t feature_bits = 0;
    uint64_t scratchpad_bytes = 0;
    bool was_cached = false;
};

// The key of a program in the cache.
std::string cache_key(const CompileJob& job, const CompileSettings& settings);

// Writes FOLDER/programs/NAME.neff for every job, and FOLDER/logs/NAME.log for those that were compiled now. Compilers
// run in FOLDER/scratch/NAME, which goes away. A failure stops the others: throws the errors of plan_jobs and
// check_disk, compiler_error, Error(corrupt) or Error(mismatch) for a NEFF that is damaged or not of the program,
// Error(interrupted); what was finished by then is in the cache. The log of a failure is kept in the cache too.
std::vector<CompiledJob> compile_programs(const std::filesystem::path& folder, const std::vector<CompileJob>& jobs,
                                          const CompileSettings& settings, const GraphCache& cache);

// Throws Error(resource) when a file system has less room than compiling takes: for `folder` the NEFFs and the scratch
// files of those that run at once, for the cache the NEFFs.
void check_disk(const std::filesystem::path& folder, const std::filesystem::path& cache,
                const std::vector<CompileJob>& jobs, int32_t at_once);

}  // namespace gemmatrace::neuron
