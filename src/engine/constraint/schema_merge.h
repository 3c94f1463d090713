// Two schemas as one that asks for both.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "engine/constraint/schema_keywords.h"

namespace gemmatrace::engine {

// A schema that a value satisfies exactly when it satisfies both. Neither may have $ref or allOf at its top; below, the
// result may hold allOf where both speak of one member. Complains where two keywords cannot be made one.
nlohmann::ordered_json merge_schemas(const nlohmann::ordered_json& one, const nlohmann::ordered_json& other,
                                     const SchemaPlace& place, const SchemaProblems& problems);

// Whether no value that is generated from one of the schemas can satisfy the other: by their types, their listed
// values, or a member that both require with different listed values. Neither may have $ref or allOf at its top.
bool are_disjoint(const nlohmann::ordered_json& one, const nlohmann::ordered_json& other, const SchemaPlace& place,
                  const SchemaProblems& problems);

}  // namespace gemmatrace::engine
