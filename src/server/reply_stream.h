// The answer to one request as a stream of server-sent events or as one document; the dialects fill it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "server/generation.h"
#include "server/http_message.h"

namespace gemmatrace::server {

// "data: {…}\n\n", with "event: name\n" before it when a name is given.
std::string event_text(const nlohmann::ordered_json& data, std::string_view name = {});

// What a request came to, for the log and the metrics.
struct RequestOutcome {
    std::string finish_reason;  // of the first choice, or "error"
    std::string error;          // the error's code word
    int64_t prompt_tokens = 0;
    int64_t cached_tokens = 0;
    int64_t completion_tokens = 0;
    int64_t reasoning_tokens = 0;
    double queue_seconds = 0.0;
    double prefill_seconds = 0.0;
    double decode_seconds = 0.0;
};
// Told once, before the end of the answer is written.
using OutcomeListener = std::function<void(const RequestOutcome&)>;

// Collects what all dialects need: statistics of all choices, when the last one ended, and the outcome. A dialect
// derives from it and writes its own form. All calls come under one lock, so begin() may run on another thread than the
// engine's.
class DialectReply : public ReplySink, public std::enable_shared_from_this<DialectReply> {
  public:
    // choices_per_prompt: that many choices in a row have one prompt, whose tokens count once.
    DialectReply(std::shared_ptr<ResponseWriter> writer, int32_t choices, OutcomeListener on_outcome,
                 int32_t choices_per_prompt = INT32_MAX)
        : writer_(std::move(writer)),
          open_choices_(choices),
          choices_per_prompt_(choices_per_prompt),
          on_outcome_(std::move(on_outcome)) {}

    // Once the job was taken: opens a stream, if it is one. Also called by the first event.
    void begin();

    void on_placed(int32_t choice, int64_t cached_tokens) final;
    void on_prompt(int32_t choice, const std::vector<engine::GeneratedToken>& tokens) final;
    void on_token(int32_t choice, const TokenText& token) final;
    void on_piece(int32_t choice, const text::ReplyPiece& piece) final;
    void on_end(int32_t choice, const ChoiceEnd& end) final;
    void on_error(int32_t choice, const Error& error) final;

  protected:
    // Each under the lock, begun before, and none after fail().
    virtual void open() {}
    virtual void add_placed(int32_t choice, int64_t cached_tokens) {
        (void)choice;
        (void)cached_tokens;
    }
    virtual void add_prompt(int32_t, const std::vector<engine::GeneratedToken>&) {}
    virtual void add_token(int32_t, const TokenText&) {}
    virtual void add_piece(int32_t choice, const text::ReplyPiece& piece) = 0;
    virtual void add_end(int32_t choice, const ChoiceEnd& end) = 0;
    // All choices have ended: send what is left and end the answer.
    virtual void close() = 0;
    // The request failed: as a response of its own, or inside a stream.
    virtual void fail(const Error& error) = 0;

    const RequestOutcome& outcome() const { return outcome_; }
    ResponseWriter& writer() { return *writer_; }

  private:
    void begin_locked();
    void finish_locked();

    std::mutex mutex_;
    std::shared_ptr<ResponseWriter> writer_;
    int32_t open_choices_;
    int32_t choices_per_prompt_;
    OutcomeListener on_outcome_;
    RequestOutcome outcome_;
    bool has_begun_ = false;
    bool is_over_ = false;
};

// The headers of an event stream.
HttpResponse event_stream_head();

std::string_view finish_reason_name(ChoiceEnd::Reason reason);

}  // namespace gemmatrace::server
