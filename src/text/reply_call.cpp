// A recursive reader of Gemma's call syntax that writes JSON as it goes.
#include "text/reply_call.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/utf8.h"

namespace gemmatrace::text {
namespace {

constexpr std::string_view kCallPrefix = "call:";
constexpr size_t kMaxCallNameBytes = 256;

bool is_call_space(char byte) { return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r'; }

bool is_call_digit(char byte) { return byte >= '0' && byte <= '9'; }

// What a function may be called: any letters, and the signs that join parts of names.
bool is_of_call_name(char byte) {
    return is_call_digit(byte) || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte & 0x80) != 0 ||
           std::string_view("_-.:/").find(byte) != std::string_view::npos;
}

// A bare key has no quotes, so what structures a call ends or spoils it.
bool is_bare(char byte) {
    return static_cast<unsigned char>(byte) >= ' ' && byte != '\x7f' &&
           std::string_view("{}[],:\"'").find(byte) == std::string_view::npos;
}

int call_hex_value(char digit) {
    if (is_call_digit(digit)) return digit - '0';
    const char lower = static_cast<char>(digit | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

std::string_view trim_call_space(std::string_view text) {
    while (!text.empty() && is_call_space(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_call_space(text.back())) text.remove_suffix(1);
    return text;
}

std::string json_string(std::string_view text) { return dump_json(nlohmann::ordered_json(std::string(text))); }

class CallReader {
  public:
    CallReader(std::string_view text, std::span<const size_t> quotes) : text_(text), quotes_(quotes) {}

    std::optional<ReplyCall> read() {
        skip_space();
        if (!text_.substr(at_).starts_with(kCallPrefix)) return std::nullopt;
        at_ += kCallPrefix.size();
        const size_t brace = std::min(text_.find('{', at_), text_.size());
        const std::string_view name = trim_call_space(text_.substr(at_, brace - at_));
        if (name.empty() || name.size() > kMaxCallNameBytes || !std::ranges::all_of(name, is_of_call_name)) {
            return std::nullopt;
        }
        at_ = brace;
        std::optional<std::string> arguments = is_at('{') ? read_value(1) : std::nullopt;
        skip_space();
        if (!arguments || at_ != text_.size()) return std::nullopt;
        return ReplyCall{std::string(name), std::move(*arguments)};
    }

  private:
    bool is_at(char byte) const { return at_ < text_.size() && text_[at_] == byte; }

    bool take(char byte) {
        if (!is_at(byte)) return false;
        ++at_;
        return true;
    }

    void skip_space() {
        while (at_ < text_.size() && is_call_space(text_[at_])) ++at_;
    }

    // The next quote token that is not before the place reached; the end of the text when there is none.
    size_t next_quote_token() {
        while (!quotes_.empty() && quotes_.front() < at_) quotes_ = quotes_.subspan(1);
        return quotes_.empty() ? text_.size() : quotes_.front();
    }

    // Each reader below gives JSON text, or nothing for what is no value. depth: of a bracket that opens here.
    std::optional<std::string> read_value(int depth) {
        if (at_ >= text_.size()) return std::nullopt;
        if (is_at('{') || is_at('[')) {
            if (depth > kMaxReplyCallDepth) return std::nullopt;
            return is_at('{') ? read_object(depth) : read_list(depth);
        }
        if (is_at('"') || is_at('\'')) {
            const std::optional<std::string> string = read_string();
            return string ? std::optional(json_string(*string)) : std::nullopt;
        }
        if (is_at('-') || is_call_digit(text_[at_])) return read_number();
        return read_word();
    }

    std::optional<std::string> read_object(int depth) {
        std::vector<std::pair<std::string, std::string>> members;  // both JSON text
        std::map<std::string, size_t> places;
        ++at_;
        skip_space();
        while (!take('}')) {
            std::optional<std::string> key = read_key();
            skip_space();
            if (!key || !take(':')) return std::nullopt;
            skip_space();
            std::optional<std::string> value = read_value(depth + 1);
            if (!value || !end_element('}')) return std::nullopt;
            const auto [place, is_new] = places.emplace(*key, members.size());
            if (is_new) members.emplace_back(std::move(*key), std::string());
            members[place->second].second = std::move(*value);
        }
        std::string json = "{";
        for (const auto& [key, value] : members) {
            if (json.size() > 1) json += ',';
            json.append(key).append(":").append(value);
        }
        return json + "}";
    }

    std::optional<std::string> read_list(int depth) {
        std::string json = "[";
        ++at_;
        skip_space();
        while (!take(']')) {
            const std::optional<std::string> value = read_value(depth + 1);
            if (!value || !end_element(']')) return std::nullopt;
            if (json.size() > 1) json += ',';
            json += *value;
        }
        return json + "]";
    }

    // Behind an element: a comma, which may be the last, or the bracket that ends the whole and is left to be taken.
    bool end_element(char bracket) {
        skip_space();
        const bool has_comma = take(',');
        skip_space();
        return has_comma || is_at(bracket);
    }

    std::optional<std::string> read_key() {
        if (is_at('"') || is_at('\'')) {
            const std::optional<std::string> string = read_string();
            return string ? std::optional(json_string(*string)) : std::nullopt;
        }
        const size_t begin = at_;
        while (at_ < text_.size() && is_bare(text_[at_])) ++at_;
        const std::string_view key = trim_call_space(text_.substr(begin, at_ - begin));
        return key.empty() ? std::nullopt : std::optional(json_string(key));
    }

    std::optional<std::string> read_string() {
        if (next_quote_token() != at_) return read_escaped_string(text_[at_]);
        const size_t begin = ++at_;
        const size_t end = next_quote_token();
        if (end == text_.size()) return std::nullopt;
        at_ = end + 1;
        return std::string(text_.substr(begin, end - begin));
    }

    // A string in quotes that are text. Line breaks may stand in it as they are; a quote token may not.
    std::optional<std::string> read_escaped_string(char quote) {
        std::string string;
        ++at_;
        const size_t end = next_quote_token();
        while (at_ < end) {
            const char byte = text_[at_++];
            if (byte == quote) return string;
            if (byte != '\\') {
                string += byte;
            } else if (at_ == end || !read_escape(string)) {
                return std::nullopt;
            }
        }
        return std::nullopt;
    }

    // What follows a backslash. One that JSON does not know stays as it is, as in Python: models write \d and \w.
    bool read_escape(std::string& string) {
        const char letter = text_[at_++];
        constexpr std::string_view kLetters = "\"'\\/bfnrt";
        constexpr std::string_view kMeanings = "\"'\\/\b\f\n\r\t";
        if (const size_t place = kLetters.find(letter); place != std::string_view::npos) {
            string += kMeanings[place];
            return true;
        }
        if (letter != 'u') {
            string.append("\\").push_back(letter);
            return true;
        }
        std::optional<char32_t> unit = read_hex();
        if (!unit) return false;
        if (*unit >= 0xd800 && *unit < 0xdc00 && text_.substr(at_).starts_with("\\u")) {
            const size_t behind_first = at_;
            at_ += 2;
            const std::optional<char32_t> second = read_hex();
            if (second && *second >= 0xdc00 && *second < 0xe000) {
                unit = 0x10000 + ((*unit - 0xd800) << 10) + (*second - 0xdc00);
            } else {
                at_ = behind_first;  // half a pair becomes U+FFFD
            }
        }
        append_utf8(string, *unit);
        return true;
    }

    std::optional<char32_t> read_hex() {
        if (text_.size() - at_ < 4) return std::nullopt;
        char32_t value = 0;
        for (const char digit : text_.substr(at_, 4)) {
            if (call_hex_value(digit) < 0) return std::nullopt;
            value = value * 16 + static_cast<char32_t>(call_hex_value(digit));
        }
        at_ += 4;
        return value;
    }

    size_t skip_digits() {
        const size_t begin = at_;
        while (at_ < text_.size() && is_call_digit(text_[at_])) ++at_;
        return at_ - begin;
    }

    // JSON's numbers, digit for digit as the model wrote them.
    std::optional<std::string> read_number() {
        const size_t begin = at_;
        take('-');
        const bool is_zero = is_at('0');
        const size_t digits = skip_digits();
        if (digits == 0 || (is_zero && digits > 1)) return std::nullopt;
        if (take('.') && skip_digits() == 0) return std::nullopt;
        if (take('e') || take('E')) {
            if (!take('+')) take('-');
            if (skip_digits() == 0) return std::nullopt;
        }
        std::string number(text_.substr(begin, at_ - begin));
        if (!std::isfinite(std::strtod(number.c_str(), nullptr))) return std::nullopt;
        return number;
    }

    std::optional<std::string> read_word() {
        constexpr std::pair<std::string_view, std::string_view> kWords[] = {{"true", "true"},   {"True", "true"},
                                                                            {"false", "false"}, {"False", "false"},
                                                                            {"null", "null"},   {"None", "null"}};
        for (const auto& [word, json] : kWords) {
            // What follows needs no look: only a comma or a bracket may.
            if (!text_.substr(at_).starts_with(word)) continue;
            at_ += word.size();
            return std::string(json);
        }
        return std::nullopt;
    }

    std::string_view text_;
    std::span<const size_t> quotes_;  // those not yet passed
    size_t at_ = 0;
};

}  // namespace

std::optional<ReplyCall> parse_reply_call(std::string_view text, std::span<const size_t> quotes) {
    return CallReader(text, quotes).read();
}

}  // namespace gemmatrace::text
