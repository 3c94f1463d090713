// From options to a backend; what a device does not have is refused rather than ignored.
#include "cli/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/progress.h"
#include "base/thread_pool.h"
#include "cli/output.h"
#include "engine/cpu_backend.h"
#include "engine/device_backend.h"
#include "neuron/compiled.h"
#include "neuron/neuron_device.h"
#include "trace/bundle.h"
#include "trace/sim_device.h"

namespace gemmatrace::cli {
namespace {

constexpr int32_t kProgramChunkTokens = 64;
constexpr double kLongestTimeout = 86400.0;
constexpr const char* kInBundle = "the bundle says it: leave it out";

void refuse_option(bool is_given, const char* option, const std::string& remedy) {
    if (!is_given) return;
    throw Error(ErrorCode::bad_request, fmt::format("{} cannot be chosen here", option), {{"field", option}}, remedy);
}

// A device's own options, where it is another one.
void refuse_neuron_options(const ModelOptions& options) {
    refuse_option(!options.cores.empty(), "--cores", "leave it out, or use --device neuron");
    refuse_option(options.device_timeout.has_value(), "--device-timeout", "leave it out, or use --device neuron");
}

trace::Bundle open_bundle(const ModelOptions& options, const std::filesystem::path& checkpoint) {
    trace::Bundle bundle(options.bundle);
    trace::check_fits_checkpoint(bundle, checkpoint);
    return bundle;
}

// What a bundle says cannot be said again.
void take_bundle(engine::DeviceSourceOptions& device, const ModelOptions& options, const trace::Bundle& bundle,
                 model::Precision precision) {
    refuse_option(options.ranks.has_value(), "--tp", kInBundle);
    refuse_option(options.chunk_tokens.has_value(), "--chunk", kInBundle);
    const trace::DeviceModelOptions programs = bundle.options();
    refuse_option(precision != programs.geometry.precision, "--precision", kInBundle);
    device.geometry = programs.geometry;
    device.buckets = programs.buckets;
    device.program_of = programs.program_of;
}

// Bytes of weights as a line of progress, and programs as lines while they take long.
class LoadView {
  public:
    void weights(uint64_t done, uint64_t total) {
        if (!progress_) progress_ = std::make_unique<Progress>("writing weights to the cores", total);
        progress_->update(done);
        if (done < total) return;
        progress_->finish();
        progress_.reset();
    }
    void program(const std::string& name, size_t number, size_t total) {
        const auto now = std::chrono::steady_clock::now();
        if (number > 1 && now - shown_at_ < std::chrono::seconds(2)) return;
        shown_at_ = now;
        write_error(fmt::format("loading program {} of {}: {}\n", number, total, name));
    }

