// The lexer: root text by search for the next tag, the inside of tags character by character.
#include "text/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"
#include "text/jinja/literals.h"
#include "text/jinja/unicode.h"

namespace gemmatrace::text::jinja {

namespace {

constexpr size_t kNoTag = std::string_view::npos;
constexpr size_t kMaxSource = size_t{1} << 20;

constexpr std::array<std::string_view, 26> kOperators = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                         "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                         ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

// All line ends as "\n", without the last one.
std::string normalized(std::string_view source) {
    std::string text;
    text.reserve(source.size());
    for (size_t at = 0; at < source.size(); ++at) {
        if (source[at] != '\r') {
            text += source[at];
            continue;
        }
        text += '\n';
        if (at + 1 < source.size() && source[at + 1] == '\n') ++at;
    }
    if (text.ends_with('\n')) text.pop_back();
    return text;
}

bool is_space_at(std::string_view text, size_t at) { return is_space(decode_utf8(text, at).code_point); }

class Lexer {
  public:
    explicit Lexer(std::string_view source) : source_(normalized(source)) {}

    std::vector<Token> run() {
        while (at_ < source_.size()) root();
        add(TokenType::end);
        return std::move(tokens_);
    }

  private:
    Token& add(TokenType type, std::string text = {}) {
        tokens_.push_back({type, line_, std::move(text), 0, 0});
        return tokens_.back();
    }

    bool starts(std::string_view wanted, size_t at) const {
        return std::string_view(source_).substr(at, wanted.size()) == wanted;
    }

    // Moves on, counting lines. A piece that ends in a line end lets the next tag's line be stripped.
    void advance(size_t end) {
        if (end == at_) return;
        line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                             source_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
        is_line_start_ = source_[end - 1] == '\n';
        at_ = end;
    }

    size_t skip_space(size_t at) const {
        while (at < source_.size() && is_space_at(source_, at)) at += sequence_length(source_[at]);
        return at;
    }

    size_t next_tag(size_t from) const {
        for (size_t at = source_.find('{', from); at != kNoTag; at = source_.find('{', at + 1)) {
            if (at + 1 < source_.size() && std::string_view("%{#").find(source_[at + 1]) != kNoTag) return at;
        }
        return kNoTag;
    }

    // The white-space sign behind a tag's opening: '-', '+' or 0.
    char sign_at(size_t at) const {
        return at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at] : '\0';
    }

    // Emits the text in front of a tag, stripped as the tag's sign and lstrip_blocks ask.
    void emit_data(size_t end, char sign, bool is_variable) {
        std::string_view text = std::string_view(source_).substr(at_, end - at_);
        if (sign == '-') {
            while (!text.empty()) {
                size_t last = text.size() - 1;
                while (last > 0 && (static_cast<unsigned char>(text[last]) & 0xc0U) == 0x80U) --last;
                if (!is_space_at(text, last)) break;
                text = text.substr(0, last);
            }
        } else if (sign != '+' && !is_variable) {
            const size_t line_begin = text.rfind('\n') == kNoTag ? 0 : text.rfind('\n') + 1;
            const bool is_own_line = line_begin > 0 || is_line_start_;
            if (is_own_line && is_all_space(text.substr(line_begin))) text = text.substr(0, line_begin);
        }
        if (!text.empty()) add(TokenType::data, std::string(text));
        line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                             source_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
        at_ = end;
    }

    static bool is_all_space(std::string_view text) {
        for (size_t at = 0; at < text.size(); at += sequence_length(text[at])) {
            if (!is_space_at(text, at)) return false;
        }
        return !text.empty();
    }

    void root() {
        const size_t tag = next_tag(at_);
        if (tag == kNoTag) {
            add(TokenType::data, source_.substr(at_));
            advance(source_.size());
            return;
        }
        const char kind = source_[tag + 1];
        const char sign = sign_at(tag + 2);
        const size_t raw_end = kind == '%' ? match_raw_begin(tag) : kNoTag;
        emit_data(tag, sign, kind == '{');
        if (raw_end != kNoTag) {
            advance(raw_end);
            raw();
        } else if (kind == '#') {
            advance(tag + (sign != 0 ? 3 : 2));
            comment();
        } else {
            add(kind == '{' ? TokenType::variable_begin : TokenType::block_begin);
            advance(tag + (sign != 0 ? 3 : 2));
            inside(kind == '{');
        }
    }

    // The end of "{% raw %}" at a tag, or kNoTag when it is another block.
    size_t match_raw_begin(size_t tag) const {
        size_t at = skip_space(tag + 2 + (sign_at(tag + 2) != 0 ? 1 : 0));
        if (!starts("raw", at)) return kNoTag;
        at = skip_space(at + 3);
        if (starts("-%}", at)) return skip_space(at + 3);
        return starts("%}", at) ? at + 2 : kNoTag;
    }

    // The end of a closing like "-%}" at a place, with the white space that goes with it; kNoTag when there is none.
    size_t match_close(std::string_view close, size_t at, bool has_trim) const {
        if (at < source_.size() && source_[at] == '-' && starts(close, at + 1))
            return skip_space(at + 1 + close.size());
        if (has_trim && at < source_.size() && source_[at] == '+' && starts(close, at + 1))
            return at + 1 + close.size();
        if (!starts(close, at)) return kNoTag;
        const size_t end = at + close.size();
        return has_trim && end < source_.size() && source_[end] == '\n' ? end + 1 : end;
    }

