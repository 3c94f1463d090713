// Decimal bounds, scaled to integers, as a graph over digits that knows on which side it still touches a bound.
#include "engine/constraint/number_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

namespace gemmatrace::engine {
namespace {

constexpr int64_t kLargestInteger = 999'999'999'999'999'999;  // 18 digits
constexpr int kExactDigits = 15;                              // decimals of so many digits are distinct doubles
constexpr int kUsualWhole = 9;                                // digits before the point on a side without a bound
constexpr int kUsualFraction = 6;                             // digits behind it, if the bounds leave room

// digits · 10^exponent, as a bound was written.
struct Decimal {
    bool is_negative = false;
    std::string digits;
    int exponent = 0;

    bool is_zero() const { return digits.find_first_not_of('0') == std::string::npos; }
};

// A number of the schema; doubles by their shortest text, which reads back as the same double.
Decimal decimal_of(const nlohmann::ordered_json& number) {
    std::string text = number.dump();
    Decimal decimal;
    decimal.is_negative = text.starts_with('-');
    if (decimal.is_negative) text.erase(0, 1);
    const size_t e = text.find_first_of("eE");
    if (e != std::string::npos) {
        decimal.exponent = std::stoi(text.substr(e + 1));  // of a double: within ±400
        text.erase(e);
    }
    const size_t point = text.find('.');
    if (point != std::string::npos) {
        decimal.exponent -= static_cast<int>(text.size() - point - 1);
        text.erase(point, 1);
    }
    while (text.size() > 1 && text.ends_with('0')) {
        text.pop_back();
        ++decimal.exponent;
    }
    decimal.digits = text;
    return decimal;
}

// The decimal times 10^scale: rounded towards zero, and whether something was cut off. Beyond 18 digits the largest.
struct Scaled {
    int64_t value = 0;
    bool is_cut = false;
    bool is_too_large = false;
};

Scaled scale(const Decimal& decimal, int scale_digits) {
    Scaled scaled;
    const int exponent = decimal.exponent + scale_digits;
    std::string digits = decimal.digits;
    if (exponent < 0) {
        const size_t cut = std::min(digits.size(), static_cast<size_t>(-exponent));
        scaled.is_cut = digits.find_first_not_of('0', digits.size() - cut) != std::string::npos;
        digits.erase(digits.size() - cut);
    } else if (!decimal.is_zero()) {
        digits.append(static_cast<size_t>(exponent), '0');
    }
    digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
    scaled.is_too_large = digits.size() > 18;
    scaled.value = digits.empty() ? 0 : scaled.is_too_large ? kLargestInteger : std::stoll(digits);
    if (decimal.is_negative) scaled.value = -scaled.value;
    return scaled;
}

// The least and greatest multiples of 10^-scale within bounds.
struct Interval {
    int64_t low = -kLargestInteger;
    int64_t high = kLargestInteger;
    bool is_beyond = false;  // a bound lies on the far side of what 18 digits reach

    void raise(const nlohmann::ordered_json* bound, int scale_digits, bool is_exclusive) {
        if (!bound) return;
        const Decimal decimal = decimal_of(*bound);
        const Scaled scaled = scale(decimal, scale_digits);
        is_beyond = is_beyond || (scaled.is_too_large && !decimal.is_negative);
        const bool steps_up = scaled.is_cut ? !decimal.is_negative : is_exclusive && !scaled.is_too_large;
        low = std::max(low, scaled.value + (steps_up ? 1 : 0));
    }
    void lower(const nlohmann::ordered_json* bound, int scale_digits, bool is_exclusive) {
        if (!bound) return;
        const Decimal decimal = decimal_of(*bound);
        const Scaled scaled = scale(decimal, scale_digits);
        is_beyond = is_beyond || (scaled.is_too_large && decimal.is_negative);
        const bool steps_down = scaled.is_cut ? decimal.is_negative : is_exclusive && !scaled.is_too_large;
        high = std::min(high, scaled.value - (steps_down ? 1 : 0));
    }
};

Interval interval_of(const NumberBounds& bounds, int scale_digits) {
    Interval interval;
    interval.raise(bounds.minimum, scale_digits, false);
    interval.raise(bounds.exclusive_minimum, scale_digits, true);
    interval.lower(bounds.maximum, scale_digits, false);
    interval.lower(bounds.exclusive_maximum, scale_digits, true);
    return interval;
}

// Numbers from low to high, both not negative and scaled by 10^fraction_digits, whose whole part has a given length.
class DigitRange {
  public:
    DigitRange(int64_t low, int64_t high, int whole_digits, int fraction_digits, GrammarBuilder& builder)
        : builder_(builder), whole_digits_(static_cast<size_t>(whole_digits)) {
        const int width = whole_digits + fraction_digits;
        low_ = fmt::format("{:0{}}", low, width);
        high_ = fmt::format("{:0{}}", high, width);
    }

