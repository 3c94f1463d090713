// The one exception family of the program: a code, what happened, where, and what to do about it.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gemmatrace {

// What kind of thing went wrong; decides the exit code of a command and the status of a response.
enum class ErrorCode {
    bad_request,  // the caller's input is wrong
    too_long,     // more tokens than the model or the slot holds
    not_found,    // a file, tensor or model that is not there
    unsupported,  // valid, but not for this model, backend or build
    mismatch,     // two things that must agree do not
    corrupt,      // a file or stream is damaged
    overloaded,   // queue full, try again later
    not_ready,    // loading or draining
    resource,     // memory or disk
    device,       // runtime or hardware
    timeout,
    interrupted,  // the user asked to stop
    internal,     // our bug
};

// The code's name as users and scripts read it, e.g. "not_found".
std::string_view error_code_name(ErrorCode code);

// The exit status a command ends with for this code.
int exit_status(ErrorCode code);

// Thrown where a fault is found, enriched on the way up, caught only at a command's or request's boundary.
class Error : public std::exception {
  public:
    using Context = std::vector<std::pair<std::string, std::string>>;

    // message: what happened, one clear sentence without a trailing newline; context: where (file, tensor, field, …);
    // remedy: one sentence that the user can act on, may be empty.
    Error(ErrorCode code, std::string message, Context context = {}, std::string remedy = {});

    // Adds one more "where" to an error on its way up; an existing key is kept. Returns *this for `throw`.
    Error& add_context(std::string key, std::string value);

    ErrorCode code() const noexcept { return code_; }
    const std::string& message() const noexcept { return message_; }
    const Context& context() const noexcept { return context_; }
    const std::string& remedy() const noexcept { return remedy_; }
    // Message, context and remedy in one line.
    const char* what() const noexcept override { return text_.c_str(); }

  private:
    void build_text();

    ErrorCode code_;
    std::string message_;
    Context context_;
    std::string remedy_;
    std::string text_;
};

// Guards a programmer's assumption (never user data): throws Error(internal) naming the place when it does not hold.
// (The builtins stand for std::source_location, which clang 14 does not have.)
void require(bool condition, std::string_view assumption, const char* file = __builtin_FILE(),
             int line = __builtin_LINE());

}  // namespace gemmatrace
