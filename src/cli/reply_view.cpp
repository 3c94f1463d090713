// The states of a reply, entered by control tokens.
#include "cli/reply_view.h"

#include <algorithm>

namespace gemmatrace::cli {
namespace {

// Longer than any channel or role name: text that long without a newline is no name but already what follows it.
constexpr size_t kMaxNameBytes = 32;

bool is_name(std::string_view text) {
    return std::ranges::all_of(text, [](char letter) {
        return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || letter == '_';
    });
}

}  // namespace

ReplyView::ReplyView(const text::Tokenizer& tokenizer, std::span<const int32_t> prompt_ids, Sink sink)
    : tokenizer_(tokenizer),
      markers_{.channel_open = tokenizer.id_of("<|channel>"),
               .channel_close = tokenizer.id_of("<channel|>"),
               .turn_open = tokenizer.id_of("<|turn>"),
               .turn_close = tokenizer.id_of("<turn|>"),
               .call_open = tokenizer.id_of("<|tool_call>"),
               .call_close = tokenizer.id_of("<tool_call|>"),
               .result_open = tokenizer.id_of("<|tool_response>"),
               .result_close = tokenizer.id_of("<tool_response|>"),
               .quote = tokenizer.id_of("<|\"|>")},
      sink_(std::move(sink)) {
    enter(State::answer);
    if (!markers_.turn_open) return;
    // The last turn of the prompt decides; what it says itself is not part of the reply.
    const auto last_turn = std::find(prompt_ids.rbegin(), prompt_ids.rend(), *markers_.turn_open);
    if (last_turn == prompt_ids.rend()) return;
    is_seeding_ = true;
    for (const int32_t id : prompt_ids.subspan(static_cast<size_t>(prompt_ids.rend() - last_turn) - 1)) push(id);
    is_seeding_ = false;
}

void ReplyView::enter(State state) {
    if (detokenizer_) take_text(detokenizer_->finish());
    // A name that never met its newline: shown if it is more than a name, because then it was text.
    if (state_ == State::channel_name && !is_name(name_)) emit(ReplyPart::thought, name_);
    if (state_ == State::turn_name && !is_name(name_)) emit(ReplyPart::answer, name_);
    if (state_ == State::tool_call && !call_.empty()) emit(ReplyPart::tool_call, call_);
    name_.clear();
    call_.clear();
    state_ = state;
    detokenizer_.emplace(tokenizer_, true);
}

void ReplyView::push(int32_t id) {
    const auto is = [id](const std::optional<int32_t>& marker) { return marker && *marker == id; };
    if (is(markers_.channel_open)) return enter(State::channel_name);
    if (is(markers_.turn_open)) return enter(State::turn_name);
    if (is(markers_.call_open)) return enter(State::tool_call);
    if (is(markers_.result_open)) return enter(State::tool_result);
    if (is(markers_.channel_close) || is(markers_.turn_close) || is(markers_.call_close) || is(markers_.result_close)) {
        return enter(State::answer);
    }
    if (is(markers_.quote) && state_ == State::tool_call) {
        take_text(detokenizer_->finish());
        detokenizer_.emplace(tokenizer_, true);
        return take_text("\"");
    }
    // A model may have more rows than the tokenizer has tokens: such an id has no text.
    if (id < 0 || id >= tokenizer_.vocab_size() || tokenizer_.is_control(id)) return;
    take_text(detokenizer_->push(id));
}

void ReplyView::finish() { enter(State::answer); }

void ReplyView::take_text(std::string_view text) {
    switch (state_) {
        case State::answer:
            return emit(ReplyPart::answer, text);
        case State::thought:
            return emit(ReplyPart::thought, text);
        case State::tool_call:
            call_ += text;
            return;
        case State::tool_result:
            return;
        case State::channel_name:
        case State::turn_name: {
            const size_t newline = text.find('\n');
            name_ += text.substr(0, newline);
            if (newline != std::string_view::npos) return end_name(text.substr(newline + 1));
            if (name_.size() > kMaxNameBytes) return end_name({});
            return;
        }
    }
}

void ReplyView::end_name(std::string_view rest) {
    const ReplyPart part = state_ == State::channel_name ? ReplyPart::thought : ReplyPart::answer;
    state_ = part == ReplyPart::thought ? State::thought : State::answer;
    if (!is_name(name_) || name_.size() > kMaxNameBytes) emit(part, name_);
    name_.clear();
    emit(part, rest);
}

void ReplyView::emit(ReplyPart part, std::string_view text) {
    if (!text.empty() && !is_seeding_) sink_(part, text);
}

}  // namespace gemmatrace::cli
