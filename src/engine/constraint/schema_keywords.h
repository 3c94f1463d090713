// The keywords of JSON Schema: which mean something here, and how to complain about the others.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/constraint/constraint.h"

namespace gemmatrace::engine {

// Where something stands in a schema: a JSON pointer such as "#/properties/name".
using SchemaPlace = std::string;

// `place` with one more step, escaped as pointers are.
SchemaPlace inside(const SchemaPlace& place, std::string_view key);

// Complaints about a schema. In lenient mode they are swallowed and the caller goes on without the keyword.
class SchemaProblems {
  public:
    explicit SchemaProblems(Strictness strictness) : strictness_(strictness) {}

    bool is_lenient() const { return strictness_ == Strictness::lenient; }
    // A keyword that cannot be enforced: Error(unsupported).
    void unsupported(const SchemaPlace& place, std::string_view keyword, std::string_view why) const;
    // A keyword whose value is not what JSON Schema says: Error(bad_request).
    void malformed(const SchemaPlace& place, std::string_view keyword, std::string_view expected) const;

  private:
    Strictness strictness_;
};

// Whether a keyword only informs: title, default, x-anything and the like.
bool is_annotation(std::string_view keyword);
// Whether the schema says anything about values, one keyword left aside.
bool has_assertions(const nlohmann::ordered_json& schema, std::string_view except = {});
// Complains about keywords that are neither enforced nor annotations.
void check_keywords(const nlohmann::ordered_json& schema, const SchemaPlace& place, const SchemaProblems& problems);

// The keyword's value, or null.
const nlohmann::ordered_json* find_keyword(const nlohmann::ordered_json& schema, const char* keyword);
// A keyword that must be a whole number from 0, a number, an array or an object; null or nullopt when absent or wrong.
std::optional<uint64_t> count_keyword(const nlohmann::ordered_json& schema, const char* keyword,
                                      const SchemaPlace& place, const SchemaProblems& problems);
const nlohmann::ordered_json* number_keyword(const nlohmann::ordered_json& schema, const char* keyword,
                                             const SchemaPlace& place, const SchemaProblems& problems);
const nlohmann::ordered_json* array_keyword(const nlohmann::ordered_json& schema, const char* keyword,
                                            const SchemaPlace& place, const SchemaProblems& problems);
const nlohmann::ordered_json* object_keyword(const nlohmann::ordered_json& schema, const char* keyword,
                                             const SchemaPlace& place, const SchemaProblems& problems);
// The strings of `required`.
std::vector<std::string> required_names(const nlohmann::ordered_json& schema, const SchemaPlace& place,
                                        const SchemaProblems& problems);

using TypeNames = std::set<std::string>;
// The names of `type`; nullopt when it is absent (or wrong, in lenient mode).
std::optional<TypeNames> stated_types(const nlohmann::ordered_json& schema, const SchemaPlace& place,
                                      const SchemaProblems& problems);
// The stated types, or those that the other keywords speak of; all when nothing tells.
TypeNames types_of(const nlohmann::ordered_json& schema, const SchemaPlace& place, const SchemaProblems& problems);
// How many values a piece of JSON holds: what copying or comparing it costs.
size_t json_weight(const nlohmann::ordered_json& value);
// Whether a value is of a type, as JSON Schema counts: 1.0 is an integer.
bool is_of_type(const nlohmann::ordered_json& value, std::string_view type);
// The values of `const` and `enum`; nullopt when there is neither.
std::optional<std::vector<nlohmann::ordered_json>> listed_values(const nlohmann::ordered_json& schema,
                                                                 const SchemaPlace& place,
                                                                 const SchemaProblems& problems);

}  // namespace gemmatrace::engine
