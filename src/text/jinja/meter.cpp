// The limits' errors, in the words of the limit that was met.
#include "text/jinja/meter.h"

#include <fmt/format.h>

#include "base/error.h"
#include "text/chat_template.h"

namespace gemmatrace::text::jinja {

namespace {

// Statements and expressions may nest this many times deeper than calls: a call is some ten nodes deep in real
// templates.
constexpr int kNodesPerCall = 16;

}  // namespace

void fail(std::string message) { throw Error(ErrorCode::bad_request, std::move(message)); }

Meter::Meter(const TemplateLimits& limits)
    : max_steps_(limits.max_steps),
      steps_left_(limits.max_steps),
      max_text_bytes_(limits.max_output_bytes),
      max_live_bytes_(limits.max_value_bytes),
      max_calls_(limits.max_depth),
      max_nodes_(limits.max_depth * kNodesPerCall) {}

void Meter::fail_steps() {
    steps_left_ = 0;
    throw Error(ErrorCode::bad_request, fmt::format("the chat template did not finish within {} steps", max_steps_), {},
                "Send a shorter conversation, or look for an endless loop in the template.");
}

void Meter::fail_text_size(size_t bytes) const {
    throw Error(
        ErrorCode::bad_request,
        fmt::format("the chat template made a text of {} bytes; at most {} are allowed", bytes, max_text_bytes_), {},
        "Send a shorter conversation.");
}

void Meter::fail_memory() {
    throw Error(ErrorCode::bad_request,
                fmt::format("the chat template holds more than {} MiB of values", max_live_bytes_ >> 20), {},
                "Send a shorter conversation.");
}

void Meter::fail_depth() const {
    throw Error(ErrorCode::bad_request,
                fmt::format("calls, values or expressions are nested deeper than {} levels", max_calls_), {},
                "Look for a macro that calls itself without end, or send less deeply nested data.");
}

}  // namespace gemmatrace::text::jinja
