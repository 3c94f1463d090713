// Decoder steps that hold back what later tokens can still change, and the streaming detokenizer over them.
#include "text/detokenizer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer_data.h"

namespace gemmatrace::text {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

// The length of the longest proper beginning of `pattern` that `text` ends with.
size_t overlap(std::string_view text, std::string_view pattern) {
    size_t length = std::min(text.size(), pattern.size() - 1);
    while (length > 0 && !text.ends_with(pattern.substr(0, length))) --length;
    return length;
}

// Replaces in a token that comes in parts; what may be the beginning of a pattern is held.
std::string replace(const DecoderStep& step, DecoderState& state, std::string_view part, bool is_end) {
    const std::string text = std::exchange(state.held, {}).append(part);
    const std::string_view view = text;
    std::string done;
    size_t rest = 0;
    for (size_t at = view.find(step.pattern); at != std::string_view::npos; at = view.find(step.pattern, rest)) {
        done.append(view, rest, at - rest).append(step.content);
        rest = at + step.pattern.size();
    }
    const size_t held = is_end ? 0 : overlap(view.substr(rest), step.pattern);
    done.append(view, rest, view.size() - held - rest);
    state.held.assign(view.substr(view.size() - held));
    return done;
}

// Strips a token that comes in parts; `seen` counts characters looked at in front, and the last `stop` characters that
// might go are held.
std::string strip(const DecoderStep& step, DecoderState& state, std::string_view part, bool is_end) {
    while (state.seen < step.start && !part.empty()) {
        const bool goes = part.starts_with(step.pattern);
        state.seen = goes ? state.seen + 1 : step.start;
        if (goes) part.remove_prefix(step.pattern.size());
    }
    const std::string text = std::exchange(state.held, {}).append(part);
    std::string_view kept = text;
    for (size_t count = 0; count < step.stop && kept.ends_with(step.pattern); ++count) {
        kept.remove_suffix(step.pattern.size());
    }
    if (!is_end) state.held.assign(std::string_view(text).substr(kept.size()));
    return std::string(kept);
}

// The byte that a token like <0x0A> stands for (as Rust's from_str_radix reads it: a plus sign counts).
std::optional<char> byte_of(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
    std::string_view digits = token.substr(3, 2);
    if (digits.front() == '+') digits.remove_prefix(1);
    int value = 0;
    for (const char digit : digits) {
        if (digit >= '0' && digit <= '9') {
            value = value * 16 + (digit - '0');
        } else if ((digit >= 'a' && digit <= 'f') || (digit >= 'A' && digit <= 'F')) {
            value = value * 16 + ((digit | 0x20) - 'a' + 10);
        } else {
            return std::nullopt;
        }
    }
    return static_cast<char>(value);
}

// Ends a run of byte tokens: one wrong byte spoils the whole run, so nothing of it can be shown before its end.
void end_bytes(DecoderState& state, std::vector<std::string>& tokens) {
    if (state.held.empty()) return;
    if (is_valid_utf8(state.held)) {
        tokens.push_back(std::exchange(state.held, {}));
    } else {
        tokens.insert(tokens.end(), std::exchange(state.held, {}).size(), std::string(kReplacement));
    }
}

std::vector<std::string> join_bytes(DecoderState& state, std::vector<std::string> tokens, bool is_end) {
    std::vector<std::string> joined;
    for (std::string& token : tokens) {
        if (const std::optional<char> byte = byte_of(token)) {
            state.held.push_back(*byte);
        } else {
            end_bytes(state, joined);
            joined.push_back(std::move(token));
        }
    }
    if (is_end) end_bytes(state, joined);
    return joined;
}

// Marks become spaces; in the first token they vanish if the step says so.
std::string unmark_spaces(const DecoderStep& step, bool is_first, std::string_view token) {
    const std::string_view content = is_first && step.drops_first ? "" : " ";
    DecoderState whole;
    return replace({DecoderStep::Kind::replace, step.pattern, std::string(content)}, whole, token, true);
}

// One token, or a part of the one token that a fuse step made, through a step that works inside tokens.
std::string advance_token(const DecoderStep& step, DecoderState& state, bool is_fused, std::string_view token,
                          bool is_end) {
    DecoderState whole;
    DecoderState& used = is_fused ? state : whole;
    switch (step.kind) {
        case DecoderStep::Kind::replace:
            return replace(step, used, token, is_end || !is_fused);
        case DecoderStep::Kind::strip:
            return strip(step, used, token, is_end || !is_fused);
        case DecoderStep::Kind::metaspace:
            return unmark_spaces(step, is_fused || state.seen++ == 0, token);
        default:
            return std::string(token);
    }
}

}  // namespace

std::string Decoder::advance(std::vector<DecoderState>& states, std::vector<std::string> tokens, bool is_end) const {
    bool is_fused = false;
    for (size_t index = 0; index < steps_.size(); ++index) {
        const DecoderStep& step = steps_[index];
        if (step.kind == DecoderStep::Kind::fuse) {
            is_fused = true;
        } else if (step.kind == DecoderStep::Kind::byte_fallback) {
            tokens = join_bytes(states[index], std::move(tokens), is_end);
        } else {
            for (std::string& token : tokens) token = advance_token(step, states[index], is_fused, token, false);
            if (is_end && is_fused) tokens.push_back(advance_token(step, states[index], is_fused, {}, true));
        }
    }
    std::string text;
    for (const std::string& token : tokens) text += token;
    return text;
}

StreamingDetokenizer::StreamingDetokenizer(const Tokenizer& tokenizer, bool skip_special)
    : data_(tokenizer.data_.get()), skip_special_(skip_special), states_(data_->decoder.start()) {}

std::string StreamingDetokenizer::push(int32_t id) {
    const Vocabulary& vocabulary = data_->vocabulary;
    if (id < 0 || id >= vocabulary.size()) {
        throw Error(ErrorCode::bad_request, "a token id is out of range",
                    {{"id", std::to_string(id)}, {"vocab_size", std::to_string(vocabulary.size())}},
                    "give ids that this checkpoint's tokenizer made");
    }
    if (!vocabulary.contains(id) || (skip_special_ && vocabulary.is_control(id))) return {};
    const bool needs_space = data_->decoder.joins_with_spaces() && !is_at_start_;
    is_at_start_ = false;
    std::string text(needs_space ? " " : "");
    return text.append(data_->decoder.push(states_, {vocabulary.token(id)}));
}

std::string StreamingDetokenizer::finish() { return data_->decoder.finish(states_); }

}  // namespace gemmatrace::text
