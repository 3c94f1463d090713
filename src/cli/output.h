// Standard output and standard error of a command: every byte written or the reason known.
#pragma once

#include <string_view>

namespace gemmatrace::cli {

// Writes to standard output at once, without a buffer of ours. Answers false when the reader has gone (a closed pipe):
// the command should then stop quietly. Throws Error(resource) for any other failure, e.g. a full disk.
bool write_out(std::string_view text);

// Writes to standard error; failures are ignored, there is nobody left to tell.
void write_error(std::string_view text);

bool is_terminal_out();
bool is_terminal_in();

// Whether text on standard output may be dimmed: a terminal that is not dumb, and no NO_COLOR in the environment.
bool may_style_out();

}  // namespace gemmatrace::cli
