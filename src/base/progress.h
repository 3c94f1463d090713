// How far long work has come, on standard error: a line that is rewritten on a terminal, a plain line now and then
// where output goes to a file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace gemmatrace {

// Bytes as people read them, in powers of ten: "512 B", "9.26 GB".
std::string format_bytes(uint64_t bytes);

// Seconds as people read them: "0.4 s", "12 s", "3 min 05 s", "2 h 10 min".
std::string format_duration(double seconds);

// The text of a progress line, e.g. "writing weights: 2.10 GB of 9.26 GB (22 %), 850 MB/s, 8 s left". No time left is
// promised before half a second has passed.
std::string progress_text(std::string_view what, uint64_t done_bytes, uint64_t total_bytes, double seconds);

// Where progress goes and what time it is; replaced in tests.
struct ProgressOutput {
    bool is_terminal = false;
    std::function<double()> now;  // seconds on a clock that never goes back
    std::function<void(std::string_view)> write;
};
ProgressOutput standard_error_output();

// Shows the progress of one piece of work. Not for use from several threads.
class Progress {
  public:
    Progress(std::string what, uint64_t total_bytes, ProgressOutput output = standard_error_output());
    ~Progress();  // takes an unfinished line off the terminal
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    // Shows the new state: on a terminal at most ten times a second, elsewhere every ten seconds.
    void update(uint64_t done_bytes);
    // Leaves one last line with the total, the time and the rate.
    void finish();

  private:
    std::string what_;
    uint64_t total_bytes_;
    ProgressOutput output_;
    double start_;
    double shown_at_;
    bool is_line_open_ = false;
};

}  // namespace gemmatrace
