// A chat reply as people read it: the thinking apart from the answer, tool calls readable, control tokens never shown.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace gemmatrace::cli {

enum class ReplyPart { answer, thought, tool_call };

// Reads ids one at a time. The markers of Gemma 4's turn grammar are looked up in the tokenizer by name; a tokenizer
// that lacks them gives an answer and nothing else. What is malformed is shown rather than dropped: an unclosed thought
// is a thought, an unclosed call is a call.
class ReplyView {
  public:
    // part, and text to show now. A tool call comes whole, as call:name{key:"value"}.
    using Sink = std::function<void(ReplyPart part, std::string_view text)>;

    // prompt_ids: the reply begins in the state in which they end, because a prompt may open the thinking channel
    // itself (fault F091). The tokenizer must outlive the view.
    ReplyView(const text::Tokenizer& tokenizer, std::span<const int32_t> prompt_ids, Sink sink);

    void push(int32_t id);
    // What is still held back; once, at the end.
    void finish();

  private:
    enum class State {
        answer,
        channel_name,  // after the channel marker, up to the newline: a name such as "thought", never shown
        thought,
        turn_name,  // after a turn marker, up to the newline: a role, never shown
        tool_call,
        tool_result,  // what a tool said, in the prompt; not the model's words
    };
    struct Markers {
        std::optional<int32_t> channel_open, channel_close, turn_open, turn_close, call_open, call_close, result_open,
            result_close, quote;
    };

    void enter(State state);
    void take_text(std::string_view text);
    void end_name(std::string_view rest);
    void emit(ReplyPart part, std::string_view text);

    const text::Tokenizer& tokenizer_;
    Markers markers_;
    Sink sink_;
    State state_ = State::answer;
    std::string name_;  // of a channel or a turn, while it is read
    std::string call_;
    std::optional<text::StreamingDetokenizer> detokenizer_;
    bool is_seeding_ = false;
};

}  // namespace gemmatrace::cli
