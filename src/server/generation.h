// From a request's ids to the pieces a client sees: text, thinking, tool calls, stop strings, n choices.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "server/service.h"
#include "text/reply_parser.h"

namespace gemmatrace::server {

// What is to be generated, whatever the dialect.
struct GenerationJob {
    engine::Request request;  // the seed of choice k is the request's plus k
    int32_t choices = 1;      // each from the same prompt
    std::vector<std::string> stop_strings;
    // What each choice may say; null, or null from it: anything.
    std::function<std::shared_ptr<engine::TokenFilter>(std::span<const int32_t> prompt_ids)> make_filter;
    bool is_chat = true;             // the reply is read as Gemma 4's turn grammar; otherwise it is plain text
    bool parses_tool_calls = false;  // a request without tools gets calls as text
    bool is_single_call = false;     // the reply ends behind its first tool call
    bool shows_end = false;          // plain text only: end tokens are shown too
};

// One token as logprobs show it.
struct TokenText {
    engine::GeneratedToken token;
    text::TokenRole role = text::TokenRole::content;
};

struct ChoiceEnd {
    // Of the standard's values: stop, length, tool_calls; cancelled when the client left.
    enum class Reason { stop, length, tool_calls, cancelled };
    Reason reason = Reason::stop;
    std::optional<std::string> stop_string;  // that was met
    int64_t reasoning_tokens = 0;
    engine::RequestStatistics statistics;
};

// Told of all choices, on the engine's thread; the calls for one choice come in order, and exactly one of on_end and
// on_error is the last of them.
class ReplySink {
  public:
    virtual ~ReplySink() = default;
    // The choice's turn has come; so many of the prompt's tokens are there from an earlier request.
    virtual void on_placed(int32_t choice, int64_t cached_tokens) {
        (void)choice;
        (void)cached_tokens;
    }
    // Tokens of the prompt with their log-probabilities, when the job asks for them.
    virtual void on_prompt(int32_t choice, const std::vector<engine::GeneratedToken>& tokens) {
        (void)choice;
        (void)tokens;
    }
    // A token that was generated, before the pieces it completes; only when the job asks for log-probabilities.
    virtual void on_token(int32_t choice, const TokenText& token) {
        (void)choice;
        (void)token;
    }
    virtual void on_piece(int32_t choice, const text::ReplyPiece& piece) = 0;
    virtual void on_end(int32_t choice, const ChoiceEnd& end) = 0;
    virtual void on_error(int32_t choice, const Error& error) = 0;
};

// The choices of one request while they run.
class Generation {
  public:
    // Queues all choices of all jobs, which are numbered in this order, or none of them. Throws what Engine::submit
    // throws; the sink has heard nothing then.
    static std::shared_ptr<Generation> start(const Service& service, const std::vector<GenerationJob>& jobs,
                                             const std::shared_ptr<ReplySink>& sink);
    // Ends all choices at the next step.
    void cancel();

  private:
    explicit Generation(engine::Engine& engine) : engine_(engine) {}
    engine::Engine& engine_;
    std::vector<engine::RequestId> ids_;
};

}  // namespace gemmatrace::server
