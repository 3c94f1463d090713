// Planning a pull and carrying it out with several threads.
#include "hub/pull.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/progress.h"
#include "hub/fetch.h"
#include "hub/names.h"

namespace gemmatrace::hub {
namespace {

namespace fs = std::filesystem;

constexpr int kMostJobs = 64;
constexpr int kMostRetries = 1000;
constexpr uint64_t kSpareBytes = uint64_t{256} << 20;  // stays free for everything else on that disk
constexpr auto kShowPause = std::chrono::milliseconds(100);
constexpr auto kSleepStep = std::chrono::milliseconds(50);

FetchContext fetch_context(const Settings& settings, int retries, std::function<bool()> should_stop,
                           std::function<void(const std::string&)> note) {
    FetchContext context{.settings = settings, .retry = {}, .check_stop = {}};
    context.check_stop = [should_stop] {
        if (should_stop()) throw Error(ErrorCode::interrupted, "interrupted");
    };
    context.retry.tries_more = retries;
    context.retry.note = std::move(note);
    context.retry.sleep = [check = context.check_stop](double seconds) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
        while (std::chrono::steady_clock::now() < end) {
            check();
            std::this_thread::sleep_for(kSleepStep);
        }
        check();
    };
    return context;
}

std::function<bool()> stop_question(const PullControl& control) {
    if (control.should_stop) return control.should_stop;
    return [] { return false; };
}

std::unique_ptr<Transport> new_transport(const PullControl& control, const Settings& settings,
                                         std::function<bool()> should_stop) {
    if (control.make_transport) return control.make_transport(settings, std::move(should_stop));
    return make_transport(settings, std::move(should_stop));
}

uint64_t size_or_zero(const fs::path& path) {
    std::error_code failure;
    const auto bytes = fs::file_size(path, failure);
    return failure ? 0 : bytes;
}

void check_disk(const PullPlan& plan) {
    const uint64_t bytes = plan.bytes_to_fetch();
    if (bytes == 0) return;
    std::error_code failure;
    fs::path place = fs::absolute(plan.store->place(plan.files.front().file).incomplete, failure);
    while (!fs::exists(place, failure) && place.has_relative_path()) place = place.parent_path();
    const fs::space_info space = fs::space(place, failure);
    if (failure || space.available >= bytes + kSpareBytes) return;  // a disk that does not say is tried
    throw Error(ErrorCode::resource, fmt::format("the disk cannot hold '{}'", plan.manifest.repository),
                {{"folder", place.string()},
                 {"needed", format_bytes(bytes + kSpareBytes)},
                 {"available", format_bytes(space.available)}},
                "free some disk, or choose another with HF_HUB_CACHE or --local-dir");
}

// The files of a plan, handed out to threads; what happens to one of them stops the others.
class PullWork {
  public:
    PullWork(const PullPlan& plan, const PullRequest& request, const Settings& settings, const PullControl& control)
        : plan_(plan),
          settings_(settings),
          control_(control),
          context_(fetch_context(
              settings, request.retries, [this] { return should_stop(); },
              [this](const std::string& text) { add_note(text); })) {
        for (const PlannedFile& planned : plan.files) {
            if (!planned.is_there) queue_.push_back(&planned);
        }
        // Small files first: what is wrong shows early. Then the largest, so that none is left to run alone at the end.
        std::stable_sort(queue_.begin(), queue_.end(), [](const PlannedFile* left, const PlannedFile* right) {
            const bool is_left_large = left->file.bytes >= kLarge;
            const bool is_right_large = right->file.bytes >= kLarge;
            if (is_left_large != is_right_large) return is_right_large;
            return is_left_large && left->file.bytes > right->file.bytes;
        });
        jobs_ = std::min<size_t>(static_cast<size_t>(request.jobs), queue_.size());
    }

    // Runs until all is done; throws what stopped it.
    void run() {
        std::vector<std::thread> threads;
        running_ = jobs_;
        try {
            for (size_t job = 0; job < jobs_; ++job) threads.emplace_back([this] { work(); });
        } catch (...) {  // no more threads to be had
            stop_with(std::current_exception());
            const std::lock_guard guard(mutex_);
            running_ -= jobs_ - threads.size();
        }
        show_until_done();
        for (std::thread& thread : threads) thread.join();
        if (failure_) std::rethrow_exception(failure_);
    }

  private:
    static constexpr uint64_t kLarge = uint64_t{16} << 20;

    bool should_stop() const { return has_failed_ || (control_.should_stop && control_.should_stop()); }

    void work() {
        try {
            const auto transport = new_transport(control_, settings_, [this] { return should_stop(); });
            while (const PlannedFile* planned = next()) {
                const bool came =
                    fetch_file(*transport, context_, plan_.manifest, planned->file, *plan_.store, fetched_);
                if (!came) fetched_ += static_cast<int64_t>(planned->file.bytes - planned->partial_bytes);
            }
        } catch (...) {
            stop_with(std::current_exception());
        }
        const std::lock_guard guard(mutex_);
        --running_;
        changed_.notify_all();
    }

