// The tables: every number that a verdict rests on, and every step, the cheapest questions first.
#include "cli/doctor_steps.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "base/printable.h"

namespace gemmatrace::cli {
namespace {

constexpr std::array kExpectations = {
    Expectation{"disk_mb_per_s", 100, "MB/s that the disk reads at least: a checkpoint of 10 GB then takes 100 s"},
    Expectation{"memory_gib", 14.5, "GiB of host memory that a serving machine has at least"},
    Expectation{"dot_relative", 0.0005, "largest difference of a product or a sum, as a part of the largest value"},
    Expectation{"curve_relative", 0.004, "the same of exp, tanh and rsqrt"},
    Expectation{"core_gb_per_s", 165, "GB/s that a core reads weights with; plans use it"},
    Expectation{"both_share", 0.9, "part of a core's rate that each keeps when all read at once"},
    Expectation{"call_ms", 1, "milliseconds that a call costs beside its work"},
    Expectation{"input_us", 10, "microseconds that each further input adds to a call"},
    Expectation{"all_reduce_us", 13, "microseconds of a sum over the ranks within a step"},
    Expectation{"speed_slack", 1.25, "times as long as planned that a step may take"},
    Expectation{"logits_relative", 0.06, "largest difference of a row's logits, as a part of its largest logit"},
    Expectation{"far_rows", 0, "part of the rows whose logits may differ more; 0.1 for a model with experts"},
    Expectation{"reserved_gb", 1.5, "GB of a core for code, rings, collectives and the runtime"},
    Expectation{"core_gib", 16, "GiB of a core's memory"},
    Expectation{"notice_s", 30, "seconds beyond the timeout after which a rank that stays away is noticed"},
};

constexpr std::array kSteps = {
    DoctorStep{"host", "What is this machine?",
               "x86-64 with AVX2; enough memory; a disk that reads a checkpoint in a few minutes",
               "loading will be slow, or the CPU's reference will",
               "take another disk or instance; --expect disk_mb_per_s=N, memory_gib=N", "10 s", true, false,
               look_at_host},
    DoctorStep{"versions", "Do driver, runtime, collectives and compiler belong together?",
               "one release for all of them, with the compiler's islpy; no logical cores in the environment",
               "programs may be refused (status 10), or fail in ways that are on record for mixed releases",
               "install one release (the list is in docs/compiling.md); --compiler FILE for another compiler, "
               "--any-compiler to try this one; a release that is new belongs into src/neuron/releases.cpp",
               "5 s", true, false, look_at_versions},
    DoctorStep{"cores", "Does the runtime see the cores, and are they free?",
               "an Inferentia2 or Trainium1, as many cores as --tp, held by nobody",
               "the driver is not loaded, the device is not passed into the container, or another process has it",
               "load the driver, pass /dev/neuron0, stop the holder; --cores LIST and --tp N for others; a family that "
               "is new belongs into src/neuron/nrt_abi.h",
               "1 s", true, false, look_at_cores},
    DoctorStep{"checkpoint", "Is the checkpoint complete?", "every weight is there in its shape, none is left over",
               "the checkpoint is damaged, or of another model", "fetch it again (`gemmatrace pull`)", "1 s", true,
               true, look_at_checkpoint},
    DoctorStep{"compile", "Does the compiler take a program of ours?",
               "exit status 0, and a NEFF whose inputs and outputs have our names and sizes",
               "the program's form, an option or the naming of tensors is not what this compiler takes",
               "options: --compiler-flag, and the table in src/neuron/compiler_flags.cpp; names: the attributes "
               "neff_input_names and neff_output_names in src/hlo/proto.cpp",
               "1 min", false, false, compile_addition},
    DoctorStep{"neff", "What does the NEFF say?", "major version 2, one core for one core, inputs a and b, output y",
               "another layout of the file, of which the reader knows nothing",
               "src/neuron/neff.cpp; send the report back", "1 s", false, false, look_at_neff},
    DoctorStep{"operation", "Does it run on one core?", "every bit as our evaluator computes it",
               "the order of calls, the struct layouts or the layout of arrays is not what we believe",
               "status 1 or 2: the chip and the tensor names; status 10: a newer runtime; NEURON_RT_LOG_LEVEL=INFO "
               "shows more",
               "10 s", false, false, run_addition},
    DoctorStep{
        "types", "Are element types and transposes what we believe?",
        "no bit differs, but for products (dot_relative) and curves (curve_relative)",
        "an element type has another width or rounding on its way, or the compiler turns an array wrongly",
        "try --compiler-flag=--auto-cast=none, -O2, or another release; --expect dot_relative=X, curve_relative=X "
        "if the results are only less exact",
        "3 min", false, false, probe_types},
    DoctorStep{
        "ranks", "Do two ranks of one process sum?",
        "both cores give the sum, loaded and run from a thread each; -1 as the number of cores of a load works",
        "the ranks did not find each other, or loads want another argument",
        "NEURON_RT_ROOT_COMM_ID is set by us (src/neuron/nrt_host.cpp); the number of cores is tried as -1, then "
        "as 1 (src/neuron/neuron_device.cpp); without collectives use --tp 1",
        "1 min", false, false, probe_ranks},
    DoctorStep{"alias", "Is a buffer written in place, at a row chosen while it runs?",
               "the row is new and all others keep every bit, whether anybody reads the buffer or not",
               "the compiler dropped the write, or the buffer is not one tensor on both sides",
               "compilers before 2.24.5133 drop writes that nobody reads: use a later one; a wrong row speaks against "
               "run-time indices: send the report back",
               "1 min", false, false, probe_alias},
    DoctorStep{"streaming", "How fast does one core read weights?", "core_gb_per_s or more, and a right product",
               "slower: plans are too good; much faster: the compiler is not the ceiling that it is for others",
               "--expect core_gb_per_s=N for the steps below; src/cli/doctor_steps.cpp for good", "3 min", false, false,
               stream_one_core},
    DoctorStep{"streaming-all", "How fast do all cores of --tp read at once?", "each both_share of what one alone has",
               "the cores share a path to memory", "--expect both_share=X; a plan for several ranks gains less",
               "1 min", false, false, stream_all_cores},
    DoctorStep{"biggest", "Can one input be just under 2 GiB?",
               "its first and last rows are read back through a program", "sizes wrap at some limit",
               "tensors must stay below it: the limit is in src/hlo/shape.cpp (check_shape)", "2 min", false, false,
               probe_biggest},
    DoctorStep{"inputs", "What do 300 inputs cost in a call?", "call_ms for a call, input_us for each further input",
               "programs with a weight for each input are slow to start", "fewer, larger inputs: src/trace/packing.cpp",
               "2 min", false, false, probe_inputs},
    DoctorStep{"two-layers", "Are two layers of the model right, a sliding and a full one?",
               "logits as the CPU's within logits_relative, with and without mixed-precision accumulation",
               "an operation is compiled wrongly at real sizes",
               "use the variant that agrees: --compiler-flag=--disable-mixed-precision-accumulation; -O2; another "
               "release",
               "10 min", false, true, run_two_layers},
    DoctorStep{"four-layers", "Are four layers right?", "the same; compile time grows with the layers",
               "what two layers do right goes wrong when more are compiled together", "as for two layers", "10 min",
               false, true, run_four_layers},
    DoctorStep{"model", "What does it take to compile the model?",
               "memory and time within three times of the estimates",
               "the estimates of memory and time are wrong for this compiler, or this host is too small",
               "compile on a larger machine (`gemmatrace compile`, no accelerator needed), and give the result with "
               "--bundle; --memory-gib; the estimates are in src/neuron/compile_cost.cpp",
               "40 min, more memory than 16 GB", false, true, compile_model},
    DoctorStep{
        "parity", "Does the model say what the CPU says?",
        "logits within logits_relative at every compared position, among them borders of chunks, the wrap of the "
        "rings and the last rows of the vocabulary; another choice only where two were nearly equal",
        "words will be wrong somewhere: where it begins tells what is wrong (chunk, ring, vocabulary, slot)",
        "--compiler-flag as in `two-layers`; --context, --batch and --chunk for other programs; if only far_rows is "
        "passed in a model with experts, --expect far_rows=0.1",
        "15 min", false, true, compare_model},
    DoctorStep{
        "speed", "Does a step take as long as planned?",
        "weights and caches at core_gb_per_s, sums at all_reduce_us, call_ms for the call, all times speed_slack",
        "the program spills or waits", "--expect core_gb_per_s=N from `streaming`; -O2; fewer, larger inputs",
        "1 s, after parity", false, true, judge_speed},
    DoctorStep{"memory", "Is the memory of a core what was planned?",
               "weights, caches, inputs and scratch of the plan and at most reserved_gb more, of core_gib",
               "code, rings or scratch need more than is kept free",
               "--expect reserved_gb=N; src/trace/program_figures.h", "1 s, after parity", false, true, judge_memory},
    DoctorStep{
        "recovery", "Is a stuck rank noticed, and do the cores work after a kill?",
        "a rank that stays away is noticed within the timeout and notice_s; after a kill during a sum over ranks a "
        "new process gets right results, with NEURON_RT_RESET_CORES=1",
        "a server would hang, or need an operator after a crash",
        "--device-timeout; set NEURON_RT_RESET_CORES=1 in the service's unit; else restart the instance", "2 min",
        false, false, probe_recovery},
};

}  // namespace

std::span<const Expectation> doctor_expectations() { return kExpectations; }
std::span<const DoctorStep> doctor_steps() { return kSteps; }

Expectations::Expectations(const std::vector<std::string>& changes) {
    for (const Expectation& known : kExpectations) values_[known.name] = known.value;
    for (const std::string& word : changes) {
        const size_t equals = std::min(word.find('='), word.size());
        const auto known = values_.find(word.substr(0, equals));
        double value = NAN;
        const char* begin = word.data() + std::min(equals + 1, word.size());
        const auto [end, fault] = std::from_chars(begin, word.data() + word.size(), value);
        if (known == values_.end() || fault != std::errc() || end != word.data() + word.size() || !(value >= 0.0)) {
            throw Error(ErrorCode::bad_request, fmt::format("\"{}\" is no expectation", printable(word)),
                        {{"field", "--expect"}},
                        "write NAME=VALUE; `gemmatrace doctor --list` shows the names and their usual values");
        }
        known->second = value;
    }
}

void StepFinding::lack(const DoctorOptions& options, std::string what) {
    if (options.is_first_contact)
        faults.push_back(std::move(what));
    else
        skipped = std::move(what);
}

const nlohmann::ordered_json* StepContext::seen_by(const std::string& step) const {
    for (const auto& other : report["steps"]) {
        if (other.value("id", "") == step && other.value("verdict", "") == "pass") return &other["seen"];
    }
    return nullptr;
}

}  // namespace gemmatrace::cli
