// From options to settings of the compiler room, and its words on standard error.
#include "cli/neuron_compile.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/durable_file.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/json.h"
#include "base/progress.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "hlo/statistics.h"
#include "neuron/compiled.h"
#include "neuron/compiler_flags.h"

namespace gemmatrace::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

std::optional<std::string> environment_value(const char* name) {
    const char* value = ::getenv(name);
    return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>(value);
}

// Lines, and below them on a terminal one that is rewritten.
class StateLine {
  public:
    explicit StateLine(ProgressOutput output) : output_(std::move(output)), shown_at_(output_.now()) {}
    ~StateLine() { clear(); }
    StateLine(const StateLine&) = delete;
    StateLine& operator=(const StateLine&) = delete;

    void say(const std::string& line) {
        clear();
        output_.write(line + "\n");
    }
    void show(const std::string& state) {
        constexpr double kTerminalSeconds = 1.0;
        constexpr double kFileSeconds = 60.0;
        const double now = output_.now();
        if (state.empty() || now - shown_at_ < (output_.is_terminal ? kTerminalSeconds : kFileSeconds)) return;
        shown_at_ = now;
        clear();
        output_.write(output_.is_terminal ? state : state + "\n");
        is_open_ = output_.is_terminal;
    }

  private:
    void clear() {
        if (std::exchange(is_open_, false)) output_.write("\r\x1b[K");
    }
    ProgressOutput output_;
    double shown_at_;
    bool is_open_ = false;
};

// A folder for the time of one run of the compiler.
class PassingFolder {
  public:
    PassingFolder() {
        std::string name = (fs::temp_directory_path() / "gemmatrace-XXXXXX").string();
        if (::mkdtemp(name.data()) == nullptr) fail_writing(name, errno);
        path_ = name;
    }
    ~PassingFolder() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
    PassingFolder(const PassingFolder&) = delete;
    PassingFolder& operator=(const PassingFolder&) = delete;
    const fs::path& path() const { return path_; }

  private:
    fs::path path_;
};

neuron::HostLimits host_limits(const NeuronOptions& options) {
    neuron::HostLimits limits;
    limits.cores = static_cast<int32_t>(std::max(1U, std::thread::hardware_concurrency()));
    limits.jobs = options.jobs;
    if (!options.memory_gib) {
        limits.memory_bytes = available_memory_bytes();
        limits.swap_bytes = free_swap_bytes();
        return limits;
    }
    constexpr double kMostGib = 1 << 20;
    if (!(*options.memory_gib > 0.0 && *options.memory_gib <= kMostGib)) {
        throw Error(ErrorCode::bad_request, "this is no amount of memory", {{"field", "--memory-gib"}},
                    "say how many GiB compilers may take together");
    }
    limits.memory_bytes = static_cast<uint64_t>(*options.memory_gib * (1 << 30));
    return limits;
}

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
    return text;
}

}  // namespace

void add_neuron_options(Command& command, NeuronOptions& options) {
    command.add(
        "The Neuron compiler",
        {{"--compiler", &options.compiler, "neuronx-cc or its folder; otherwise it is searched for", "FILE"},
         {"--cache", &options.cache, "folder of compiled programs; otherwise gemmatrace/neff in the user's cache",
          "DIR"},
         {"--jobs", &options.jobs, "compiles at once; 0: as memory and cores allow", "N", "", true},
         {"--memory-gib", &options.memory_gib, "memory that compilers may take together; otherwise what is free", "N"},
         {"--compiler-flag", &options.flags, "one more option for the compiler, or another value (several times)",
          "FLAG"},
         {"--any-compiler", &options.takes_any_compiler, "try versions that are not known to work"},
         {"--dry-run", &options.runs_dry, "compile nothing; print what would be"}});
}

NeuronCompiler::NeuronCompiler(const NeuronOptions& options, const std::string& target) : target_(target) {
    settings_.limits = host_limits(options);
    settings_.is_memory_stated = options.memory_gib.has_value();
    settings_.is_cancelled = is_interrupted;
    const auto line = std::make_shared<StateLine>(standard_error_output());
    settings_.say = [line](const std::string& text) { line->say(text); };
    settings_.show = [line](const std::string& text) { line->show(text); };
    cache_ = options.cache.empty() ? neuron::default_cache_folder(environment_value) : fs::absolute(options.cache);

    const PassingFolder scratch;
    const fs::path compiler = neuron::find_compiler({options.compiler, environment_value});
    settings_.toolchain = neuron::read_toolchain(compiler, scratch.path());
    if (!options.takes_any_compiler) neuron::require_known(settings_.toolchain);
    settings_.flags = neuron::compiler_flags(target, settings_.toolchain.version, options.flags);
    settings_.say(fmt::format("{}: version {}, islpy {}", compiler.string(), settings_.toolchain.version_text,
                              settings_.toolchain.islpy.empty() ? "not found" : settings_.toolchain.islpy));
    if (const auto fault = neuron::toolchain_fault(settings_.toolchain)) settings_.say("warning: " + *fault);
}

