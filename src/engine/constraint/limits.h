// What a constraint may cost before it is refused: a request's schema or pattern is not trusted.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gemmatrace::engine {

struct ConstraintLimits {
    size_t max_schema_bytes = size_t{256} << 10;  // of one schema, as compact JSON
    size_t max_schema_depth = 48;                 // of nested schemas
    size_t max_schema_steps = 20'000;             // schemas looked at, merged ones and branches included
    size_t max_pattern_bytes = size_t{8} << 10;   // of one regular expression
    uint64_t max_repeat = 100'000;                // of a counted repeat in a regular expression
    size_t max_nodes = 200'000;                   // of a grammar
    uint32_t max_nesting = 32;                    // levels to which free or recursive values may be nested
    uint64_t max_steps = 1'000'000;               // of the automaton for one mask: bounds time and memory of ambiguity
    size_t max_cache_bytes = size_t{64} << 20;    // of what one grammar remembers: states and masks
};

}  // namespace gemmatrace::engine