    void comment() {
        for (size_t at = at_; at < source_.size(); ++at) {
            const size_t end = match_close("#}", at, true);
            if (end == kNoTag) continue;
            advance(end);
            return;
        }
        if (at_ < source_.size())
            fail_syntax("Missing end of comment tag", line_);  // at the very end jinja2 lets it pass
    }

    void raw() {
        for (size_t tag = source_.find("{%", at_); tag != kNoTag; tag = source_.find("{%", tag + 1)) {
            const char sign = sign_at(tag + 2);
            size_t at = skip_space(tag + 2 + (sign != 0 ? 1 : 0));
            if (!starts("endraw", at)) continue;
            at = skip_space(at + 6);
            const size_t end = match_close("%}", at, true);
            if (end == kNoTag) continue;
            emit_data(tag, sign, false);
            advance(end);
            return;
        }
        if (at_ < source_.size()) fail_syntax("Missing end of raw directive", line_);
    }

    // From behind {{ or {% up to its end, or to the end of the source.
    void inside(bool is_variable) {
        brackets_.clear();
        while (at_ < source_.size()) {
            if (brackets_.empty()) {
                const size_t end = match_close(is_variable ? "}}" : "%}", at_, !is_variable);
                if (end != kNoTag) {
                    add(is_variable ? TokenType::variable_end : TokenType::block_end);
                    advance(end);
                    return;
                }
            }
            if (is_space_at(source_, at_)) {
                advance(skip_space(at_));
            } else {
                token();
            }
        }
    }

    void token() {
        const bool is_after_dot = at_ > 0 && source_[at_ - 1] == '.';
        if (const NumberMatch number = match_number(source_, at_, is_after_dot); number.end > at_) {
            Token& added = add(number.is_real ? TokenType::real : TokenType::integer);
            if (number.is_too_large) fail_syntax("an integer of the template has more than 128 bits", line_);
            added.integer = number.integer;
            added.real = number.real;
            advance(number.end);
            return;
        }
        if (const size_t end = match_word(at_); end > at_) return name(end);
        if (source_[at_] == '\'' || source_[at_] == '"') {
            if (const size_t end = match_quoted(at_); end != kNoTag) {
                std::string text;
                if (const char* mistake =
                        resolve_escapes(std::string_view(source_).substr(at_ + 1, end - at_ - 2), text)) {
                    fail_syntax(mistake, line_);
                }
                add(TokenType::string, std::move(text));
                return advance(end);
            }
        }
        operation();
    }

    size_t match_word(size_t at) const {
        while (at < source_.size() && is_word(decode_utf8(source_, at).code_point)) at += sequence_length(source_[at]);
        return at;
    }

    void name(size_t end) {
        const auto first = decode_utf8(source_, at_).code_point;
        if (!is_alpha(first) && first != U'_') fail_syntax("Invalid character in identifier", line_);
        add(TokenType::name, source_.substr(at_, end - at_));
        advance(end);
    }

    size_t match_quoted(size_t at) const {
        const char quote = source_[at];
        for (++at; at < source_.size(); ++at) {
            if (source_[at] == '\\') {
                ++at;
            } else if (source_[at] == quote) {
                return at + 1;
            }
        }
        return kNoTag;
    }

    void operation() {
        const auto found = std::find_if(kOperators.begin(), kOperators.end(),
                                        [&](std::string_view sign) { return starts(sign, at_); });
        if (found == kOperators.end()) {
            const auto width = sequence_length(source_[at_]);
            fail_syntax(fmt::format("unexpected char '{}' at {}", source_.substr(at_, width), at_), line_);
        }
        balance((*found)[0]);
        add(TokenType::operation, std::string(*found));
        advance(at_ + found->size());
    }

    void balance(char sign) {
        if (sign == '(') brackets_ += ')';
        if (sign == '[') brackets_ += ']';
        if (sign == '{') brackets_ += '}';
        if (sign != ')' && sign != ']' && sign != '}') return;
        if (brackets_.empty()) fail_syntax(fmt::format("unexpected '{}'", sign), line_);
        if (brackets_.back() != sign)
            fail_syntax(fmt::format("unexpected '{}', expected '{}'", sign, brackets_.back()), line_);
        brackets_.pop_back();
    }

    const std::string source_;
    size_t at_ = 0;
    int line_ = 1;
    bool is_line_start_ = true;
    std::string brackets_;  // the closing brackets that are waited for
    std::vector<Token> tokens_;
};

}  // namespace

std::string describe(const Token& token) {
    switch (token.type) {
        case TokenType::data:
            return "template data / text";
        case TokenType::variable_begin:
            return "begin of print statement";
        case TokenType::variable_end:
            return "end of print statement";
        case TokenType::block_begin:
            return "begin of statement block";
        case TokenType::block_end:
            return "end of statement block";
        case TokenType::name:
        case TokenType::operation:
            return token.text;
        case TokenType::string:
            return "string";
        case TokenType::integer:
            return "integer";
        case TokenType::real:
            return "float";
        case TokenType::end:
            return "end of template";
    }
    return "token";
}

std::vector<Token> tokenize(std::string_view source) {
    if (source.size() > kMaxSource)
        fail_syntax(fmt::format("a template may have {} MiB, not more", kMaxSource >> 20), 1);
    if (!is_valid_utf8(source)) fail_syntax("the template is not UTF-8", 1);
    return Lexer(source).run();
}

void fail_syntax(const std::string& message, int line) {
    throw Error(ErrorCode::corrupt, message, {{"line", std::to_string(line)}},
                "Repair the checkpoint's chat template, or give another one.");
}

}  // namespace gemmatrace::text::jinja
