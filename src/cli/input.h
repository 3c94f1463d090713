// What commands read: standard input as bytes, lists of token ids, lines of a batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gemmatrace::cli {

// All of standard input, byte for byte. Throws Error(bad_request) with `how_to` as the remedy when it is a terminal
// (nobody would know that the program waits), Error(interrupted) on Ctrl-C, Error(resource) above 1 GiB.
std::string read_standard_input(const std::string& how_to);

// Reads standard input line by line; a last line without a newline counts. One reader a process.
class LineReader {
  public:
    enum class Status { line, end, interrupted };

    // The next line without its newline. `interrupted`: Ctrl-C was pressed while waiting; what was typed is dropped.
    Status next(std::string& line);

  private:
    std::string buffer_;
    size_t start_ = 0;
    bool has_ended_ = false;
};

// Token ids written as numbers separated by spaces, commas or newlines, as a JSON list, or as {"ids": […]}.
// Throws Error(bad_request) naming the entry that is no id.
std::vector<int32_t> parse_ids(std::string_view text, const std::string& what);

}  // namespace gemmatrace::cli
