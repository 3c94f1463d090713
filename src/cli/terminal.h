// The terminal of a conversation: whole messages in, styled and harmless text out.
#pragma once

#include <string>
#include <string_view>

#include "cli/input.h"
#include "text/reply_parser.h"

namespace gemmatrace::cli {

// Reads what the user says. A line that ends in a backslash goes on in the next one; a line that begins with """ opens
// a message that ends with the next """. Shows a prompt when standard input is a terminal.
class MessageReader {
  public:
    LineReader::Status next(std::string& message);

  private:
    LineReader::Status next_line(std::string& line, std::string_view prompt);

    LineReader lines_;
};

// Writes a reply as it streams. On a terminal, asides (thinking, calls, remarks) are dimmed if the terminal can, and
// control characters of the text are left out, because a model must not move the cursor or rename the window.
class ReplyWriter {
  public:
    ReplyWriter();

    void answer(std::string_view text);
    void aside(std::string_view text);
    // Ends the reply's line, if one is open.
    void end_line();

    bool is_reader_gone() const { return is_reader_gone_; }

  private:
    void set_dim(bool is_dim);
    void write(std::string_view text);

    bool is_terminal_;
    bool has_style_;
    bool is_dim_ = false;
    bool is_line_open_ = false;
    bool is_reader_gone_ = false;
};

// A tool call as a line for people: [call:NAME{"key":value}].
std::string tool_call_line(const text::ReplyPiece& call);

}  // namespace gemmatrace::cli
