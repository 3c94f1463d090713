// The runtime of this process: opened, told which cores are ours, started, and called on a thread of each rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "neuron/nrt_abi.h"
#include "neuron/nrt_host.h"
#include "neuron/nrt_library.h"
#include "neuron/rank_threads.h"
#include "neuron/watchdog.h"

namespace gemmatrace::neuron {

// Opens the library and sees that the machine has the cores. Throws as make_neuron_device does; takes no core.
NrtLibrary open_for(const CoreRange& cores);

// One thread calls. Rounds follow each other; the one that runs is waited for before the next.
class NrtRuntime {
  public:
    using Command = RankThreads::Command;

    // Starts the runtime. Throws as make_neuron_device does.
    NrtRuntime(int32_t ranks, const std::string& cores, double timeout_seconds, Watchdog::End end);
    NrtRuntime(const NrtRuntime&) = delete;
    NrtRuntime& operator=(const NrtRuntime&) = delete;

    int32_t ranks() const { return threads_.ranks(); }
    const NrtLibrary& library() const { return library_; }
    const abi::Functions& call() const { return library_.call(); }
    const CoreRange& cores() const { return cores_; }

    // Begins a round after waiting for the one before. what: for messages; patience: how many times as long as a step
    // it may take. Throws what the round before met, or the reason when the runtime was abandoned.
    void begin(const std::string& what, double patience, Command command);
    // Waits for the round. A fault after which the cores cannot be trusted abandons the runtime.
    void finish();
    void run(const std::string& what, double patience, Command command) {
        begin(what, patience, std::move(command));
        finish();
    }
    bool is_running() const { return threads_.is_running(); }

    // Every later round throws the reason, and a moment later the watchdog ends the process, unless it ends by itself.
    void abandon(const Error& reason);
    bool is_abandoned() const { return reason_.has_value(); }

    // On a rank's thread: throws error_of(…) for a status that is not success.
    void check(const RankTurn& turn, const char* function, const std::string& subject, abi::Status status);
    // Gives the cores back: `free_rank` frees what a rank has, then the runtime is closed. Never throws.
    void close(const Command& free_rank) noexcept;

  private:
    void start_runtime();

    CoreRange cores_;
    double timeout_seconds_;
    NrtLibrary library_;
    Watchdog watchdog_;
    std::atomic<bool> is_fatal_{false};
    std::atomic<bool> has_failed_execution_{false};
    std::optional<Error> reason_;
    RankThreads threads_;
};

}  // namespace gemmatrace::neuron