void NeuronCompiler::note(const trace::EmittedProgram& program) {
    const hlo::Statistics statistics = hlo::statistics_of(program.module);
    const uint64_t largest = statistics.largest.empty() ? 0 : statistics.largest.front().shape.bytes();
    sizes_.push_back({program.spec.name(), {statistics.instructions, largest}});
}

std::vector<neuron::CompileJob> NeuronCompiler::jobs_of(const std::vector<trace::ProgramEntry>& programs) const {
    std::vector<neuron::CompileJob> jobs;
    for (const trace::ProgramEntry& program : programs) {
        const std::string name = program.spec.name();
        const auto size = std::ranges::find(sizes_, name, &std::pair<std::string, neuron::ProgramSize>::first);
        require(size != sizes_.end(), "every program was noted");
        jobs.push_back(
            {name, program.sha256, neuron::expected_tensors(program), neuron::estimate_compile(size->second)});
    }
    return jobs;
}

void NeuronCompiler::complete(const fs::path& folder, const trace::Manifest& manifest) {
    const std::vector<neuron::CompileJob> jobs = jobs_of(manifest.programs);
    results_ = neuron::compile_programs(folder, jobs, settings_, neuron::GraphCache(cache_, settings_.say));
    neuron::Compiled compiled;
    compiled.manifest_hash = manifest.hash();
    compiled.target = target_;
    compiled.compiler = settings_.toolchain.version_text;
    compiled.islpy = settings_.toolchain.islpy;
    compiled.flags = settings_.flags;
    for (size_t place = 0; place < jobs.size(); ++place) {
        const neuron::CompiledJob& result = results_[place];
        compiled.programs.push_back({jobs[place].name, result.neff_bytes, result.neff_sha256,
                                     jobs[place].program_sha256, result.key, result.seconds, result.peak_memory_bytes,
                                     result.feature_bits, result.scratchpad_bytes});
        names_.push_back(jobs[place].name);
    }
    write_durably(folder / "compiled.json", neuron::compiled_text(compiled));
}

int NeuronCompiler::show_dry_run(const std::vector<trace::ProgramEntry>& programs, bool is_json) const {
    const std::vector<neuron::CompileJob> jobs = jobs_of(programs);
    const neuron::GraphCache cache(cache_, settings_.say);
    std::vector<std::string> names;
    std::vector<neuron::CompileCost> costs;
    auto list = ordered_json::array();
    std::string text = fmt::format("{:<16} {:>9} {:>12} {:>12}\n", "program", "cached", "memory", "time");
    double seconds = 0.0;
    for (const neuron::CompileJob& job : jobs) {
        throw_if_interrupted();
        const std::string key = neuron::cache_key(job, settings_);
        const auto entry = cache.find(key);
        list.push_back({{"name", job.name},
                        {"key", key},
                        {"cached", entry.has_value()},
                        {"memory_bytes", job.cost.memory_bytes},
                        {"seconds", entry ? 0.0 : job.cost.seconds}});
        text += fmt::format("{:<16} {:>9} {:>12} {:>12}\n", job.name, entry ? "yes" : "no",
                            entry ? "" : format_bytes(job.cost.memory_bytes),
                            entry ? "" : format_duration(job.cost.seconds));
        if (entry) continue;
        seconds += job.cost.seconds;
        names.push_back(job.name);
        costs.push_back(job.cost);
    }
    const int32_t at_once = neuron::plan_jobs(names, costs, settings_.limits);
    const neuron::Toolchain& toolchain = settings_.toolchain;
    if (is_json) {
        const ordered_json json = {{"compiler", toolchain.compiler.string()},
                                   {"version", toolchain.version_text},
                                   {"islpy", toolchain.islpy},
                                   {"flags", settings_.flags},
                                   {"cache", cache_.string()},
                                   {"jobs", at_once},
                                   {"programs", list}};
        write_out(dump_json(json, 1) + "\n");
        return 0;
    }
    text +=
        fmt::format("\n{} to compile, {} at once, about {} in all (an estimate; figures of others differ threefold)\n",
                    names.size(), at_once, format_duration(seconds / at_once));
    text += fmt::format("compiler: {}, version {}, islpy {}\noptions: {}\ncache: {}\nknown compilers: {}\n",
                        toolchain.compiler.string(), toolchain.version_text, toolchain.islpy, joined(settings_.flags),
                        cache_.string(), neuron::known_compilers_text());
    write_out(text);
    return 0;
}

ordered_json NeuronCompiler::result_json() const {
    ordered_json json = {{"compiler", settings_.toolchain.version_text},
                         {"islpy", settings_.toolchain.islpy},
                         {"flags", settings_.flags},
                         {"neffs", ordered_json::array()}};
    for (size_t place = 0; place < results_.size(); ++place) {
        const neuron::CompiledJob& result = results_[place];
        json["neffs"].push_back({{"name", names_[place]},
                                 {"bytes", result.neff_bytes},
                                 {"sha256", result.neff_sha256},
                                 {"cached", result.was_cached},
                                 {"seconds", result.seconds},
                                 {"peak_memory_bytes", result.peak_memory_bytes}});
    }
    return json;
}

}  // namespace gemmatrace::cli
