// Writing with every failure seen.
#include "cli/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace gemmatrace::cli {
namespace {

// Answers 0 or the errno of the failure.
int write_all(int descriptor, std::string_view text) {
    while (!text.empty()) {
        const ssize_t written = ::write(descriptor, text.data(), text.size());
        if (written < 0) {
            if (errno == EINTR) continue;
            return errno;
        }
        text.remove_prefix(static_cast<size_t>(written));
    }
    return 0;
}

}  // namespace

bool write_out(std::string_view text) {
    const int failure = write_all(STDOUT_FILENO, text);
    if (failure == 0) return true;
    if (failure == EPIPE) return false;
    throw Error(ErrorCode::resource, std::string("cannot write to standard output: ") + std::strerror(failure), {},
                "check that the disk is not full and the output is open");
}

void write_error(std::string_view text) { write_all(STDERR_FILENO, text); }

bool is_terminal_out() { return ::isatty(STDOUT_FILENO) == 1; }

bool is_terminal_in() { return ::isatty(STDIN_FILENO) == 1; }

bool may_style_out() {
    const char* no_color = std::getenv("NO_COLOR");
    const char* terminal = std::getenv("TERM");
    const bool is_dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
    return is_terminal_out() && !is_dumb && (no_color == nullptr || *no_color == '\0');
}

}  // namespace gemmatrace::cli