    NodeId node() { return from(0, true, true); }

  private:
    // What may follow `place` digits that equal the bounds' so far where touches_low and touches_high say so.
    NodeId from(size_t place, bool touches_low, bool touches_high) {
        if (place == low_.size()) return builder_.empty();
        const auto key = std::make_tuple(place, touches_low, touches_high);
        const auto known = known_.find(key);
        if (known != known_.end()) return known->second;
        const char first = touches_low ? low_[place] : '0';
        const char last = touches_high ? high_[place] : '9';
        std::map<NodeId, ByteSet> digits_by_rest;
        for (char digit = first; digit <= last; ++digit) {
            const NodeId rest = from(place + 1, touches_low && digit == first, touches_high && digit == last);
            digits_by_rest[rest].set(static_cast<uint8_t>(digit));
        }
        std::vector<NodeId> options;
        for (const auto& [rest, digits] : digits_by_rest) {
            options.push_back(builder_.sequence({builder_.bytes(digits), rest}));
        }
        NodeId node = builder_.choice(options);
        if (place == whole_digits_) node = builder_.sequence({builder_.literal("."), node});
        // Digits left out behind the point are zeros, which may fall below the lower bound.
        const bool may_stop =
            place >= whole_digits_ && (!touches_low || low_.find_first_not_of('0', place) == std::string::npos);
        if (may_stop) node = builder_.optional(node);
        return known_[key] = node;
    }