  private:
    std::unique_ptr<Progress> progress_;
    std::chrono::steady_clock::time_point shown_at_;
};

neuron::NeuronOptions device_options(const ModelOptions& options, const trace::Bundle& bundle,
                                     const neuron::Compiled& compiled) {
    neuron::NeuronOptions device;
    device.cores = options.cores;
    device.timeout_seconds = options.device_timeout.value_or(neuron::kUsualTimeoutSeconds);
    if (!(device.timeout_seconds > 0.0 && device.timeout_seconds <= kLongestTimeout)) {
        throw Error(ErrorCode::bad_request, fmt::format("a timeout of {:g} s was asked for", device.timeout_seconds),
                    {{"field", "--device-timeout"}}, fmt::format("use more than 0 and at most {:g}", kLongestTimeout));
    }
    device.neff_of = neuron::neffs_of(bundle.directory(), compiled);
    uint64_t scratch = 0;
    for (const neuron::CompiledProgram& program : compiled.programs)
        scratch = std::max(scratch, program.scratchpad_bytes);
    const trace::RankMemory& memory = bundle.manifest().memory;
    device.planned = {{"weights", memory.weight_bytes},
                      {"caches", memory.cache_bytes},
                      {"inputs and outputs", memory.step_bytes},
                      {"the compiler's scratch", scratch}};
    return device;
}

std::unique_ptr<engine::BackendSource> open_neuron(const ModelOptions& options, const std::filesystem::path& checkpoint,
                                                   const cpu::RunnerOptions& checked) {
    refuse_option(checked.isa.has_value(), "--isa", "leave it out");
    if (options.bundle.empty()) {
        throw Error(ErrorCode::bad_request, "--device neuron runs the programs of a bundle, and none was named",
                    {{"field", "--bundle"}}, "make one with `gemmatrace compile`, and give it with --bundle DIR");
    }
    const trace::Bundle bundle = open_bundle(options, checkpoint);
    const neuron::Compiled compiled = neuron::read_compiled(bundle.directory(), bundle.manifest());
    engine::DeviceSourceOptions device;
    device.checkpoint = checkpoint;
    take_bundle(device, options, bundle, checked.precision);
    device.make_device = [made_with = device_options(options, bundle, compiled)](int32_t ranks) {
        return neuron::make_neuron_device(ranks, made_with);
    };
    const auto view = std::make_shared<LoadView>();
    device.progress = [view](uint64_t done, uint64_t total) { view->weights(done, total); };
    device.on_program = [view](const std::string& name, size_t number, size_t total) {
        view->program(name, number, total);
    };
    return engine::make_device_source(std::move(device));
}

std::unique_ptr<engine::BackendSource> open_sim(const ModelOptions& options, const std::filesystem::path& checkpoint,
                                                const cpu::RunnerOptions& checked) {
    refuse_neuron_options(options);
    refuse_option(checked.isa.has_value(), "--isa", "leave it out");
    engine::DeviceSourceOptions device;
    device.checkpoint = checkpoint;
    device.ranks = options.ranks.value_or(1);
    device.precision = checked.precision;
    device.chunk_tokens = options.chunk_tokens.value_or(kProgramChunkTokens);
    if (!options.bundle.empty()) take_bundle(device, options, open_bundle(options, checkpoint), checked.precision);
    const int threads = checked.threads > 0 ? checked.threads : usable_cores();
    device.make_device = [threads](int32_t ranks) { return trace::make_sim_device(ranks, threads); };
    return engine::make_device_source(std::move(device));
}

std::unique_ptr<engine::BackendSource> open_cpu(const ModelOptions& options, const std::filesystem::path& checkpoint,
                                                const cpu::RunnerOptions& checked) {
    refuse_neuron_options(options);
    refuse_option(options.ranks.has_value(), "--tp", "leave it out, or use --device sim");
    refuse_option(!options.bundle.empty(), "--bundle", "leave it out, or use --device neuron or sim");
    return engine::make_cpu_source(std::make_unique<cpu::Runner>(checkpoint, checked), checked.chunk_tokens);
}

// Why the accelerator cannot run this; nothing when it can.
std::string why_not_neuron(const ModelOptions& options, const std::filesystem::path& checkpoint) {
    if (options.bundle.empty()) return "no --bundle was named";
    try {
        const trace::Bundle bundle = open_bundle(options, checkpoint);
        neuron::read_compiled(bundle.directory(), bundle.manifest());
        return neuron::why_no_neuron(bundle.manifest().geometry.ranks, options.cores);
    } catch (const Error& error) {
        return error.message();
    }
}

}  // namespace

std::unique_ptr<engine::BackendSource> open_backend(const ModelOptions& options,
                                                    const std::filesystem::path& checkpoint) {
    const cpu::RunnerOptions checked = runner_options(options);
    if (options.device == "cpu") return open_cpu(options, checkpoint, checked);
    if (options.device == "sim") return open_sim(options, checkpoint, checked);
    if (options.device == "neuron") return open_neuron(options, checkpoint, checked);
    if (options.device != "auto") {
        throw Error(ErrorCode::bad_request, fmt::format("unknown device '{}'", options.device), {{"field", "--device"}},
                    "use cpu, neuron, auto or sim");
    }
    const std::string obstacle = why_not_neuron(options, checkpoint);
    if (obstacle.empty()) {
        write_error("device: neuron\n");
        return open_neuron(options, checkpoint, checked);
    }
    write_error(fmt::format("device: cpu, because {}\n", obstacle));
    ModelOptions rest = options;  // without what is meant for the accelerator
    rest.bundle.clear();
    rest.cores.clear();
    rest.device_timeout.reset();
    return open_cpu(rest, checkpoint, checked);
}

}  // namespace gemmatrace::cli
