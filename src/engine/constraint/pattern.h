// Regular expressions: the part of ECMA 262 that can be turned into a grammar.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/constraint/code_points.h"
#include "engine/constraint/grammar.h"

namespace gemmatrace::engine {

// A parsed expression.
struct Pattern {
    enum class Kind {
        characters,  // one of `set`
        sequence,    // `parts` in a row; without any the empty text
        choice,      // one of `parts`
        repeat,      // parts[0] from min to max times
        begin,       // ^
        end,         // $
    };
    Kind kind = Kind::sequence;
    CodePointSet set;
    std::vector<Pattern> parts;
    uint64_t min = 0;
    uint64_t max = 0;
};

// Which part of a text must match.
enum class PatternScope {
    whole,     // all of it
    anywhere,  // some stretch of it, as JSON Schema's `pattern` says; ^ and $ tie it to the ends
};

// Parses an expression and settles ^ and $, so that the result has none and describes whole texts. Throws
// Error(bad_request) for a malformed expression, Error(unsupported) for what cannot be turned into a grammar; both name
// the byte where.
Pattern parse_pattern(std::string_view text, PatternScope scope, const ConstraintLimits& limits);

// How many characters a match has at least and at most (kUnbounded).
struct PatternLength {
    uint64_t min = 0;
    uint64_t max = 0;
};
PatternLength pattern_length(const Pattern& pattern);

// Narrows the pattern to matches of min to max characters, which works when one repeat decides the length, as in
// ^[A-Z][a-z]*$. False, and the pattern as it was, when it does not, or when no match is left.
bool fit_length(Pattern& pattern, uint64_t min, uint64_t max);

// The pattern's whole matches, written in a form.
NodeId pattern_node(const Pattern& pattern, TextForm form, GrammarBuilder& builder, CharacterNodes& characters);

}  // namespace gemmatrace::engine