    const PlannedFile* next() {
        const std::lock_guard guard(mutex_);
        return has_failed_ || next_ == queue_.size() ? nullptr : queue_[next_++];
    }

    // The first failure counts: those after it only say that they were stopped.
    void stop_with(std::exception_ptr failure) {
        const std::lock_guard guard(mutex_);
        if (!failure_) failure_ = std::move(failure);
        has_failed_ = true;
    }

    void add_note(const std::string& text) {
        const std::lock_guard guard(mutex_);
        notes_.push_back(text);
    }

    // The caller's thread shows what the others do.
    void show_until_done() {
        const uint64_t total = plan_.bytes_to_fetch();
        std::unique_lock guard(mutex_);
        while (true) {
            const bool is_done = changed_.wait_for(guard, kShowPause, [&] { return running_ == 0; });
            std::vector<std::string> notes;
            notes.swap(notes_);
            guard.unlock();
            if (control_.note) std::for_each(notes.begin(), notes.end(), control_.note);
            const auto done = static_cast<uint64_t>(std::max<int64_t>(0, fetched_));
            if (control_.on_progress) control_.on_progress(std::min(done, total), total);
            if (is_done) return;
            guard.lock();
        }
    }

    const PullPlan& plan_;
    const Settings& settings_;
    const PullControl& control_;
    FetchContext context_;
    std::vector<const PlannedFile*> queue_;
    size_t jobs_ = 0;
    std::atomic<int64_t> fetched_ = 0;
    std::atomic<bool> has_failed_ = false;

    std::mutex mutex_;  // guards what follows
    std::condition_variable changed_;
    size_t next_ = 0;
    size_t running_ = 0;
    std::exception_ptr failure_;
    std::vector<std::string> notes_;
};

}  // namespace

void check_request(const PullRequest& request) {
    check_repository_name(request.repository);
    check_revision(request.revision);
    if (request.jobs < 1 || request.jobs > kMostJobs) {
        throw Error(ErrorCode::bad_request, fmt::format("{} files at a time were asked for", request.jobs),
                    {{"field", "--jobs"}}, fmt::format("use 1 to {}", kMostJobs));
    }
    if (request.retries < 0 || request.retries > kMostRetries) {
        throw Error(ErrorCode::bad_request, fmt::format("{} retries were asked for", request.retries),
                    {{"field", "--retries"}}, fmt::format("use 0 to {}", kMostRetries));
    }
}

uint64_t PullPlan::bytes_to_fetch() const {
    uint64_t bytes = 0;
    for (const PlannedFile& planned : files) {
        if (!planned.is_there) bytes += planned.file.bytes - planned.partial_bytes;
    }
    return bytes;
}

size_t PullPlan::files_to_fetch() const {
    return static_cast<size_t>(
        std::count_if(files.begin(), files.end(), [](const PlannedFile& planned) { return !planned.is_there; }));
}

PullPlan plan_pull(const PullRequest& request, const Settings& settings, const PullControl& control) {
    check_request(request);
    if (settings.is_offline) {
        throw Error(ErrorCode::not_found,
                    fmt::format("'{}' is not here, and the hub may not be asked", request.repository),
                    {{"repo", request.repository}, {"revision", request.revision}}, "unset HF_HUB_OFFLINE to fetch it");
    }
    const auto should_stop = stop_question(control);
    const FetchContext context = fetch_context(settings, request.retries, should_stop, [&](const std::string& text) {
        if (control.note) control.note(text);
    });
    PullPlan plan;
    plan.store = request.local_folder ? make_folder_store(*request.local_folder)
                                      : make_cache_store(settings.cache, request.repository);
    const auto transport = new_transport(control, settings, should_stop);
    plan.manifest = fetch_manifest(*transport, context, request.repository, request.revision);
    plan.directory = plan.store->directory(plan.manifest);
    for (const RemoteFile& file : plan.manifest.files) {
        PlannedFile planned{.file = file};
        planned.is_there = plan.store->has(file, context.check_stop);
        const uint64_t partial = planned.is_there ? 0 : size_or_zero(plan.store->place(file).incomplete);
        if (partial <= file.bytes) planned.partial_bytes = partial;  // what is longer will be dropped
        plan.files.push_back(std::move(planned));
    }
    return plan;
}

fs::path run_pull(const PullPlan& plan, const PullRequest& request, const Settings& settings,
                  const PullControl& control) {
    check_disk(plan);
    PullWork(plan, request, settings, control).run();
    plan.store->publish(plan.manifest);
    if (!is_whole_checkpoint(plan.directory)) {
        throw Error(ErrorCode::corrupt,
                    fmt::format("'{}' is no whole checkpoint: its index names weights that it does not hold",
                                plan.manifest.repository),
                    {{"folder", plan.directory.string()}, {"commit", plan.manifest.commit}},
                    "choose another revision, or tell its authors");
    }
    return plan.directory;
}

}  // namespace gemmatrace::hub
