// The timer is a thread that exists only once something has failed.
#include "neuron/watchdog.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <string>

namespace gemmatrace::neuron {

void end_process(const Error& error) {
    std::string text = fmt::format("error: {}\n  code: {}\n", error.message(), error_code_name(error.code()));
    for (const auto& [key, value] : error.context()) text += fmt::format("  {}: {}\n", key, value);
    if (!error.remedy().empty()) text += fmt::format("  remedy: {}\n", error.remedy());
    text +=
        fmt::format("the process ends with status {}: what it shares with the accelerator is lost\n", kWatchdogStatus);
    const char* bytes = text.data();
    size_t left = text.size();
    while (left > 0) {
        const ssize_t count = ::write(STDERR_FILENO, bytes, left);
        if (count <= 0) break;
        bytes += count;
        left -= static_cast<size_t>(count);
    }
    ::_exit(kWatchdogStatus);
}

Watchdog::~Watchdog() {
    {
        const std::lock_guard lock(mutex_);
        is_over_ = true;
    }
    is_over_changed_.notify_all();
    if (timer_.joinable()) timer_.join();
}

void Watchdog::end_in(double seconds, const Error& error) {
    const std::lock_guard lock(mutex_);
    if (timer_.joinable()) return;
    const auto time =
        std::chrono::steady_clock::now() +
        std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
    timer_ = std::thread([this, time, error] {
        std::unique_lock waiting(mutex_);
        if (!is_over_changed_.wait_until(waiting, time, [this] { return is_over_; })) end_(error);
    });
}

}  // namespace gemmatrace::neuron
