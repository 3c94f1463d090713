// The shape of the generated character tables.
#pragma once

#include <span>

namespace gemmatrace::text::jinja {

// Every `step`-th code point from first to last.
struct CharacterRange {
    char32_t first;
    char32_t last;
    int step;
};
// The same, with what to add to reach the other case.
struct CaseRange {
    char32_t first;
    char32_t last;
    int step;
    int delta;
};
// A code point whose other case is several.
struct CaseSequence {
    char32_t code_point;
    char32_t target[3];  // ends early with 0
};

struct CaseTable {
    std::span<const CaseRange> ranges;
    std::span<const CaseSequence> sequences;
};

extern const std::span<const CharacterRange> kAlpha, kDecimal, kDigit, kNumeric, kSpace, kPrintable, kLower, kUpper,
    kTitle, kCased, kCaseIgnorable;
extern const CaseTable kToLower, kToUpper, kToTitle, kToFold;
// The zero of each script's decimal digits.
extern const std::span<const char32_t> kDecimalZeros;

}  // namespace gemmatrace::text::jinja
