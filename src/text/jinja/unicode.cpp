// Look-ups in the generated character tables.
#include "text/jinja/unicode.h"

#include <algorithm>

#include "text/jinja/unicode_data.h"

namespace gemmatrace::text::jinja {

namespace {

// The range that may hold the code point: the last that does not start after it.
template <class Range>
const Range* find_range(std::span<const Range> ranges, char32_t code_point) {
    auto after = std::upper_bound(ranges.begin(), ranges.end(), code_point,
                                  [](char32_t value, const Range& range) { return value < range.first; });
    // Ranges with a step of 2 may overlap the next one's start, so the one before is looked at too.
    for (int back = 0; back < 2 && after != ranges.begin(); ++back) {
        --after;
        if (code_point <= after->last && (code_point - after->first) % static_cast<char32_t>(after->step) == 0) {
            return &*after;
        }
    }
    return nullptr;
}

bool holds(std::span<const CharacterRange> ranges, char32_t code_point) {
    return find_range(ranges, code_point) != nullptr;
}

CaseResult map_case(const CaseTable& table, char32_t code_point) {
    CaseResult result;
    const auto found =
        std::lower_bound(table.sequences.begin(), table.sequences.end(), code_point,
                         [](const CaseSequence& entry, char32_t value) { return entry.code_point < value; });
    if (found != table.sequences.end() && found->code_point == code_point) {
        while (result.count < 3 && found->target[result.count] != 0) {
            result.code_points[result.count] = found->target[result.count];
            ++result.count;
        }
        return result;
    }
    const CaseRange* range = find_range(table.ranges, code_point);
    const int delta = range == nullptr ? 0 : range->delta;
    result.code_points[0] = static_cast<char32_t>(static_cast<int>(code_point) + delta);
    result.count = 1;
    return result;
}

}  // namespace

bool is_alpha(char32_t code_point) { return holds(kAlpha, code_point); }
bool is_decimal(char32_t code_point) { return holds(kDecimal, code_point); }
bool is_digit(char32_t code_point) { return holds(kDigit, code_point); }
bool is_numeric(char32_t code_point) { return holds(kNumeric, code_point); }
bool is_alnum(char32_t code_point) { return is_alpha(code_point) || is_numeric(code_point) || is_digit(code_point); }
bool is_printable(char32_t code_point) { return holds(kPrintable, code_point); }
bool is_lower(char32_t code_point) { return holds(kLower, code_point); }
bool is_upper(char32_t code_point) { return holds(kUpper, code_point); }
bool is_title(char32_t code_point) { return holds(kTitle, code_point); }
bool is_cased(char32_t code_point) { return holds(kCased, code_point); }
bool is_case_ignorable(char32_t code_point) { return holds(kCaseIgnorable, code_point); }
bool is_word(char32_t code_point) { return code_point == U'_' || is_alnum(code_point); }

bool is_space(char32_t code_point) {
    if (code_point < 0x80)
        return code_point == 0x20 || (code_point >= 9 && code_point <= 13) ||
               (code_point >= 0x1c && code_point <= 0x1f);
    return holds(kSpace, code_point);
}

bool is_line_break(char32_t code_point) {
    return (code_point >= 0x0a && code_point <= 0x0d) || (code_point >= 0x1c && code_point <= 0x1e) ||
           code_point == 0x85 || code_point == 0x2028 || code_point == 0x2029;
}

CaseResult to_lower(char32_t code_point) { return map_case(kToLower, code_point); }
CaseResult to_upper(char32_t code_point) { return map_case(kToUpper, code_point); }
CaseResult to_title(char32_t code_point) { return map_case(kToTitle, code_point); }
CaseResult to_fold(char32_t code_point) { return map_case(kToFold, code_point); }

int decimal_value(char32_t code_point) {
    const auto after = std::upper_bound(kDecimalZeros.begin(), kDecimalZeros.end(), code_point);
    if (after == kDecimalZeros.begin()) return -1;
    const char32_t zero = *(after - 1);
    return code_point - zero < 10 ? static_cast<int>(code_point - zero) : -1;
}

}  // namespace gemmatrace::text::jinja
