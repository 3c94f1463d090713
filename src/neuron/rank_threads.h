// A thread for each rank, which all do the same things in the same order: ranks meet when they load and when they
// execute, and wait for ever for one that does not come.
#pragma once

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "neuron/watchdog.h"

namespace gemmatrace::neuron {

// The runtime keeps buffers of 4 MiB on the stack of whoever calls it.
inline constexpr size_t kRankStackBytes = size_t{16} << 20;
// After a rank has failed, the others have so long to come back.
inline constexpr double kPeerSeconds = 2.0;

class RankThreads;

// What a rank's command is given.
class RankTurn {
  public:
    RankTurn(RankThreads& threads, int32_t rank) : threads_(threads), rank_(rank) {}
    int32_t rank() const { return rank_; }
    // Says what the rank does now, for the message when it does not come back; the text must outlive the process.
    void says(const char* call);
    // Waits until every rank of the round is here. False when one has failed, so that none of them goes on.
    bool meet();

  private:
    RankThreads& threads_;
    int32_t rank_;
};

// One thread calls.
class RankThreads {
  public:
    using Command = std::function<void(RankTurn& turn)>;

    // Throws Error(resource) when a thread cannot be had. The watchdog must outlive it.
    RankThreads(int32_t ranks, const Watchdog& watchdog);
    // Waits for what runs.
    ~RankThreads();
    RankThreads(const RankThreads&) = delete;
    RankThreads& operator=(const RankThreads&) = delete;

    int32_t ranks() const { return static_cast<int32_t>(threads_.size()); }

    // Begins a round: every rank runs the command once. what: for messages, e.g. "decode_c512". Asks for no round to be
    // under way.
    void start(std::string what, double deadline_seconds, Command command);
    bool is_running() const { return is_running_; }
    // Waits for the round, if there is one, and throws the Error of the lowest rank that failed. When the deadline is
    // over, or a rank failed and others do not come back, the watchdog ends the process with their names.
    void wait();
    void run(std::string what, double deadline_seconds, Command command) {
        start(std::move(what), deadline_seconds, std::move(command));
        wait();
    }

  private:
    friend class RankTurn;
    struct Rank {
        pthread_t thread = {};
        RankThreads* owner = nullptr;
        int32_t number = 0;
        std::atomic<const char*> call{""};
        uint64_t done_round = 0;
        std::optional<Error> failure;
    };

    static void* enter(void* rank);
    void work(Rank& rank);
    void perform(Rank& rank);
    bool meet(Rank& rank);
    bool is_done() const;
    const Rank* first_failed() const;
    Error hang() const;
    Error failure_with_peers(const Rank& failed) const;
    std::string those_missing() const;

    const Watchdog& watchdog_;
    std::vector<std::unique_ptr<Rank>> threads_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    uint64_t round_ = 0;
    bool is_over_ = false;
    bool is_running_ = false;
    bool has_failed_ = false;
    int32_t met_ = 0;
    uint64_t meetings_ = 0;
    std::string what_;
    double deadline_seconds_ = 0.0;
    Command command_;
};

}  // namespace gemmatrace::neuron
