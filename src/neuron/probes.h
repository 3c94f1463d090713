// Small programs that ask an accelerator one question each. What they must answer is what hlo/evaluator computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "hlo/module.h"
#include "trace/device.h"

namespace gemmatrace::neuron {

struct Probe {
    std::string question;  // what it shows, in a few words
    hlo::Module module;
    bool is_exact = true;  // no bit may differ; otherwise sums and curves may round elsewhere
};

// y = a + b in f32: the smallest program.
Probe addition_probe();
// Element types on their way in and out, conversions, comparisons, transposes of uneven sizes, products and curves.
std::vector<Probe> type_probes();
// Sums over ranks of f32 values and of values that were bf16; whole numbers, so that no order of sums shows.
Probe ranks_probe(int32_t ranks);
// A buffer [rows, 2, 8] in bf16 whose row is overwritten in place, chosen while it runs; with or without anybody who
// reads the buffer before.
Probe alias_probe(int64_t rows, bool is_read);
// A row of ones times two matrices of ones [rows, columns] in bf16: every element of the result is 2 * columns.
Probe streaming_probe(int64_t rows, int64_t columns);
// One row, chosen while it runs, of a bf16 input [rows, columns].
Probe biggest_probe(int64_t rows, int64_t columns);
// The sum of so many f32 inputs [8, 128].
Probe inputs_probe(int32_t count);

// Bytes by the name of the input, without the suffix of aliased ones.
using ProbeValues = std::map<std::string, std::vector<std::byte>>;
// Values for every input of a module, the same for the same seed: halves in [-4, 4], whole numbers in [-8, 8] for
// integers and sums over ranks; scalars of s32 are 0.
ProbeValues probe_values(const hlo::Module& module, uint32_t seed);

// A probe loaded on a device, with buffers of its own.
class ProbeProgram {
  public:
    // Throws as trace::Device::load does.
    ProbeProgram(trace::Device& device, const hlo::Module& module);

    void write(const std::string& name, int32_t rank, size_t offset, std::span<const std::byte> bytes);
    void write(const ProbeValues& values, int32_t rank);
    // Once on all ranks; answers the seconds that it took.
    double run();
    std::vector<std::byte> read(const std::string& name, int32_t rank, size_t offset, size_t bytes);

  private:
    trace::Device& device_;
    std::map<std::string, trace::Device::Buffer> buffers_;
    trace::Device::Program program_ = -1;
};

// An output that was compared, on one rank.
struct ProbeDifference {
    std::string output;
    int32_t rank = 0;
    size_t elements = 0;
    size_t different = 0;
    size_t not_numbers = 0;           // NaN where a number was expected
    double largest_difference = 0.0;  // of numbers
    double largest_expected = 0.0;    // magnitude
    std::string first;                // "element 5: 1.5 instead of 2"; empty when all are equal
};

// Runs a probe on the device and by the evaluator from the same values, [rank], and compares every output.
std::vector<ProbeDifference> compare_with_evaluator(ProbeProgram& program, const hlo::Module& module,
                                                    const std::vector<ProbeValues>& values);

}  // namespace gemmatrace::neuron
