// Matching of number literals and Python's string escapes.
#include "text/jinja/literals.h"

#include <charconv>
#include <cstdlib>
#include <optional>

namespace gemmatrace::text::jinja {

namespace {

bool is_digit_of(char character, int base) {
    if (base <= 10) return character >= '0' && character < '0' + base;
    return (character >= '0' && character <= '9') || (character >= 'a' && character <= 'f') ||
           (character >= 'A' && character <= 'F');
}

// The end of digits with single underscores between them: d(_?d)*.
size_t match_digits(std::string_view source, size_t at, int base) {
    if (at >= source.size() || !is_digit_of(source[at], base)) return at;
    for (++at; at < source.size(); ++at) {
        if (is_digit_of(source[at], base)) continue;
        if (source[at] != '_' || at + 1 >= source.size() || !is_digit_of(source[at + 1], base)) break;
    }
    return at;
}

std::string without_underscores(std::string_view digits) {
    std::string plain;
    for (const char character : digits) {
        if (character != '_') plain += character;
    }
    return plain;
}

size_t match_real(std::string_view source, size_t at) {
    size_t end = match_digits(source, at, 10);
    if (end == at) return at;
    bool is_real = false;
    if (end + 1 < source.size() && source[end] == '.') {
        const size_t fraction = match_digits(source, end + 1, 10);
        if (fraction > end + 1) {
            end = fraction;
            is_real = true;
        }
    }
    if (end < source.size() && (source[end] == 'e' || source[end] == 'E')) {
        const bool has_sign = end + 1 < source.size() && (source[end + 1] == '+' || source[end + 1] == '-');
        const size_t digits = end + (has_sign ? 2 : 1);
        const size_t exponent = match_digits(source, digits, 10);
        if (exponent > digits) return exponent;
    }
    return is_real ? end : at;
}

NumberMatch match_integer(std::string_view source, size_t at) {
    int base = 10;
    size_t begin = at;
    size_t end = at;
    if (source[at] == '0') {
        const char letter = at + 1 < source.size() ? static_cast<char>(source[at + 1] | 0x20) : '\0';
        const int named = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
        if (named != 0) {
            begin = at + 2;
            if (begin < source.size() && source[begin] == '_') ++begin;
            end = match_digits(source, begin, named);
            if (end > begin) base = named;
        }
        if (base == 10) {  // zeros only
            begin = at;
            end = match_digits(source, at, 1);
        }
    } else {
        end = match_digits(source, at, 10);
    }
    NumberMatch match{end, false, false, 0, 0};
    for (const char character : without_underscores(source.substr(begin, end - begin))) {
        const int digit = character <= '9' ? character - '0' : (character | 0x20) - 'a' + 10;
        match.is_too_large |= __builtin_mul_overflow(match.integer, Integer{base}, &match.integer);
        match.is_too_large |= __builtin_add_overflow(match.integer, Integer{digit}, &match.integer);
    }
    return match;
}

// Reads exactly `count` hexadecimal digits.
std::optional<char32_t> read_hex(std::string_view text, size_t at, size_t count) {
    unsigned value = 0;
    const auto digits = text.substr(at < text.size() ? at : text.size(), count);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() != count || read.ptr != digits.data() + count) return std::nullopt;
    return value;
}

// The character that one letter after a backslash stands for, or 0.
char simple_escape(char letter) {
    switch (letter) {
        case 'n':
            return '\n';
        case 't':
            return '\t';
        case 'r':
            return '\r';
        case 'a':
            return '\a';
        case 'b':
            return '\b';
        case 'f':
            return '\f';
        case 'v':
            return '\v';
        case '\\':
        case '\'':
        case '"':
            return letter;
        default:
            return '\0';
    }
}

}  // namespace

NumberMatch match_number(std::string_view source, size_t at, bool is_after_dot) {
    if (!is_digit_of(source[at], 10)) return {at, false, false, 0, 0};
    if (!is_after_dot) {
        if (const size_t end = match_real(source, at); end > at) {
            const std::string digits = without_underscores(source.substr(at, end - at));
            return {end, true, false, 0, std::strtod(digits.c_str(), nullptr)};
        }
    }
    return match_integer(source, at);
}

const char* resolve_escapes(std::string_view quoted, std::string& text) {
    for (size_t at = 0; at < quoted.size(); ++at) {
        if (quoted[at] != '\\') {
            text += quoted[at];
            continue;
        }
        if (++at >= quoted.size()) return "\\ at end of string";
        const char letter = quoted[at];
        if (letter == '\n') continue;
        if (const char plain = simple_escape(letter)) {
            text += plain;
        } else if (letter >= '0' && letter <= '7') {
            char32_t value = 0;
            size_t end = at;
            for (; end < quoted.size() && end < at + 3 && quoted[end] >= '0' && quoted[end] <= '7'; ++end) {
                value = value * 8 + static_cast<char32_t>(quoted[end] - '0');
            }
            append_utf8(text, value);
            at = end - 1;
        } else if (letter == 'x' || letter == 'u' || letter == 'U') {
            const size_t count = letter == 'x' ? 2 : letter == 'u' ? 4 : 8;
            const auto value = read_hex(quoted, at + 1, count);
            if (!value) return "truncated \\x, \\u or \\U escape in a string";
            if (*value > 0x10ffff || (*value >= 0xd800 && *value < 0xe000))
                return "an escape in a string is no Unicode character";
            append_utf8(text, *value);
            at += count;
        } else if (letter == 'N') {
            return "\\N escapes are not supported; write \\u with the character's number";
        } else {
            text += '\\';
            text += letter;
        }
    }
    return nullptr;
}

}  // namespace gemmatrace::text::jinja
