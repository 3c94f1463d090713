// How the process ends when a rank cannot be waited for: the others would wait for it for ever.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "base/error.h"

namespace gemmatrace::neuron {

// The exit status of a process that the watchdog ended. A new start is the remedy, so a service manager should try one.
inline constexpr int kWatchdogStatus = 76;

// Writes the error to standard error and ends the process at once: nothing is destroyed, for threads of the runtime may
// be stuck; the system frees the cores.
[[noreturn]] void end_process(const Error& error);

class Watchdog {
  public:
    using End = std::function<void(const Error&)>;

    // end: what ends the process; replaced in tests.
    explicit Watchdog(End end = end_process) : end_(std::move(end)) {}
    // A process that ends in order before its time is up is left alone.
    ~Watchdog();
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;

    void end(const Error& error) const { end_(error); }
    // The same in so many seconds, so that whoever waits for an answer gets an error first. The first call counts.
    void end_in(double seconds, const Error& error);

  private:
    End end_;
    std::mutex mutex_;
    std::condition_variable is_over_changed_;
    bool is_over_ = false;
    std::thread timer_;
};

}  // namespace gemmatrace::neuron
