// Counting choices down to the end of an answer.
#include "server/reply_stream.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace gemmatrace::server {

std::string event_text(const nlohmann::ordered_json& data, std::string_view name) {
    if (name.empty()) return fmt::format("data: {}\n\n", dump_json(data));
    return fmt::format("event: {}\ndata: {}\n\n", name, dump_json(data));
}

HttpResponse event_stream_head() {
    HttpResponse head;
    head.content_type = "text/event-stream";
    head.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
    return head;
}

std::string_view finish_reason_name(ChoiceEnd::Reason reason) {
    switch (reason) {
        case ChoiceEnd::Reason::length:
            return "length";
        case ChoiceEnd::Reason::tool_calls:
            return "tool_calls";
        case ChoiceEnd::Reason::cancelled:
            return "cancelled";
        default:
            return "stop";
    }
}

void DialectReply::begin_locked() {
    if (has_begun_) return;
    has_begun_ = true;
    open();
}

void DialectReply::begin() {
    const std::lock_guard lock(mutex_);
    if (!is_over_) begin_locked();
}

void DialectReply::on_placed(int32_t choice, int64_t cached_tokens) {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    begin_locked();
    add_placed(choice, cached_tokens);
}

void DialectReply::on_prompt(int32_t choice, const std::vector<engine::GeneratedToken>& tokens) {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    begin_locked();
    add_prompt(choice, tokens);
}

void DialectReply::on_token(int32_t choice, const TokenText& token) {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    begin_locked();
    add_token(choice, token);
}

void DialectReply::on_piece(int32_t choice, const text::ReplyPiece& piece) {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    begin_locked();
    add_piece(choice, piece);
}

void DialectReply::on_end(int32_t choice, const ChoiceEnd& end) {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    begin_locked();
    const engine::RequestStatistics& figures = end.statistics;
    if (choice % choices_per_prompt_ == 0) {
        outcome_.prompt_tokens += figures.prompt_tokens;
        outcome_.cached_tokens += figures.cached_tokens;
    }
    if (outcome_.finish_reason.empty()) {
        outcome_.finish_reason = finish_reason_name(end.reason);
        outcome_.queue_seconds = figures.queue_seconds;
        outcome_.prefill_seconds = figures.prefill_seconds;
        outcome_.decode_seconds = figures.decode_seconds;
    }
    outcome_.completion_tokens += figures.generated_tokens;
    outcome_.reasoning_tokens += end.reasoning_tokens;
    add_end(choice, end);
    if (--open_choices_ > 0) return;
    is_over_ = true;
    if (on_outcome_) on_outcome_(outcome_);
    close();
}

void DialectReply::on_error(int32_t, const Error& error) {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    is_over_ = true;
    outcome_.finish_reason = "error";
    outcome_.error = error_code_name(error.code());
    if (on_outcome_) on_outcome_(outcome_);
    fail(error);
}

}  // namespace gemmatrace::server
