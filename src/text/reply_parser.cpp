// The states of a reply, entered by markers.
#include "text/reply_parser.h"

#include <algorithm>
#include <array>
#include <utility>

#include "text/reply_call.h"

namespace gemmatrace::text {
namespace {

using PieceKind = ReplyPiece::Kind;

// What may stand between a marker and the line break behind it without being text.
constexpr std::array<std::string_view, 1> kChannelNames = {"thought"};
constexpr std::array<std::string_view, 3> kRoles = {"model", "user", "system"};

}  // namespace

ReplyParser::ReplyParser(const Tokenizer& tokenizer, std::span<const int32_t> prompt_ids, const ReplyOptions& options)
    : tokenizer_(&tokenizer),
      options_(options),
      markers_{.channel_open = tokenizer.id_of("<|channel>"),
               .channel_close = tokenizer.id_of("<channel|>"),
               .turn_open = tokenizer.id_of("<|turn>"),
               .turn_close = tokenizer.id_of("<turn|>"),
               .call_open = tokenizer.id_of("<|tool_call>"),
               .call_close = tokenizer.id_of("<tool_call|>"),
               .result_open = tokenizer.id_of("<|tool_response>"),
               .result_close = tokenizer.id_of("<tool_response|>"),
               .quote = tokenizer.id_of("<|\"|>")},
      detokenizer_(tokenizer, true) {
    // The state follows from the last marker alone, and from the text behind it.
    const auto last =
        std::find_if(prompt_ids.rbegin(), prompt_ids.rend(), [&](int32_t id) { return state_behind(id).has_value(); });
    if (last == prompt_ids.rend()) return;
    std::vector<ReplyPiece> unshown;
    for (const int32_t id : prompt_ids.last(static_cast<size_t>(last - prompt_ids.rbegin()) + 1)) push(id, unshown);
    flush_bytes(unshown);  // a character does not begin in the prompt and end in the reply
    prompt_bytes_ = held_.size();
}

std::optional<ReplyParser::State> ReplyParser::state_behind(int32_t id) const {
    if (id == markers_.channel_open) return State::channel_name;
    if (id == markers_.turn_open) return State::role;
    if (id == markers_.call_open) return options_.parses_tool_calls ? State::call : State::shown_call;
    if (id == markers_.result_open) return State::result;
    const bool closes = id == markers_.channel_close || id == markers_.turn_close || id == markers_.call_close ||
                        id == markers_.result_close;
    return closes ? std::optional(State::content) : std::nullopt;
}

TokenRole ReplyParser::push(int32_t id, std::vector<ReplyPiece>& pieces) {
    if (const std::optional<State> next = state_behind(id)) {
        enter(*next, id, pieces);
        return TokenRole::control;
    }
    const bool is_in_call = state_ == State::call || state_ == State::shown_call;
    if (is_in_call && id == markers_.quote) return take_quote(pieces);
    // A model may have more rows than the tokenizer has tokens: such an id has no text.
    if (id < 0 || id >= tokenizer_->vocab_size() || tokenizer_->is_control(id) || tokenizer_->token(id).empty()) {
        return TokenRole::control;
    }
    const bool was_name = state_ == State::channel_name || state_ == State::role;
    const size_t shown = pieces.size();
    take_text(detokenizer_.push(id), pieces);
    return role_here(was_name, pieces.size() > shown || !held_.empty());
}

// was_name: the token was read where a name may stand; has_more: it brought text behind the name.
TokenRole ReplyParser::role_here(bool was_name, bool has_more) const {
    switch (state_) {
        case State::content:
        case State::shown_call:
            return was_name && !has_more ? TokenRole::control : TokenRole::content;
        case State::thought:
            return was_name && !has_more ? TokenRole::control : TokenRole::reasoning;
        case State::call:
            return TokenRole::tool_call;
        case State::channel_name:
        case State::role:
        case State::result:
            break;
    }
    return TokenRole::control;
}

void ReplyParser::finish(std::vector<ReplyPiece>& pieces) { enter(State::content, std::nullopt, pieces); }

void ReplyParser::enter(State state, std::optional<int32_t> marker, std::vector<ReplyPiece>& pieces) {
    flush_bytes(pieces);
    leave(marker, pieces);
    drop_held();
    state_ = state;
}

// Settles what is held where a state ends; without a marker, where the reply ends.
void ReplyParser::leave(std::optional<int32_t> marker, std::vector<ReplyPiece>& pieces) {
    const auto is_held_one_of = [&](const auto& names) { return std::ranges::find(names, held_) != names.end(); };
    switch (state_) {
        case State::channel_name:
            if (!is_held_one_of(kChannelNames)) show_held(PieceKind::reasoning, pieces);
            return;
        case State::role:
            if (!is_held_one_of(kRoles)) show_held(PieceKind::content, pieces);
            return;
        case State::thought:
            if (!marker || marker != markers_.channel_close) show_held(PieceKind::reasoning, pieces);
            return;
        case State::result:
            if (!marker || marker != markers_.result_close) show_held(PieceKind::content, pieces);
            return;
        case State::call: {
            std::optional<ReplyCall> call = marker ? parse_reply_call(held_, quotes_) : std::nullopt;
            if (!call) return show_held(PieceKind::content, pieces);
            pieces.push_back({PieceKind::tool_call, {}, std::move(call->name), std::move(call->arguments)});
            return;
        }
        case State::content:
        case State::shown_call:
            return;  // nothing is held there
    }
}

void ReplyParser::take_text(std::string_view text, std::vector<ReplyPiece>& pieces) {
    if (text.empty()) return;
    switch (state_) {
        case State::content:
        case State::shown_call:
            held_ = text;
            return show_held(PieceKind::content, pieces);
        case State::thought: {
            held_ += text;
            // The last line break waits: it may be the one before the closing marker.
            const bool is_waiting = held_.ends_with('\n');
            if (is_waiting) held_.pop_back();
            show_held(PieceKind::reasoning, pieces);
            if (is_waiting) held_ = '\n';
            return;
        }
        case State::channel_name:
        case State::role:
            return take_name(text, pieces);
        case State::call:
            return take_call_text(text, pieces);
        case State::result:
            held_ += text;
            if (held_.size() <= options_.max_call_bytes) return;
            state_ = State::content;
            return show_held(PieceKind::content, pieces);
    }
}

// Waits as long as the text may become one of the names and its line break; otherwise it was no name.
void ReplyParser::take_name(std::string_view text, std::vector<ReplyPiece>& pieces) {
    held_ += text;
    const bool is_channel = state_ == State::channel_name;
    const std::span<const std::string_view> names =
        is_channel ? std::span<const std::string_view>(kChannelNames) : std::span<const std::string_view>(kRoles);
    for (const std::string_view name : names) {
        if (name.starts_with(held_)) return;
    }
    size_t skipped = std::min(prompt_bytes_, held_.size());
    for (const std::string_view name : names) {
        const bool is_line = held_.starts_with(name) && held_[name.size()] == '\n';
        if (is_line) skipped = std::max(skipped, name.size() + 1);
    }
    const std::string rest = held_.substr(skipped);
    drop_held();
    state_ = is_channel ? State::thought : State::content;
    take_text(rest, pieces);
}

// A quote token ends what is decoded as one stretch, as a marker does.
TokenRole ReplyParser::take_quote(std::vector<ReplyPiece>& pieces) {
    flush_bytes(pieces);
    if (state_ == State::call) quotes_.push_back(held_.size());
    take_text("\"", pieces);
    return state_ == State::call ? TokenRole::tool_call : TokenRole::content;
}

void ReplyParser::take_call_text(std::string_view text, std::vector<ReplyPiece>& pieces) {
    held_ += text;
    if (held_.size() <= options_.max_call_bytes) return;
    state_ = State::shown_call;
    show_held(PieceKind::content, pieces);
    quotes_.clear();
}

void ReplyParser::flush_bytes(std::vector<ReplyPiece>& pieces) {
    take_text(std::exchange(detokenizer_, StreamingDetokenizer(*tokenizer_, true)).finish(), pieces);
}

void ReplyParser::show_held(PieceKind kind, std::vector<ReplyPiece>& pieces) {
    std::string text = held_.substr(std::min(prompt_bytes_, held_.size()));
    held_.clear();
    prompt_bytes_ = 0;
    if (!text.empty()) pieces.push_back({kind, std::move(text), {}, {}});
}

void ReplyParser::drop_held() {
    held_.clear();
    quotes_.clear();
    prompt_bytes_ = 0;
}

}  // namespace gemmatrace::text
