// The model's reply, read id by id into pieces: content, reasoning and tool calls, control tokens never shown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace gemmatrace::text {

// A stretch of a reply.
struct ReplyPiece {
    enum class Kind { content, reasoning, tool_call };
    Kind kind = Kind::content;
    std::string text;       // content, reasoning: to be appended to what came before of that kind; never empty
    std::string name;       // tool_call: the function
    std::string arguments;  // tool_call, always whole: the text of one JSON object
};

struct ReplyOptions {
    // Without it a call is content like any text: for requests that offered no tools.
    bool parses_tool_calls = true;
    // A call that grows longer is content, as it comes.
    size_t max_call_bytes = size_t{4} << 20;
};

// What an id was in the reply.
enum class TokenRole {
    content,
    reasoning,
    tool_call,
    control,  // markers, the names behind them, ids without text, what a model makes up as a tool's result
};

// Gemma 4's turn grammar as one automaton over ids. Its state changes only at markers, which are single ids and found
// in the tokenizer by their strings; a tokenizer without them has replies that are all content. The pieces, joined,
// depend on the text between the markers and not on how it was cut into tokens.
//
// - <|channel>, `thought` and a line break open the thinking; the line break before <channel|> ends it and belongs to
//   the grammar, as the templates add it again. Another name is shown: it is no part of the grammar.
// - <|tool_call> opens a call, which ends with any marker; it is a tool call if it was whole by then (reply_call.h).
//   Otherwise, or when the reply is cut inside it, its text becomes content, with " for the quote token. A call ends
//   the thinking it interrupts.
// - <|turn> and the line with a role, which some models repeat, are skipped.
// - A tool's result, which only a tool may write, is dropped when it is closed and content when it is not: so a reply
//   with text never comes out empty.
//
// Never throws for what a model generates. One per sequence; the tokenizer must outlive it. Source: gemma4.md 5.4.
class ReplyParser {
  public:
    // prompt_ids: the reply begins in the state in which they end, because a prompt may open the thinking itself or
    // end within the model's turn (fault F091). Nothing of the prompt is shown, but a call that began in it is read
    // whole.
    ReplyParser(const Tokenizer& tokenizer, std::span<const int32_t> prompt_ids, const ReplyOptions& options = {});

    // Reads one more id and appends the pieces that can be shown now. The role is known before the pieces are: the
    // tokens of a broken call keep the role tool_call though their text comes back as content.
    TokenRole push(int32_t id, std::vector<ReplyPiece>& pieces);

    // Appends what was held back; once, at the end. A call that no marker ended is content, never half a call (F089).
    void finish(std::vector<ReplyPiece>& pieces);

  private:
    enum class State {
        content,
        channel_name,  // behind the channel marker, while it may still be the name
        thought,
        role,  // behind the turn marker, while it may still be a role
        call,
        shown_call,  // a call whose text is content
        result,
    };
    struct Markers {
        std::optional<int32_t> channel_open, channel_close, turn_open, turn_close, call_open, call_close, result_open,
            result_close, quote;
    };

    // The state that a marker leads to; nothing for other ids.
    std::optional<State> state_behind(int32_t id) const;
    void enter(State state, std::optional<int32_t> marker, std::vector<ReplyPiece>& pieces);
    void leave(std::optional<int32_t> marker, std::vector<ReplyPiece>& pieces);
    void take_text(std::string_view text, std::vector<ReplyPiece>& pieces);
    void take_name(std::string_view text, std::vector<ReplyPiece>& pieces);
    TokenRole take_quote(std::vector<ReplyPiece>& pieces);
    void take_call_text(std::string_view text, std::vector<ReplyPiece>& pieces);
    void flush_bytes(std::vector<ReplyPiece>& pieces);
    void show_held(ReplyPiece::Kind kind, std::vector<ReplyPiece>& pieces);
    void drop_held();
    TokenRole role_here(bool was_name, bool has_more) const;

    const Tokenizer* tokenizer_;
    ReplyOptions options_;
    Markers markers_;
    State state_ = State::content;
    std::string held_;            // text of this state that cannot be shown yet
    size_t prompt_bytes_ = 0;     // how much of its beginning is the prompt's
    std::vector<size_t> quotes_;  // where held_ has quote tokens
    StreamingDetokenizer detokenizer_;
};

}  // namespace gemmatrace::text