    GrammarBuilder& builder_;
    size_t whole_digits_;
    std::string low_;
    std::string high_;
    std::map<std::tuple<size_t, bool, bool>, NodeId> known_;
};

int64_t power_of_ten(int exponent) {
    int64_t power = 1;
    for (int index = 0; index < exponent; ++index) power *= 10;
    return power;
}

NodeId unsigned_range(int64_t low, int64_t high, int fraction_digits, GrammarBuilder& builder) {
    std::vector<NodeId> options;
    const int64_t unit = power_of_ten(fraction_digits);
    for (int whole_digits = 1; whole_digits + fraction_digits <= 18; ++whole_digits) {
        const int64_t least = whole_digits == 1 ? 0 : power_of_ten(whole_digits - 1) * unit;
        const int64_t greatest = power_of_ten(whole_digits) * unit - 1;
        const int64_t from = std::max(low, least);
        const int64_t to = std::min(high, greatest);
        if (from <= to) options.push_back(DigitRange(from, to, whole_digits, fraction_digits, builder).node());
    }
    return builder.choice(options);
}

// Minus is written before what is not zero only.
NodeId signed_range(const Interval& interval, int fraction_digits, GrammarBuilder& builder) {
    std::vector<NodeId> options;
    if (interval.low > interval.high) return builder.never();
    if (interval.low < 0) {
        const NodeId magnitude =
            unsigned_range(std::max<int64_t>(1, -interval.high), -interval.low, fraction_digits, builder);
        options.push_back(builder.sequence({builder.literal("-"), magnitude}));
    }
    if (interval.high >= 0) {
        options.push_back(unsigned_range(std::max<int64_t>(0, interval.low), interval.high, fraction_digits, builder));
    }
    return builder.choice(options);
}

// A number without sign in JSON's whole syntax, at most 18 digits a part; above zero when it must be.
NodeId free_magnitude(bool is_above_zero, GrammarBuilder& builder) {
    const NodeId digit = builder.byte_range('0', '9');
    const NodeId nonzero = builder.byte_range('1', '9');
    const NodeId point = builder.literal(".");
    const NodeId whole = builder.sequence({nonzero, builder.repeat(digit, 0, 17)});
    const NodeId fraction = builder.optional(builder.sequence({point, builder.repeat(digit, 1, 18)}));
    const NodeId zero_fraction =
        builder.sequence({point, builder.repeat(builder.literal("0"), 0, 12), nonzero, builder.repeat(digit, 0, 5)});
    const NodeId sign = builder.choice({builder.empty(), builder.literal("+"), builder.literal("-")});
    const NodeId exponent = builder.optional(builder.sequence(
        {builder.choice({builder.literal("e"), builder.literal("E")}), sign, builder.repeat(digit, 1, 2)}));
    const NodeId below_one =
        builder.sequence({builder.literal("0"), is_above_zero ? zero_fraction : fraction, exponent});
    return builder.choice({builder.sequence({whole, fraction, exponent}), below_one});
}

NodeId free_number(GrammarBuilder& builder) {
    return builder.sequence({builder.optional(builder.literal("-")), free_magnitude(false, builder)});
}

// Bounds that no number in the syntax above can reach (18 digits, two of the exponent) say nothing.
NumberBounds without_far_bounds(NumberBounds bounds) {
    constexpr int kReach = 118;
    const auto drop_if_far = [](const nlohmann::ordered_json*& bound, bool is_lower) {
        if (!bound) return;
        const Decimal decimal = decimal_of(*bound);
        const bool is_far = !decimal.is_zero() && static_cast<int>(decimal.digits.size()) + decimal.exponent > kReach &&
                            decimal.digits.front() != '0';
        if (is_far && decimal.is_negative == is_lower) bound = nullptr;
    };
    drop_if_far(bounds.minimum, true);
    drop_if_far(bounds.exclusive_minimum, true);
    drop_if_far(bounds.maximum, false);
    drop_if_far(bounds.exclusive_maximum, false);
    return bounds;
}

// The bound of one side when it is zero, the other side has none, and so only the sign matters.
std::optional<NodeId> by_sign(const NumberBounds& bounds, GrammarBuilder& builder) {
    const bool has_low = bounds.minimum || bounds.exclusive_minimum;
    const bool has_high = bounds.maximum || bounds.exclusive_maximum;
    if (has_low == has_high) return std::nullopt;
    for (const nlohmann::ordered_json* bound :
         {bounds.minimum, bounds.exclusive_minimum, bounds.maximum, bounds.exclusive_maximum}) {
        if (bound && !decimal_of(*bound).is_zero()) return std::nullopt;
    }
    if (has_low) return free_magnitude(bounds.exclusive_minimum != nullptr, builder);
    const NodeId negative = builder.sequence({builder.literal("-"), free_magnitude(true, builder)});
    return bounds.exclusive_maximum ? negative : builder.choice({builder.literal("0"), negative});
}

}  // namespace

std::optional<NodeId> bounded_integer(const NumberBounds& bounds, GrammarBuilder& builder) {
    const Interval interval = interval_of(bounds, 0);
    if (interval.is_beyond) return std::nullopt;
    return signed_range(interval, 0, builder);
}

std::optional<NodeId> bounded_number(const NumberBounds& given, GrammarBuilder& builder) {
    const NumberBounds bounds = without_far_bounds(given);
    if (bounds.are_absent()) return free_number(builder);
    if (const std::optional<NodeId> node = by_sign(bounds, builder)) return node;
    int whole_digits = 1;
    int fraction_digits = 0;
    const bool has_low = bounds.minimum || bounds.exclusive_minimum;
    const bool has_high = bounds.maximum || bounds.exclusive_maximum;
    if (!has_low || !has_high) whole_digits = kUsualWhole;
    for (const nlohmann::ordered_json* bound :
         {bounds.minimum, bounds.exclusive_minimum, bounds.maximum, bounds.exclusive_maximum}) {
        if (!bound) continue;
        const Decimal decimal = decimal_of(*bound);
        if (decimal.is_zero()) continue;
        const int digits = static_cast<int>(decimal.digits.size());
        whole_digits = std::max(whole_digits, digits + decimal.exponent);
        fraction_digits = std::max(fraction_digits, -decimal.exponent);
    }
    if (whole_digits + fraction_digits > kExactDigits) return std::nullopt;
    fraction_digits = std::min(std::max(fraction_digits, kUsualFraction), kExactDigits - whole_digits);
    Interval interval = interval_of(bounds, fraction_digits);
    const int64_t largest = power_of_ten(whole_digits + fraction_digits) - 1;
    interval.low = std::max(interval.low, -largest);
    interval.high = std::min(interval.high, largest);
    return signed_range(interval, fraction_digits, builder);
}

}  // namespace gemmatrace::engine
