// Reading messages and writing replies.
#include "cli/terminal.h"

#include <fmt/format.h>

#include "cli/output.h"

namespace gemmatrace::cli {
namespace {

constexpr std::string_view kFence = "\"\"\"";
constexpr std::string_view kDim = "\x1b[2m";
constexpr std::string_view kPlain = "\x1b[0m";

// Text without the control characters that a terminal acts on: C0 but newline and tab, delete, and C1, which UTF-8
// writes as C2 followed by 80 to 9F.
std::string without_controls(std::string_view text) {
    std::string harmless;
    harmless.reserve(text.size());
    for (size_t at = 0; at < text.size(); ++at) {
        const auto byte = static_cast<unsigned char>(text[at]);
        const auto next = static_cast<unsigned char>(at + 1 < text.size() ? text[at + 1] : 0);
        if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {
            ++at;
        } else if ((byte >= 0x20 && byte != 0x7f) || byte == '\n' || byte == '\t') {
            harmless += text[at];
        }
    }
    return harmless;
}

}  // namespace

LineReader::Status MessageReader::next_line(std::string& line, std::string_view prompt) {
    if (is_terminal_in() && is_terminal_out()) write_out(prompt);
    return lines_.next(line);
}

LineReader::Status MessageReader::next(std::string& message) {
    std::string line;
    auto status = next_line(line, "> ");
    message = line;
    if (status != LineReader::Status::line) return status;
    if (message.starts_with(kFence)) {
        message.erase(0, kFence.size());
        size_t end = message.find(kFence);
        while (end == std::string::npos) {
            status = next_line(line, ". ");
            if (status == LineReader::Status::interrupted) return status;
            if (status == LineReader::Status::end) return LineReader::Status::line;  // an unclosed message still counts
            message += "\n" + line;
            end = message.find(kFence);
        }
        message.erase(end);
        if (message.starts_with('\n')) message.erase(0, 1);
        if (message.ends_with('\n')) message.pop_back();
        return LineReader::Status::line;
    }
    while (message.ends_with('\\')) {
        message.back() = '\n';
        status = next_line(line, ". ");
        if (status == LineReader::Status::interrupted) return status;
        if (status == LineReader::Status::end) break;
        message += line;
    }
    return LineReader::Status::line;
}

ReplyWriter::ReplyWriter() : is_terminal_(is_terminal_out()), has_style_(may_style_out()) {}

void ReplyWriter::answer(std::string_view text) {
    set_dim(false);
    write(text);
}

void ReplyWriter::aside(std::string_view text) {
    set_dim(true);
    write(text);
}

void ReplyWriter::end_line() {
    set_dim(false);
    if (is_line_open_) write("\n");
}

void ReplyWriter::set_dim(bool is_dim) {
    if (is_dim == is_dim_) return;
    is_dim_ = is_dim;
    if (has_style_ && !is_reader_gone_) is_reader_gone_ = !write_out(is_dim ? kDim : kPlain);
}

void ReplyWriter::write(std::string_view text) {
    if (text.empty() || is_reader_gone_) return;
    is_line_open_ = text.back() != '\n';
    is_reader_gone_ = !(is_terminal_ ? write_out(without_controls(text)) : write_out(text));
}

std::string tool_call_line(const text::ReplyPiece& call) {
    return fmt::format("[call:{}{}]\n", call.name, call.arguments);
}

}  // namespace gemmatrace::cli
