// Merging keyword by keyword.
#include "engine/constraint/schema_merge.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace gemmatrace::engine {
namespace {

using nlohmann::ordered_json;

ordered_json list_of(const TypeNames& names) {
    ordered_json list = ordered_json::array();
    for (const std::string& name : names) list.push_back(name);
    return list;
}

// Values whose members are compared in any order, as JSON Schema does.
std::set<nlohmann::json> as_set(const std::vector<ordered_json>& values) { return {values.begin(), values.end()}; }

ordered_json both_of(const ordered_json& one, const ordered_json& other) {
    if (one == other) return one;
    ordered_json both = ordered_json::object();
    both["allOf"] = ordered_json::array();
    both["allOf"].push_back(one);
    both["allOf"].push_back(other);
    return both;
}

class SchemaMerger {
  public:
    SchemaMerger(const ordered_json& one, const ordered_json& other, const SchemaPlace& place,
                 const SchemaProblems& problems)
        : one_(one), other_(other), place_(place), problems_(problems), result_(one) {}

    ordered_json merge() {
        merge_types();
        merge_values();
        merge_objects();
        for (const auto& [keyword, value] : other_.items()) {
            if (is_annotation(keyword) || kDone.count(keyword) != 0) continue;
            merge_keyword(keyword, value);
        }
        return is_impossible_ ? ordered_json(false) : result_;
    }

  private:
    inline static const std::set<std::string> kDone{"type",       "const",    "enum",
                                                    "properties", "required", "additionalProperties"};
    inline static const std::set<std::string> kLower{"minimum", "exclusiveMinimum", "minLength", "minItems"};
    inline static const std::set<std::string> kUpper{"maximum", "exclusiveMaximum", "maxLength", "maxItems"};

    void merge_types() {
        const auto ours = stated_types(one_, place_, problems_);
        const auto theirs = stated_types(other_, place_, problems_);
        if (!theirs) return;
        TypeNames both;
        for (const std::string& type : *theirs) {
            if (!ours || ours->count(type) != 0) both.insert(type);
            if (ours && type == "integer" && ours->count("number") != 0) both.insert(type);
            if (ours && type == "number" && ours->count("integer") != 0) both.insert("integer");
        }
        is_impossible_ = is_impossible_ || both.empty();
        result_["type"] = list_of(both);
    }

    void merge_values() {
        const auto ours = listed_values(one_, place_, problems_);
        const auto theirs = listed_values(other_, place_, problems_);
        if (!theirs) return;
        ordered_json both = ordered_json::array();
        const std::set<nlohmann::json> known = ours ? as_set(*ours) : std::set<nlohmann::json>();
        for (const ordered_json& value : *theirs) {
            if (!ours || known.count(value) != 0) both.push_back(value);
        }
        is_impossible_ = is_impossible_ || both.empty();
        result_.erase("const");
        result_["enum"] = std::move(both);
    }

    // A member satisfies what each schema says of it: under `properties`, or else under `additionalProperties`.
    void merge_objects() {
        const ordered_json* ours = object_keyword(one_, "properties", place_, problems_);
        const ordered_json* theirs = object_keyword(other_, "properties", place_, problems_);
        const ordered_json* our_rest = find_keyword(one_, "additionalProperties");
        const ordered_json* their_rest = find_keyword(other_, "additionalProperties");
        if (ours || theirs) {
            ordered_json merged = ordered_json::object();
            if (ours) add_members(*ours, theirs, their_rest, merged);
            if (theirs) add_members(*theirs, ours, our_rest, merged);
            result_["properties"] = std::move(merged);
        }
        if (their_rest) {
            result_["additionalProperties"] = our_rest ? both_of(*our_rest, *their_rest) : *their_rest;
            const bool is_closed = *their_rest == false || (our_rest && *our_rest == false);
            if (is_closed) result_["additionalProperties"] = false;
        }
        std::vector<std::string> names = required_names(one_, place_, problems_);
        for (std::string& name : required_names(other_, place_, problems_)) {
            if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
        }
        if (!names.empty()) result_["required"] = names;
    }

    static void add_members(const ordered_json& members, const ordered_json* others, const ordered_json* others_rest,
                            ordered_json& merged) {
        for (const auto& [name, schema] : members.items()) {
            if (merged.contains(name)) continue;
            const ordered_json* second = others && others->contains(name) ? &others->at(name) : others_rest;
            merged[name] = second ? both_of(schema, *second) : schema;
        }
    }

