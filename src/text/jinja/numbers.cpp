// Numbers from and to text, as Python writes and reads them.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace gemmatrace::text::jinja {

namespace {

// Without white space around it, digits of any script as ASCII; nothing when another character outside ASCII is left.
std::optional<std::string> plain_number(const Text& text) {
    std::string plain;
    bool is_ascii = true;
    each_code_point(text, [&](char32_t code_point, std::string_view, Origin) {
        const int digit = decimal_value(code_point);
        if (digit >= 0) {
            plain += static_cast<char>('0' + digit);
        } else if (is_space(code_point)) {
            plain += ' ';
        } else if (code_point < 0x80) {
            plain += static_cast<char>(code_point);
        } else {
            is_ascii = false;
        }
    });
    if (!is_ascii) return std::nullopt;
    const size_t first = plain.find_first_not_of(' ');
    if (first == std::string::npos) return std::nullopt;
    return plain.substr(first, plain.find_last_not_of(' ') - first + 1);
}

// Drops single underscores between digits; false when one stands elsewhere.
bool drop_underscores(std::string& digits) {
    std::string kept;
    for (size_t at = 0; at < digits.size(); ++at) {
        if (digits[at] != '_') {
            kept += digits[at];
            continue;
        }
        const bool is_between = at > 0 && at + 1 < digits.size() &&
                                std::isalnum(static_cast<unsigned char>(digits[at - 1])) != 0 &&
                                std::isalnum(static_cast<unsigned char>(digits[at + 1])) != 0;
        if (!is_between) return false;
    }
    digits = std::move(kept);
    return true;
}

int digit_of(char character) {
    if (character >= '0' && character <= '9') return character - '0';
    if (character >= 'a' && character <= 'z') return character - 'a' + 10;
    if (character >= 'A' && character <= 'Z') return character - 'A' + 10;
    return 99;
}

// Removes a prefix like 0x that fits the base (0: any) and gives the base that the digits are in.
int strip_prefix(std::string& digits, int base) {
    if (digits.size() > 1 && digits[0] == '0') {
        const char letter = static_cast<char>(std::tolower(static_cast<unsigned char>(digits[1])));
        const int named = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
        if (named != 0 && (base == named || base == 0)) {
            digits.erase(0, 2);
            if (!digits.empty() && digits[0] == '_') digits.erase(0, 1);
            return named;
        }
    }
    return base == 0 ? 10 : base;
}

}  // namespace

std::string integer_text(Integer value) {
    std::string digits;
    UnsignedInteger rest = value < 0 ? -static_cast<UnsignedInteger>(value) : static_cast<UnsignedInteger>(value);
    do {
        digits += static_cast<char>('0' + static_cast<int>(rest % 10));
        rest /= 10;
    } while (rest != 0);
    if (value < 0) digits += '-';
    std::reverse(digits.begin(), digits.end());
    return digits;
}

std::string real_text(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
    char buffer[64];
    const auto written = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
    const std::string_view shortest(buffer, static_cast<size_t>(written.ptr - buffer));
    const size_t mark = shortest.find('e');
    int exponent = 0;
    const size_t sign = shortest[mark + 1] == '+' ? 2 : 1;
    std::from_chars(shortest.data() + mark + sign, shortest.data() + shortest.size(), exponent);
    std::string digits;
    for (const char character : shortest.substr(0, mark)) {
        if (character >= '0' && character <= '9') digits += character;
    }
    std::string text = std::signbit(value) ? "-" : "";
    const int count = static_cast<int>(digits.size());
    if (exponent < -4 || exponent >= 16) {
        text += digits[0];
        if (count > 1) text += "." + digits.substr(1);
        return text + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
    }
    if (exponent < 0) return text + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
    if (count <= exponent + 1)
        return text + digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
    return text + digits.substr(0, static_cast<size_t>(exponent) + 1) + "." +
           digits.substr(static_cast<size_t>(exponent) + 1);
}

std::optional<Integer> parse_integer(const Text& text, int base) {
    if (base != 0 && (base < 2 || base > 36)) fail("int() base must be >= 2 and <= 36, or 0");
    auto plain = plain_number(text);
    if (!plain) return std::nullopt;
    std::string digits = std::move(*plain);
    const bool is_negative = digits[0] == '-';
    if (digits[0] == '-' || digits[0] == '+') digits.erase(0, 1);
    const int radix = strip_prefix(digits, base);
    if (digits.empty() || !drop_underscores(digits)) return std::nullopt;
    if (base == 0 && radix == 10 && digits[0] == '0' && digits.find_first_not_of('0') != std::string::npos)
        return std::nullopt;
    Integer value = 0;
    bool is_too_large = false;
    for (const char character : digits) {
        if (digit_of(character) >= radix) return std::nullopt;
        is_too_large |= __builtin_mul_overflow(value, Integer{radix}, &value);
        is_too_large |= __builtin_add_overflow(value, Integer{digit_of(character)}, &value);
    }
    if (is_too_large) fail("an integer has more than 128 bits");
    return is_negative ? -value : value;
}

std::optional<double> parse_real(const Text& text) {
    auto plain = plain_number(text);
    if (!plain) return std::nullopt;
    std::string digits = std::move(*plain);
    const bool is_negative = digits[0] == '-';
    if (digits[0] == '-' || digits[0] == '+') digits.erase(0, 1);
    if (!drop_underscores(digits) || digits.empty()) return std::nullopt;
    std::string lower = digits;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char byte) { return static_cast<char>(std::tolower(byte)); });
    double value = 0;
    if (lower == "inf" || lower == "infinity") {
        value = std::numeric_limits<double>::infinity();
    } else if (lower == "nan") {
        value = std::numeric_limits<double>::quiet_NaN();
    } else {
        if (lower[0] != '.' && (lower[0] < '0' || lower[0] > '9')) return std::nullopt;
        const auto read = std::from_chars(lower.data(), lower.data() + lower.size(), value);
        if (read.ptr != lower.data() + lower.size() || read.ec == std::errc::invalid_argument) return std::nullopt;
        // Out of range: Python gives infinity or zero, as strtod does.
        if (read.ec == std::errc::result_out_of_range) value = std::strtod(lower.c_str(), nullptr);
    }
    return is_negative ? -value : value;
}

Integer truncate_real(double value) {
    if (std::isnan(value)) fail("cannot convert float NaN to integer");
    if (std::isinf(value)) fail("cannot convert float infinity to integer");
    if (std::fabs(value) >= 0x1p126) fail("an integer has more than 128 bits");
    return static_cast<Integer>(value);
}

}  // namespace gemmatrace::text::jinja
