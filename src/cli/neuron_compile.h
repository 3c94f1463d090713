// Running the Neuron compiler for `gemmatrace compile`: its options, what is said meanwhile, and the dry run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "neuron/compile.h"
#include "trace/bundle.h"

namespace gemmatrace::cli {

struct NeuronOptions {
    std::filesystem::path compiler;
    std::filesystem::path cache;
    int32_t jobs = 0;
    std::optional<double> memory_gib;
    std::vector<std::string> flags;
    bool takes_any_compiler = false;
    bool runs_dry = false;
};

void add_neuron_options(Command& command, NeuronOptions& options);

// The compiler as it was found, ready to compile the programs of one bundle.
class NeuronCompiler {
  public:
    // Finds it and asks for its version. Throws the errors of find_compiler, read_toolchain, require_known and
    // compiler_flags, Error(bad_request) for an option out of range.
    NeuronCompiler(const NeuronOptions& options, const std::string& target);

    const neuron::CompileSettings& settings() const { return settings_; }
    // Notes a program, whose cost is estimated from its module.
    void note(const trace::EmittedProgram& program);
    // Compiles the noted programs into a bundle that lies complete in `folder`, and adds compiled.json. To be
    // BundleOutput::complete.
    void complete(const std::filesystem::path& folder, const trace::Manifest& manifest);
    // What would be done, without doing it; `programs` were noted.
    int show_dry_run(const std::vector<trace::ProgramEntry>& programs, bool is_json) const;
    // Members for the result of a compile: compiler, islpy, flags and what became of each program.
    nlohmann::ordered_json result_json() const;

  private:
    std::vector<neuron::CompileJob> jobs_of(const std::vector<trace::ProgramEntry>& programs) const;

    neuron::CompileSettings settings_;
    std::string target_;
    std::filesystem::path cache_;
    std::vector<std::pair<std::string, neuron::ProgramSize>> sizes_;
    std::vector<std::string> names_;
    std::vector<neuron::CompiledJob> results_;
};

}  // namespace gemmatrace::cli