    void merge_keyword(const std::string& keyword, const ordered_json& value) {
        const ordered_json* ours = find_keyword(one_, keyword.c_str());
        const bool are_tuples = keyword == "items" || keyword == "prefixItems";
        if (are_tuples && ours != nullptr && *ours == value) return;
        if (are_tuples && (one_.contains("prefixItems") || (keyword == "prefixItems" && one_.contains("items")) ||
                           (other_.contains("prefixItems") && one_.contains("items")))) {
            problems_.unsupported(place_, keyword, "lists with different beginnings cannot be merged");
            return;
        }
        if (!ours) {
            result_[keyword] = value;
        } else if (keyword == "items") {
            result_[keyword] = both_of(*ours, value);
        } else if (kLower.count(keyword) != 0 && ours->is_number() && value.is_number()) {
            if (*ours < value) result_[keyword] = value;
        } else if (kUpper.count(keyword) != 0 && ours->is_number() && value.is_number()) {
            if (value < *ours) result_[keyword] = value;
        } else if (*ours != value) {
            problems_.unsupported(place_, keyword, "two different ones apply to the same value");
        }
    }

    const ordered_json& one_;
    const ordered_json& other_;
    const SchemaPlace& place_;
    const SchemaProblems& problems_;
    ordered_json result_;
    bool is_impossible_ = false;
};

bool share_no_type(const TypeNames& ones, const TypeNames& others) {
    const auto is_number = [](const std::string& type) { return type == "number" || type == "integer"; };
    return std::none_of(ones.begin(), ones.end(), [&](const std::string& type) {
        return others.count(type) != 0 || (is_number(type) && std::any_of(others.begin(), others.end(), is_number));
    });
}

bool share_no_value(const std::vector<ordered_json>& ones, const std::vector<ordered_json>& others) {
    const std::set<nlohmann::json> known = as_set(ones);
    return std::none_of(others.begin(), others.end(),
                        [&known](const ordered_json& value) { return known.count(value) != 0; });
}

// The types that values generated from the schema have.
TypeNames generated_types(const ordered_json& schema, const SchemaPlace& place, const SchemaProblems& problems) {
    const auto values = listed_values(schema, place, problems);
    if (!values) return types_of(schema, place, problems);
    TypeNames types;
    for (const ordered_json& value : *values) {
        for (const char* type : {"array", "boolean", "null", "number", "object", "string"}) {
            if (is_of_type(value, type)) types.insert(type);
        }
    }
    return types;
}

// The types that values satisfying the schema may have.
TypeNames possible_types(const ordered_json& schema, const SchemaPlace& place, const SchemaProblems& problems) {
    if (listed_values(schema, place, problems)) return generated_types(schema, place, problems);
    if (const auto stated = stated_types(schema, place, problems)) return *stated;
    return {"array", "boolean", "null", "number", "object", "string"};
}

// Whether both are generated as objects only and a member that both require tells them apart.
bool are_told_apart_by_member(const ordered_json& one, const ordered_json& other, const SchemaPlace& place,
                              const SchemaProblems& problems) {
    const TypeNames objects{"object"};
    if (generated_types(one, place, problems) != objects || generated_types(other, place, problems) != objects) {
        return false;
    }
    const ordered_json* ours = object_keyword(one, "properties", place, problems);
    const ordered_json* theirs = object_keyword(other, "properties", place, problems);
    if (!ours || !theirs) return false;
    const std::vector<std::string> required = required_names(other, place, problems);
    for (const std::string& name : required_names(one, place, problems)) {
        if (std::find(required.begin(), required.end(), name) == required.end()) continue;
        if (!ours->contains(name) || !theirs->contains(name)) continue;
        if (!ours->at(name).is_object() || !theirs->at(name).is_object()) continue;
        const auto values = listed_values(ours->at(name), place, problems);
        const auto others = listed_values(theirs->at(name), place, problems);
        if (values && others && share_no_value(*values, *others)) return true;
    }
    return false;
}

}  // namespace

ordered_json merge_schemas(const ordered_json& one, const ordered_json& other, const SchemaPlace& place,
                           const SchemaProblems& problems) {
    if (one == false || other == false) return ordered_json(false);
    if (!one.is_object() || one == other) return other;
    if (!other.is_object()) return one;
    return SchemaMerger(one, other, place, problems).merge();
}

bool are_disjoint(const ordered_json& one, const ordered_json& other, const SchemaPlace& place,
                  const SchemaProblems& problems) {
    if (one == false || other == false) return true;
    if (!one.is_object() || !other.is_object()) return false;
    const bool is_apart =
        share_no_type(generated_types(one, place, problems), possible_types(other, place, problems)) &&
        share_no_type(generated_types(other, place, problems), possible_types(one, place, problems));
    if (is_apart) return true;
    const auto values = listed_values(one, place, problems);
    const auto others = listed_values(other, place, problems);
    if (values && others && share_no_value(*values, *others)) return true;
    return are_told_apart_by_member(one, other, place, problems);
}

}  // namespace gemmatrace::engine
