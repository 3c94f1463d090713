// Filters that make or need numbers.
#include <fmt/format.h>

#include <cmath>

#include "text/jinja/filters.h"
#include "text/jinja/format.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace gemmatrace::text::jinja {

namespace {

// float(value), or nothing where Python raises TypeError or ValueError.
std::optional<double> as_real(const Value& value) {
    if (value.is(Kind::undefined)) fail(value.as<UndefinedObject>().message);
    if (value.is_number()) return value.real();
    if (value.is(Kind::text)) return parse_real(value.text());
    return std::nullopt;
}

Value int_filter(Runtime&, const Value& self, const Arguments& arguments) {
    const Binder bound("int", arguments, {"default", "base"});
    Value otherwise = bound.get(0, Value(0));
    if (self.is_whole()) return Value(self.integer());
    if (self.is(Kind::real)) {
        if (std::isnan(self.real())) return otherwise;
        return Value(truncate_real(self.real()));
    }
    if (self.is(Kind::text)) {
        const int64_t base = bound.has(1) ? to_position(bound[1]) : 10;
        if (base == 0 || (base >= 2 && base <= 36)) {
            if (const auto whole = parse_integer(self.text(), static_cast<int>(base))) return Value(*whole);
        }
    }
    const auto real = as_real(self);
    return real && std::isfinite(*real) ? Value(truncate_real(*real)) : otherwise;
}

Value float_filter(Runtime&, const Value& self, const Arguments& arguments) {
    const Binder bound("float", arguments, {"default"});
    const auto real = as_real(self);
    return real ? Value(*real) : bound.get(0, Value(0.0));
}

Value abs_filter(Runtime&, const Value& self, const Arguments& arguments) {
    const Binder none("abs", arguments, {});
    if (self.is(Kind::real)) return Value(std::fabs(self.real()));
    if (!self.is_whole()) fail(fmt::format("bad operand type for abs(): '{}'", type_name(self)));
    return self.integer() < 0 ? negate(self) : Value(self.integer());
}

// round(value, precision) of a float: the decimal nearest to the exact binary value, ties to even.
double round_real(double value, int64_t precision) {
    if (!std::isfinite(value) || precision > 323) return value;
    if (precision < -308) return std::copysign(0.0, value);
    if (precision >= 0) return std::strtod(fmt::format("{:.{}f}", value, precision).c_str(), nullptr);
    const double unit = std::pow(10.0, static_cast<double>(-precision));
    return std::nearbyint(value / unit) * unit;
}

Integer round_whole(Integer value, int64_t precision) {
    if (precision >= 0) return value;
    if (precision < -37) return 0;
    Integer unit = 1;
    for (; precision < 0; ++precision) unit *= 10;
    const Integer rest = ((value % unit) + unit) % unit;
    const Integer down = value - rest;
    const bool is_up = rest * 2 > unit || (rest * 2 == unit && (down / unit) % 2 != 0);
    return is_up ? down + unit : down;
}

Value round_filter(Runtime&, const Value& self, const Arguments& arguments) {
    const Binder bound("round", arguments, {"precision", "method"});
    const std::string_view method = bound.has(1) && bound[1].is(Kind::text) ? bound[1].text().view()
                                    : bound.has(1)                          ? ""
                                                                            : "common";
    if (method != "common" && method != "ceil" && method != "floor") fail("method must be common, ceil or floor");
    if (!self.is_number()) fail(fmt::format("type {} doesn't define __round__ method", type_name(self)));
    const int64_t precision = bound.has(0) ? to_position(bound[0]) : 0;
    if (method == "common") {
        return self.is_whole() ? Value(round_whole(self.integer(), precision))
                               : Value(round_real(self.real(), precision));
    }
    const double unit = std::pow(10.0, static_cast<double>(precision));
    const double scaled = self.real() * unit;
    if (!std::isfinite(scaled)) fail("cannot convert float infinity or NaN to integer");
    const double whole = method == "ceil" ? std::ceil(scaled) : std::floor(scaled);
    return Value((whole == 0 ? 0.0 : whole) / unit);  // Python's ceil is an int, which has no negative zero
}

Value filesizeformat_filter(Runtime& runtime, const Value& self, const Arguments& arguments) {
    const Binder bound("filesizeformat", arguments, {"binary"});
    const bool is_binary = bound.has(0) && truth(runtime, bound[0]);
    const auto bytes = as_real(self);
    if (!bytes) fail(fmt::format("could not convert to float: {}", represent(runtime, self).view()));
    const double base = is_binary ? 1024 : 1000;
    if (*bytes == 1) return literal("1 Byte");
    if (*bytes < base) return literal(fmt::format("{} Bytes", integer_text(truncate_real(*bytes))));
    constexpr std::string_view kLetters = "kMGTPEZY";
    double unit = base;
    size_t letter = 0;
    while (letter + 1 < kLetters.size() && *bytes >= unit * base) {
        unit *= base;
        ++letter;
    }
    const char shown = is_binary && letter == 0 ? 'K' : kLetters[letter];
    return literal(fmt::format("{:.1f} {}{}", *bytes / unit, shown, is_binary ? "iB" : "B"));
}

constexpr Method kOfNumbers[] = {
    {"abs", abs_filter},     {"filesizeformat", filesizeformat_filter}, {"float", float_filter}, {"int", int_filter},
    {"round", round_filter},
};

}  // namespace

const std::span<const Method> kNumberFilters = kOfNumbers;

}  // namespace gemmatrace::text::jinja
