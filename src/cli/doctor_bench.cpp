// Every step compiles into an empty folder; the cache in the work folder makes a second time quick.
#include "cli/doctor_bench.h"

#include <algorithm>

#include "base/durable_file.h"
#include "base/file_mapping.h"
#include "base/sha256.h"
#include "cli/doctor_run.h"
#include "hlo/proto.h"
#include "hlo/statistics.h"
#include "neuron/compiled.h"
#include "neuron/graph_cache.h"
#include "neuron/tensor_check.h"

namespace gemmatrace::cli {
namespace {

namespace fs = std::filesystem;

neuron::CompileJob job_of(const hlo::Module& module, const std::string& proto) {
    const hlo::Statistics statistics = hlo::statistics_of(module);
    neuron::CompileJob job;
    job.name = module.name;
    job.program_sha256 = sha256(proto);
    const uint64_t largest = statistics.largest.empty() ? 0 : statistics.largest.front().shape.bytes();
    job.cost = neuron::estimate_compile({statistics.instructions, largest});
    job.tensors = neuron::expected_tensors(module);
    return job;
}

}  // namespace

NeuronOptions doctor_compiler_options(const StepContext& context) {
    NeuronOptions options = context.options.compiler;
    options.cache = context.folder("cache");
    return options;
}

ProbeBench::ProbeBench(const StepContext& context, const std::string& step)
    : context_(context), folder_(context.folder(step)), compiler_(doctor_compiler_options(context), "inf2") {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "programs");
}

std::vector<neuron::CompiledJob> ProbeBench::compile(std::span<const neuron::Probe> probes) const {
    std::vector<neuron::CompileJob> jobs;
    for (const neuron::Probe& probe : probes) {
        const std::string proto = hlo::write_proto(probe.module);
        jobs.push_back(job_of(probe.module, proto));
        const fs::path file = folder_ / "programs" / (probe.module.name + ".hlo.pb");
        fs::remove(file);
        write_durably(file, proto);
    }
    const auto& settings = compiler_.settings();
    return neuron::compile_programs(folder_, jobs, settings,
                                    neuron::GraphCache(context_.folder("cache"), settings.say));
}

fs::path ProbeBench::neff_file(const std::string& program) const { return folder_ / "programs" / (program + ".neff"); }

std::unique_ptr<trace::Device> ProbeBench::device(int32_t ranks) const {
    return neuron::make_neuron_device(ranks, doctor_device_options(context_, folder_ / "programs"));
}

neuron::NeuronOptions doctor_device_options(const StepContext& context, const fs::path& folder) {
    neuron::NeuronOptions options;
    options.cores = context.options.cores;
    options.timeout_seconds = context.options.timeout_seconds;
    options.neff_of = [folder](const std::string& name) {
        const fs::path file = folder / (name + ".neff");
        const auto bytes = std::make_shared<const std::string>(read_file(file, neuron::kLargestNeffBytes));
        return neuron::NeffSource{file.string(), bytes, std::as_bytes(std::span(*bytes))};
    };
    options.end = end_apart;
    return options;
}

double median_of(std::vector<double> values) {
    std::ranges::sort(values);
    return values.empty() ? 0.0 : values[values.size() / 2];
}

}  // namespace gemmatrace::cli
