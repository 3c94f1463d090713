// What the steps of `gemmatrace doctor` that use cores share: programs compiled into a folder of their own, a device.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/doctor_steps.h"
#include "neuron/compile.h"
#include "neuron/neuron_device.h"
#include "neuron/probes.h"
#include "trace/device.h"

namespace gemmatrace::cli {

class ProbeBench {
  public:
    // Finds the compiler. `step`: names the folder.
    ProbeBench(const StepContext& context, const std::string& step);

    // Compiles them together. Throws as neuron::compile_programs does.
    std::vector<neuron::CompiledJob> compile(std::span<const neuron::Probe> probes) const;
    neuron::CompiledJob compile(const neuron::Probe& probe) const { return compile(std::span(&probe, 1)).front(); }
    std::filesystem::path neff_file(const std::string& program) const;
    std::unique_ptr<trace::Device> device(int32_t ranks) const;

  private:
    const StepContext& context_;
    std::filesystem::path folder_;
    NeuronCompiler compiler_;
};

// Options for a device whose compiled programs lie in a folder as NAME.neff.
neuron::NeuronOptions doctor_device_options(const StepContext& context, const std::filesystem::path& folder);
// The compiler's options as the user gave them; its cache lies in the work folder.
NeuronOptions doctor_compiler_options(const StepContext& context);

// The middle one of some times.
double median_of(std::vector<double> values);

}  // namespace gemmatrace::cli
