// Progress lines: their wording, and when they are written.
#include "base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

namespace gemmatrace {
namespace {

constexpr double kTerminalPause = 0.1;  // seconds between two lines
constexpr double kFilePause = 10.0;
constexpr std::string_view kClearLine = "\r\x1b[K";

}  // namespace

std::string format_bytes(uint64_t bytes) {
    constexpr std::array<std::string_view, 4> kUnits{"kB", "MB", "GB", "TB"};
    if (bytes < 1000) return fmt::format("{} B", bytes);
    double value = static_cast<double>(bytes) / 1000.0;
    size_t unit = 0;
    while (value >= 999.5 && unit + 1 < kUnits.size()) {
        value /= 1000.0;
        ++unit;
    }
    const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    return fmt::format("{:.{}f} {}", value, decimals, kUnits[unit]);
}

std::string format_duration(double seconds) {
    if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
    const auto whole = static_cast<int64_t>(std::llround(seconds));
    if (whole < 60) return fmt::format("{} s", whole);
    if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
    return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

std::string progress_text(std::string_view what, uint64_t done_bytes, uint64_t total_bytes, double seconds) {
    const double share = total_bytes == 0 ? 1.0 : static_cast<double>(done_bytes) / static_cast<double>(total_bytes);
    std::string text = fmt::format("{}: {} of {} ({:.0f} %)", what, format_bytes(done_bytes), format_bytes(total_bytes),
                                   std::floor(share * 100.0));
    if (seconds < 0.5 || done_bytes == 0) return text;
    const double rate = static_cast<double>(done_bytes) / seconds;
    const double left = static_cast<double>(total_bytes - std::min(done_bytes, total_bytes)) / rate;
    text += fmt::format(", {}/s, {} left", format_bytes(static_cast<uint64_t>(rate)), format_duration(left));
    return text;
}

ProgressOutput standard_error_output() {
    ProgressOutput output;
    output.is_terminal = ::isatty(STDERR_FILENO) == 1;
    output.now = [] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    };
    output.write = [](std::string_view text) {
        // Nobody is left to tell when standard error fails.
        [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
    };
    return output;
}

Progress::Progress(std::string what, uint64_t total_bytes, ProgressOutput output)
    : what_(std::move(what)),
      total_bytes_(total_bytes),
      output_(std::move(output)),
      start_(output_.now()),
      shown_at_(output_.is_terminal ? -std::numeric_limits<double>::infinity() : start_) {}

Progress::~Progress() {
    if (is_line_open_) output_.write(kClearLine);
}

void Progress::update(uint64_t done_bytes) {
    const double now = output_.now();
    if (now - shown_at_ < (output_.is_terminal ? kTerminalPause : kFilePause)) return;
    shown_at_ = now;
    const std::string text = progress_text(what_, done_bytes, total_bytes_, now - start_);
    if (output_.is_terminal) {
        output_.write(fmt::format("{}{}", kClearLine, text));
        is_line_open_ = true;
    } else {
        output_.write(text + "\n");
    }
}

void Progress::finish() {
    const double seconds = output_.now() - start_;
    const auto rate = static_cast<uint64_t>(static_cast<double>(total_bytes_) / std::max(seconds, 1e-3));
    output_.write(fmt::format("{}{}: {} in {}, {}/s\n", output_.is_terminal ? kClearLine : "", what_,
                              format_bytes(total_bytes_), format_duration(seconds), format_bytes(rate)));
    is_line_open_ = false;
}

}  // namespace gemmatrace
