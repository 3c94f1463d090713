// One loop starts compilers, looks at them, and takes what they made; there are no threads.
#include "neuron/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "base/durable_file.h"
#include "base/error.h"
#include "base/file_mapping.h"
#include "base/host_memory.h"
#include "base/progress.h"
#include "base/sha256.h"
#include "neuron/compiled.h"
#include "neuron/failures.h"
#include "neuron/process.h"

namespace gemmatrace::neuron {
namespace {

namespace fs = std::filesystem;
using SteadyClock = std::chrono::steady_clock;

constexpr auto kPause = std::chrono::milliseconds(20);
constexpr auto kMemoryPause = std::chrono::milliseconds(250);  // between two looks at all processes
constexpr uint64_t kLeastFreeMemory = uint64_t{512} << 20;     // below it somebody is going to be killed
constexpr size_t kLongestLog = size_t{4} << 20;
constexpr size_t kLargestLogFile = size_t{1} << 30;
constexpr int kMostTries = 2;

double seconds_since(SteadyClock::time_point start) {
    return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

void make_log_folder(const fs::path& folder) {
    std::error_code problem;
    fs::create_directories(folder, problem);
    if (problem) fail_writing(folder, problem.value());
}

// The end of a log file, or nothing where it cannot be read.
std::string log_tail(const fs::path& path) {
    try {
        std::string text = read_file(path, kLargestLogFile);
        if (text.size() > kLongestLog) text.erase(0, text.size() - kLongestLog);
        return text;
    } catch (const Error&) {
        return "";
    }
}

class Compilation {
  public:
    Compilation(fs::path folder, const std::vector<CompileJob>& jobs, const CompileSettings& settings,
                const GraphCache& cache)
        : folder_(std::move(folder)), jobs_(jobs), settings_(settings), cache_(cache), results_(jobs.size()) {}

    std::vector<CompiledJob> run() {
        for (size_t job = 0; job < jobs_.size(); ++job) {
            throw_if_cancelled();
            results_[job].key = cache_key(jobs_[job], settings_);
            if (!take_from_cache(job)) waiting_.push_back({job, 1});
        }
        if (!waiting_.empty()) plan();
        while (!waiting_.empty() || !running_.empty()) {
            throw_if_cancelled();
            start_what_fits();
            look_after_running();
            watch_memory();
            settings_.show(state());
            if (!running_.empty() || !waiting_.empty()) std::this_thread::sleep_for(kPause);
        }
        std::error_code ignored;
        fs::remove_all(folder_ / "scratch", ignored);
        return std::move(results_);
    }

  private:
    struct Waiting {
        size_t job = 0;
        int tries = 1;
        bool is_told = false;  // that another process compiles it
    };
    struct Running {
        size_t job = 0;
        int tries = 1;
        GraphCache::Lock lock;
        SteadyClock::time_point start;
        uint64_t peak_bytes = 0;
        std::unique_ptr<Process> process;
    };

    void throw_if_cancelled() const {
        if (settings_.is_cancelled()) throw Error(ErrorCode::interrupted, "interrupted");
    }
    fs::path scratch_of(size_t job) const { return folder_ / "scratch" / jobs_[job].name; }

    // What is not in the cache must fit the machine before the first compiler starts.
    void plan() {
        std::vector<std::string> names;
        std::vector<CompileCost> costs;
        std::vector<CompileJob> jobs;
        for (const Waiting& each : waiting_) {
            jobs.push_back(jobs_[each.job]);
            names.push_back(jobs_[each.job].name);
            costs.push_back(jobs_[each.job].cost);
            if (costs.back().memory_bytes <= settings_.limits.memory_bytes) continue;
            settings_.say(
                fmt::format("warning: compiling {} takes about {} of memory and will use swap space, which is "
                            "slow",
                            names.back(), format_bytes(costs.back().memory_bytes)));
        }
        const int32_t at_once = plan_jobs(names, costs, settings_.limits);
        check_disk(folder_, cache_.folder(), jobs, at_once);
        at_once_ = static_cast<size_t>(at_once);
    }

    bool take_from_cache(size_t job) {
        std::optional<CacheEntry> entry = cache_.find(results_[job].key);
        if (!entry) return false;
        try {
            take(job, *entry);
        } catch (const Error& error) {  // whole, so the compiler or another version of ours made it so
            settings_.say(fmt::format("the cache's NEFF of {} is not used: {}", jobs_[job].name, error.what()));
            return false;
        }
        results_[job].was_cached = true;
        settings_.say(fmt::format("{}: in the cache", jobs_[job].name));
        return true;
    }

    // Checks a NEFF and puts it into the bundle.
    void take(size_t job, const CacheEntry& entry) {
        const std::string where = jobs_[job].name + ".neff";
        const NeffInfo info = read_neff(std::as_bytes(std::span(entry.neff)), where);
        check_neff_tensors(info, jobs_[job].tensors, where);
        write_durably(folder_ / "programs" / where, entry.neff);
        CompiledJob& result = results_[job];
        result.neff_bytes = entry.neff.size();
        result.neff_sha256 = sha256(entry.neff);
        result.seconds = entry.seconds;
        result.peak_memory_bytes = entry.peak_memory_bytes;
        result.feature_bits = info.feature_bits;
        result.scratchpad_bytes = info.scratchpad_bytes;
        measured_seconds_ += entry.seconds;
        estimated_seconds_ += jobs_[job].cost.seconds;
    }

    // Estimates, corrected by how long those that are known took.
    double expected_seconds(size_t job) const {
        const double factor = estimated_seconds_ > 0.0 ? measured_seconds_ / estimated_seconds_ : 1.0;
        return jobs_[job].cost.seconds * factor;
    }

    uint64_t planned_memory() const {
        uint64_t bytes = 0;
        for (const Running& each : running_) bytes += jobs_[each.job].cost.memory_bytes;
        return bytes;
    }

    void start_what_fits() {
        for (auto each = waiting_.begin(); each != waiting_.end();) {
            if (running_.size() >= at_once_) return;
            const bool fits = planned_memory() + jobs_[each->job].cost.memory_bytes <= settings_.limits.memory_bytes;
            if (!running_.empty() && !fits) return;
            std::optional<GraphCache::Lock> lock = cache_.try_lock(results_[each->job].key);
            if (!lock) {
                if (!std::exchange(each->is_told, true)) {
                    settings_.say(fmt::format("{}: another process compiles it; waiting", jobs_[each->job].name));
                }
                ++each;
                continue;
            }
            const Waiting chosen = *each;
            each = waiting_.erase(each);
            if (take_from_cache(chosen.job)) continue;  // another process may have compiled it since
            start(chosen, *std::move(lock));
        }
    }

    void start(const Waiting& chosen, GraphCache::Lock lock) {
        const fs::path scratch = scratch_of(chosen.job);
        std::error_code problem;
        fs::remove_all(scratch, problem);
        fs::create_directories(scratch, problem);
        if (problem) fail_writing(scratch, problem.value());
        const std::string& name = jobs_[chosen.job].name;
        fs::copy_file(folder_ / "programs" / (name + ".hlo.pb"), scratch / "program.hlo.pb", problem);
        if (problem) fail_writing(scratch, problem.value());

        ProcessSpec spec;
        const fs::path& compiler = settings_.toolchain.compiler;
        spec.arguments = {compiler.string(), "compile", "program.hlo.pb"};
        spec.arguments.insert(spec.arguments.end(), settings_.flags.begin(), settings_.flags.end());
        spec.arguments.insert(spec.arguments.end(), {"--output", "program.neff"});
        spec.directory = scratch;
        spec.output = scratch / "output.txt";
        spec.environment = compiler_environment(compiler);
        settings_.say(fmt::format("{}: compiling, expected to take about {} and {}", name,
                                  format_duration(expected_seconds(chosen.job)),
                                  format_bytes(jobs_[chosen.job].cost.memory_bytes)));
        running_.push_back(
            {chosen.job, chosen.tries, std::move(lock), SteadyClock::now(), 0, std::make_unique<Process>(spec)});
    }

    void look_after_running() {
        for (size_t place = 0; place < running_.size();) {
            const auto end = running_[place].process->poll();
            if (!end) {
                ++place;
                continue;
            }
            const Running ended = std::move(running_[place]);
            running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(place));
            finish(ended, *end);
        }
    }

    void finish(const Running& ended, const CompilerExit& end) {
        const std::string& name = jobs_[ended.job].name;
        const fs::path scratch = scratch_of(ended.job);
        const std::string output = log_tail(scratch / "output.txt");
        const std::string log = output + log_tail(scratch / "log-neuron-cc.txt");
        if (end.signal == 0 && end.status == 0) {
            take_result(ended, scratch, log);
        } else if (may_pass_when_repeated(end, log) && ended.tries < kMostTries) {
            settings_.say(fmt::format("{}: the compiler failed inside (exit status 70); once more", name));
            waiting_.push_front({ended.job, ended.tries + 1});
        } else {
            throw compiler_error(name, end, log, keep_log(ended.job, log));
        }
        std::error_code ignored;
        fs::remove_all(scratch, ignored);
    }

    std::string keep_log(size_t job, const std::string& log) const {
        return cache_.keep_failure(jobs_[job].name, results_[job].key, log).string();
    }

    void take_result(const Running& ended, const fs::path& scratch, const std::string& log) {
        const std::string& name = jobs_[ended.job].name;
        const fs::path file = scratch / "program.neff";
        std::error_code problem;
        if (!fs::exists(file, problem)) {
            throw Error(ErrorCode::device,
                        fmt::format("the Neuron compiler says that it compiled {}, but wrote no file", name),
                        {{"program", name}, {"log", keep_log(ended.job, log)}},
                        "see whether the disk is full; otherwise report this with the log");
        }
        CacheEntry entry{read_file(file, kLargestNeffBytes), seconds_since(ended.start),
                         std::max(ended.peak_bytes, ended.process->largest_process_bytes())};
        try {
            take(ended.job, entry);
        } catch (Error& error) {
            if (error.code() == ErrorCode::resource) throw;
            throw error.add_context("program", name).add_context("log", keep_log(ended.job, log));
        }
        cache_.store({jobs_[ended.job].program_sha256, settings_.flags, settings_.toolchain.version_text,
                      settings_.toolchain.islpy},
                     name, entry);
        make_log_folder(folder_ / "logs");
        write_durably(folder_ / "logs" / (name + ".log"), log);
        settings_.say(fmt::format("{}: compiled in {}, NEFF of {}, at most {} of memory", name,
                                  format_duration(entry.seconds), format_bytes(entry.neff.size()),
                                  format_bytes(entry.peak_memory_bytes)));
    }

    // Before the kernel chooses whom to kill: the compile that began last goes back and waits for the others.
    void watch_memory() {
        if (running_.empty() || SteadyClock::now() - memory_seen_ < kMemoryPause) return;
        memory_seen_ = SteadyClock::now();
        memory_now_ = 0;
        for (Running& each : running_) {
            const uint64_t bytes = each.process->memory_bytes();
            each.peak_bytes = std::max(each.peak_bytes, bytes);
            memory_now_ += bytes;
        }
        const uint64_t free = available_memory_bytes() + free_swap_bytes();
        const bool is_over_limit = settings_.is_memory_stated && memory_now_ > settings_.limits.memory_bytes;
        if (!is_over_limit && free >= kLeastFreeMemory) return;
        const std::string& name = jobs_[running_.back().job].name;
        if (running_.size() > 1) {
            settings_.say(fmt::format("{}: stopped for want of memory, to be compiled after the others", name));
            running_.back().process->stop();
            waiting_.push_front({running_.back().job, running_.back().tries});
            running_.pop_back();
            at_once_ = std::max<size_t>(running_.size(), 1);
        } else if (is_over_limit) {
            running_.back().process->stop();
            throw Error(ErrorCode::resource,
                        fmt::format("compiling {} takes more than {} of memory", name,
                                    format_bytes(settings_.limits.memory_bytes)),
                        {{"program", name},
                         {"needed_bytes", std::to_string(memory_now_)},
                         {"available_bytes", std::to_string(settings_.limits.memory_bytes)}},
                        "allow more with --memory-gib, or use a smaller --context or --chunk");
        } else if (!std::exchange(has_warned_, true)) {
            settings_.say(fmt::format("warning: {} of memory are left, and {} is not finished; the kernel may kill it",
                                      format_bytes(free), name));
        }
    }

    std::string state() const {
        std::string text;
        for (const Running& each : running_) {
            text +=
                fmt::format("{}{} for {} of about {}", text.empty() ? "" : ", ", jobs_[each.job].name,
                            format_duration(seconds_since(each.start)), format_duration(expected_seconds(each.job)));
        }
        if (!waiting_.empty()) text += fmt::format("{}{} more to come", text.empty() ? "" : "; ", waiting_.size());
        if (memory_now_ > 0 && !running_.empty()) text += fmt::format("; {} of memory", format_bytes(memory_now_));
        return text;
    }

    fs::path folder_;
    const std::vector<CompileJob>& jobs_;
    const CompileSettings& settings_;
    const GraphCache& cache_;
    std::vector<CompiledJob> results_;
    std::deque<Waiting> waiting_;
    std::vector<Running> running_;  // in the order in which they began
    size_t at_once_ = 1;
    SteadyClock::time_point memory_seen_ = SteadyClock::now();
    uint64_t memory_now_ = 0;
    bool has_warned_ = false;
    double measured_seconds_ = 0.0;
    double estimated_seconds_ = 0.0;
};

void check_room(const fs::path& folder, uint64_t needed) {
    fs::path existing = fs::absolute(folder);
    std::error_code problem;
    while (!fs::exists(existing, problem) && existing.has_relative_path()) existing = existing.parent_path();
    const fs::space_info space = fs::space(existing, problem);
    if (problem || space.available >= needed) return;
    throw Error(ErrorCode::resource,
                fmt::format("compiling takes about {} of disk, and {} are free", format_bytes(needed),
                            format_bytes(space.available)),
                {{"folder", folder.string()},
                 {"needed_bytes", std::to_string(needed)},
                 {"available_bytes", std::to_string(space.available)}},
                "free disk space, or choose other folders with -o and --cache");
}

}  // namespace

std::string cache_key(const CompileJob& job, const CompileSettings& settings) {
    return CacheIngredients{job.program_sha256, settings.flags, settings.toolchain.version_text,
                            settings.toolchain.islpy}
        .key();
}

std::vector<CompiledJob> compile_programs(const fs::path& folder, const std::vector<CompileJob>& jobs,
                                          const CompileSettings& settings, const GraphCache& cache) {
    cache.remove_abandoned();
    return Compilation(folder, jobs, settings, cache).run();
}

void check_disk(const fs::path& folder, const fs::path& cache, const std::vector<CompileJob>& jobs, int32_t at_once) {
    uint64_t neffs = 0;
    uint64_t scratch = 0;
    for (const CompileJob& job : jobs) {
        neffs += job.cost.neff_bytes;
        scratch = std::max(scratch, job.cost.scratch_bytes);
    }
    check_room(folder, neffs + scratch * static_cast<uint64_t>(std::max(at_once, 1)));
    check_room(cache, neffs);
}

}  // namespace gemmatrace::neuron
