// Numbers within bounds, digit by digit.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "engine/constraint/grammar.h"

namespace gemmatrace::engine {

// The bounds of a schema, as JSON numbers; null where there is none. Of an inclusive and an exclusive bound on one side
// both hold.
struct NumberBounds {
    const nlohmann::ordered_json* minimum = nullptr;
    const nlohmann::ordered_json* exclusive_minimum = nullptr;
    const nlohmann::ordered_json* maximum = nullptr;
    const nlohmann::ordered_json* exclusive_maximum = nullptr;

    bool are_absent() const { return !minimum && !exclusive_minimum && !maximum && !exclusive_maximum; }
};

// Integers of at most 18 digits that satisfy the bounds; never when there is none. nullopt when the bounds allow only
// larger ones.
std::optional<NodeId> bounded_integer(const NumberBounds& bounds, GrammarBuilder& builder);

// Numbers that satisfy the bounds as doubles, in JSON's whole syntax with at most 18 digits before and behind the point
// and two of an exponent, where there is no bound. A bound of zero alone keeps the whole syntax; other bounds give
// decimal numbers without exponent and with at most 15 digits, which no two doubles share. nullopt when the bounds
// themselves do not fit that, e.g. 1e-20.
std::optional<NodeId> bounded_number(const NumberBounds& bounds, GrammarBuilder& builder);

}  // namespace gemmatrace::engine
