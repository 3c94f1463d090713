// Digits, signs, groups and padding of formatted numbers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "text/jinja/format.h"
#include "text/jinja/print.h"
#include "text/jinja/strings.h"

namespace gemmatrace::text::jinja {

namespace {

constexpr int kMaxPrecision = 100000;

std::string digits_in_base(UnsignedInteger value, unsigned base, bool is_upper) {
    std::string digits;
    do {
        const auto digit = static_cast<unsigned>(value % base);
        digits += static_cast<char>(digit < 10 ? '0' + digit : (is_upper ? 'A' : 'a') + digit - 10);
        value /= base;
    } while (value != 0);
    std::reverse(digits.begin(), digits.end());
    return digits;
}

// Puts a separator after every `size` digits, counted from the right, with zeros in front up to `width` characters.
std::string group_digits(const std::string& digits, char separator, size_t size, size_t width) {
    std::string reversed;
    size_t count = 0;
    const auto put = [&](char digit) {
        if (count > 0 && count % size == 0) reversed += separator;
        reversed += digit;
        ++count;
    };
    std::for_each(digits.rbegin(), digits.rend(), put);
    while (reversed.size() < width) {
        put('0');
    }
    return {reversed.rbegin(), reversed.rend()};
}

std::string sign_of(bool is_negative, char sign) {
    if (is_negative) return "-";
    return sign == '-' ? "" : std::string(1, sign);
}

// Joins sign, prefix, whole digits and the rest, grouped and filled as the layout says.
Text assemble(Runtime& runtime, const std::string& sign, std::string whole, const std::string& rest,
              const Layout& layout, size_t group_size) {
    const bool is_zero = layout.is_zero_filled && layout.align == 0;
    runtime.meter.check_text_size(layout.width > INT64_MAX ? SIZE_MAX : static_cast<size_t>(layout.width));
    size_t inner = 0;
    if (is_zero) {
        const size_t taken = sign.size() + rest.size();
        const auto width = static_cast<size_t>(layout.width);
        inner = width > taken ? width - taken : 0;
    }
    if (layout.grouping != 0) {
        whole = group_digits(whole, layout.grouping, group_size, inner);
    } else if (whole.size() < inner) {
        whole.insert(0, inner - whole.size(), '0');
    }
    const std::string body = whole + rest;
    const size_t size = sign.size() + body.size();
    if (layout.align == '=') {
        const size_t missing = layout.width > static_cast<Integer>(size) ? static_cast<size_t>(layout.width) - size : 0;
        TextBuilder out(runtime.meter);
        out.append(sign, Origin::template_text);
        for (size_t count = 0; count < missing; ++count) out.append(layout.fill);
        out.append(body, Origin::template_text);
        return out.build();
    }
    Layout outer = layout;
    if (outer.align == 0) outer.align = '>';
    outer.precision = -1;
    return layout_text(runtime, Text(sign + body, Origin::template_text), outer);
}

std::string printed(const char* format, int precision, double value) {
    const int size = std::snprintf(nullptr, 0, format, precision, value);
    std::string text(static_cast<size_t>(size) + 1, '\0');
    std::snprintf(text.data(), text.size(), format, precision, value);
    text.pop_back();
    return text;
}

// Python's default float style with a precision: like %g, but 'fixed' always shows a decimal.
std::string general_text(double value, int precision) {
    const int shown = std::max(precision, 1);
    const std::string scientific = printed("%.*e", shown - 1, value);
    const int exponent = std::atoi(scientific.c_str() + scientific.find('e') + 1);
    std::string text = printed("%.*g", shown, value);
    if (exponent >= shown - 1 && text.find('e') == std::string::npos) {
        std::string mantissa = scientific.substr(0, scientific.find('e'));
        if (mantissa.find('.') != std::string::npos) {
            mantissa.erase(mantissa.find_last_not_of('0') + 1);
            if (mantissa.back() == '.') mantissa.pop_back();
        }
        return mantissa + scientific.substr(scientific.find('e'));
    }
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return text;
}

std::string magnitude_text(double value, const Layout& layout) {
    if (!std::isfinite(value)) {
        const bool is_upper = layout.type == 'E' || layout.type == 'F' || layout.type == 'G';
        const std::string name = std::isnan(value) ? "nan" : "inf";
        return is_upper ? (name == "nan" ? "NAN" : "INF") : name;
    }
    if (layout.precision > kMaxPrecision) fail("precision too big");
    const int precision = layout.precision < 0 ? 6 : layout.precision;
    switch (layout.type) {
        case 'e':
            return printed(layout.is_alternate ? "%#.*e" : "%.*e", precision, value);
        case 'E':
            return printed(layout.is_alternate ? "%#.*E" : "%.*E", precision, value);
        case 'f':
        case 'F':
            return printed(layout.is_alternate ? "%#.*f" : "%.*f", precision, value);
        case 'g':
        case 'n':
            return printed(layout.is_alternate ? "%#.*g" : "%.*g", precision, value);
        case 'G':
            return printed(layout.is_alternate ? "%#.*G" : "%.*G", precision, value);
        case '%':
            return printed("%.*f", precision, value * 100) + "%";
        default:
            break;
    }
    return layout.precision < 0 ? real_text(value) : general_text(value, layout.precision);
}

}  // namespace

Text layout_integer(Runtime& runtime, Integer value, const Layout& layout) {
    const bool is_negative = value < 0;
    const UnsignedInteger magnitude =
        is_negative ? -static_cast<UnsignedInteger>(value) : static_cast<UnsignedInteger>(value);
    std::string prefix;
    unsigned base = 10;
    if (layout.type == 'x' || layout.type == 'X') base = 16;
    if (layout.type == 'o') base = 8;
    if (layout.type == 'b') base = 2;
    if (layout.is_alternate && base != 10) prefix = std::string("0") + layout.type;
    std::string digits = digits_in_base(magnitude, base, layout.type == 'X');
    if (layout.precision > kMaxPrecision) fail("precision too big");
    if (static_cast<int>(digits.size()) < layout.precision) {
        digits.insert(0, static_cast<size_t>(layout.precision) - digits.size(), '0');
    }
    Layout plain = layout;
    plain.precision = -1;
    return assemble(runtime, sign_of(is_negative, layout.sign) + prefix, digits, "", plain, base == 10 ? 3 : 4);
}

Text layout_real(Runtime& runtime, double value, const Layout& layout) {
    const bool is_negative = std::signbit(value) && !std::isnan(value);
    const std::string text = magnitude_text(std::fabs(value), layout);
    const size_t whole = std::min(text.find_first_not_of("0123456789"), text.size());
    return assemble(runtime, sign_of(is_negative, layout.sign), text.substr(0, whole), text.substr(whole), layout, 3);
}

Text layout_text(Runtime& runtime, const Text& text, const Layout& layout) {
    Text shown = text;
    if (layout.precision >= 0) shown = text.slice(0, text.offset_of(static_cast<size_t>(layout.precision)));
    const auto size = static_cast<Integer>(length(runtime, Value(shown)));
    if (layout.width <= size) return shown;
    if (layout.width > INT64_MAX) fail("width too big");
    const auto missing = static_cast<size_t>(layout.width - size);
    size_t before = 0;
    if (layout.align == '>') before = missing;
    if (layout.align == '^') before = missing / 2;
    return pad(runtime, shown, layout.width, layout.fill, before, missing - before);
}

}  // namespace gemmatrace::text::jinja
