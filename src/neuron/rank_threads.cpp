// A round has a number; a rank that has done it says so, and one lock guards all that they tell each other.
#include "neuron/rank_threads.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace gemmatrace::neuron {
namespace {

constexpr const char* kWaiting = "waiting for the other ranks";

using RoundClock = std::chrono::steady_clock;

RoundClock::duration of_seconds(double seconds) {
    return std::chrono::duration_cast<RoundClock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

void RankTurn::says(const char* call) { threads_.threads_[static_cast<size_t>(rank_)]->call = call; }
bool RankTurn::meet() { return threads_.meet(*threads_.threads_[static_cast<size_t>(rank_)]); }

RankThreads::RankThreads(int32_t ranks, const Watchdog& watchdog) : watchdog_(watchdog) {
    pthread_attr_t attributes;
    ::pthread_attr_init(&attributes);
    int fault = ::pthread_attr_setstacksize(&attributes, kRankStackBytes);
    for (int32_t number = 0; number < ranks && fault == 0; ++number) {
        auto rank = std::make_unique<Rank>();
        rank->owner = this;
        rank->number = number;
        fault = ::pthread_create(&rank->thread, &attributes, enter, rank.get());
        if (fault == 0) threads_.push_back(std::move(rank));
    }
    ::pthread_attr_destroy(&attributes);
    if (fault == 0) return;
    // The destructor of a half-made object does not run.
    {
        const std::lock_guard lock(mutex_);
        is_over_ = true;
    }
    changed_.notify_all();
    for (const auto& rank : threads_) ::pthread_join(rank->thread, nullptr);
    throw Error(ErrorCode::resource, fmt::format("no thread could be started: {}", std::strerror(fault)), {},
                "raise the limit on threads (ulimit -u) or free memory");
}

RankThreads::~RankThreads() {
    {
        const std::lock_guard lock(mutex_);
        is_over_ = true;
    }
    changed_.notify_all();
    for (const auto& rank : threads_) ::pthread_join(rank->thread, nullptr);
}

void* RankThreads::enter(void* rank) {
    auto& self = *static_cast<Rank*>(rank);
    self.owner->work(self);
    return nullptr;
}

void RankThreads::work(Rank& rank) {
    while (true) {
        {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [&] { return is_over_ || rank.done_round < round_; });
            if (rank.done_round == round_) return;
        }
        perform(rank);
    }
}

void RankThreads::perform(Rank& rank) {
    std::optional<Error> failure;
    RankTurn turn(*this, rank.number);
    try {
        command_(turn);
    } catch (const Error& error) {
        failure = error;
    } catch (const std::exception& fault) {
        failure =
            Error(ErrorCode::internal, fmt::format("an unexpected failure on rank {}: {}", rank.number, fault.what()),
                  {}, "please report this with the command that led to it");
    }
    {
        const std::lock_guard lock(mutex_);
        has_failed_ = has_failed_ || failure.has_value();
        rank.failure = std::move(failure);
        rank.done_round = round_;
        rank.call = "";
    }
    changed_.notify_all();
}

bool RankThreads::meet(Rank& rank) {
    const char* before = rank.call.exchange(kWaiting);
    std::unique_lock lock(mutex_);
    const uint64_t meeting = meetings_;
    if (++met_ == ranks()) {
        met_ = 0;
        ++meetings_;
        changed_.notify_all();
    } else {
        changed_.wait(lock, [&] { return meetings_ != meeting || has_failed_; });
    }
    rank.call = before;
    return meetings_ != meeting;
}

void RankThreads::start(std::string what, double deadline_seconds, Command command) {
    require(!is_running_, "one round at a time");
    {
        const std::lock_guard lock(mutex_);
        what_ = std::move(what);
        deadline_seconds_ = deadline_seconds;
        command_ = std::move(command);
        has_failed_ = false;
        met_ = 0;
        ++round_;
    }
    is_running_ = true;
    changed_.notify_all();
}

bool RankThreads::is_done() const {
    return std::ranges::all_of(threads_, [&](const auto& rank) { return rank->done_round == round_; });
}

const RankThreads::Rank* RankThreads::first_failed() const {
    const auto failed = std::ranges::find_if(
        threads_, [&](const auto& rank) { return rank->done_round == round_ && rank->failure.has_value(); });
    return failed == threads_.end() ? nullptr : failed->get();
}

void RankThreads::wait() {
    if (!is_running_) return;
    std::unique_lock lock(mutex_);
    const bool came_to_something =
        changed_.wait_for(lock, of_seconds(deadline_seconds_), [&] { return has_failed_ || is_done(); });
    if (!came_to_something) watchdog_.end(hang());
    if (!changed_.wait_for(lock, of_seconds(kPeerSeconds), [&] { return is_done(); })) {
        if (const Rank* failed = first_failed()) watchdog_.end(failure_with_peers(*failed));
    }
    // Only behind a watchdog that does not end the process.
    changed_.wait(lock, [&] { return is_done(); });
    is_running_ = false;
    const Rank* failed = first_failed();
    lock.unlock();
    command_ = nullptr;
    if (failed != nullptr) throw Error(*failed->failure);
}

// "rank 1 in nrt_execute", of those that have not come back; those that only wait for the others are not to blame.
std::string RankThreads::those_missing() const {
    std::string text, waiting;
    for (const auto& rank : threads_) {
        if (rank->done_round == round_) continue;
        const char* call = rank->call;
        std::string& list = call == kWaiting ? waiting : text;
        list += fmt::format("{}rank {} in {}", list.empty() ? "" : ", ", rank->number,
                            *call == '\0' ? "its command" : call);
    }
    return text.empty() ? waiting : text;
}

Error RankThreads::hang() const {
    return {ErrorCode::device,
            fmt::format("{} has not come back for {:g} s: {}", what_, deadline_seconds_, those_missing()),
            {{"of", what_},
             {"ranks", std::to_string(ranks())},
             {"deadline_seconds", fmt::format("{:g}", deadline_seconds_)}},
            "start again; if it takes longer by nature raise --device-timeout, if it comes back read the runtime's log "
            "(NEURON_RT_LOG_LEVEL=INFO) and reset the cores (NEURON_RT_RESET_CORES=1)"};
}

Error RankThreads::failure_with_peers(const Rank& failed) const {
    Error error = *failed.failure;
    error.add_context("of", what_);
    error.add_context("still_waiting", those_missing());
    return error;
}

}  // namespace gemmatrace::neuron
