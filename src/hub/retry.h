// Trying again: which failures of a transfer may pass, how long to wait, and which error each becomes when they do not.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/error.h"
#include "hub/transport.h"

namespace gemmatrace::hub {

// What a transfer was about, for errors.
struct Subject {
    std::string endpoint;
    std::string repository;
    std::string revision;
    std::string file;  // empty: the repository itself
    bool has_token = false;
};

struct RetryPolicy {
    int tries_more = 5;         // after a try that brought nothing
    double first_wait_s = 0.5;  // doubled with each
    double longest_wait_s = 30.0;
    double longest_asked_s = 120.0;     // a server that asks for more (Retry-After) is told to the user instead
    std::function<void(double)> sleep;  // throws Error(interrupted) when the program should stop
    std::function<void(const std::string&)> note;  // tells the user about a wait; may be called from any thread
};

// The error that a transfer amounts to, or nothing when its answer can be used (200, 206; 416 is left to the caller).
std::optional<Error> transfer_error(const TransferResult& result, const Subject& subject);

// Whether the same request may succeed later: lost connections, 408, 429 and 5xx.
bool may_pass(const TransferResult& result);

// Seconds the server asks to wait (Retry-After: seconds, or a date seen from `now`, seconds since 1970); nothing when
// it does not say or says nonsense.
std::optional<double> asked_wait_s(const HttpReply& reply, double now);

// One request's patience.
class Patience {
  public:
    Patience(const RetryPolicy& policy, Subject subject) : policy_(policy), subject_(std::move(subject)) {}

    // Returns when the next try may begin; throws the error of `result` when it will not pass or the tries are used up.
    void wait_or_throw(const TransferResult& result);
    // The last try brought something new, so the next failure counts as the first.
    void progressed() { failures_ = 0; }

  private:
    const RetryPolicy& policy_;
    Subject subject_;
    int failures_ = 0;
    int all_failures_ = 0;
};

}  // namespace gemmatrace::hub
