// Reading keywords one at a time, with their types checked.
#include "engine/constraint/schema_keywords.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"

namespace gemmatrace::engine {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kAnnotations[] = {
    "$comment", "$defs",       "$id",        "$schema",     "$vocabulary",   "contentEncoding", "contentMediaType",
    "default",  "definitions", "deprecated", "description", "discriminator", "example",         "examples",
    "id",       "nullable",    "readOnly",   "title",       "writeOnly"};

// Keywords with the one type of values that they speak of; "" for those of any type.
constexpr std::pair<std::string_view, std::string_view> kEnforced[] = {{"$ref", ""},
                                                                       {"allOf", ""},
                                                                       {"anyOf", ""},
                                                                       {"const", ""},
                                                                       {"enum", ""},
                                                                       {"oneOf", ""},
                                                                       {"type", ""},
                                                                       {"additionalProperties", "object"},
                                                                       {"properties", "object"},
                                                                       {"required", "object"},
                                                                       {"items", "array"},
                                                                       {"maxItems", "array"},
                                                                       {"minItems", "array"},
                                                                       {"prefixItems", "array"},
                                                                       {"format", "string"},
                                                                       {"maxLength", "string"},
                                                                       {"minLength", "string"},
                                                                       {"pattern", "string"},
                                                                       {"exclusiveMaximum", "number"},
                                                                       {"exclusiveMinimum", "number"},
                                                                       {"maximum", "number"},
                                                                       {"minimum", "number"},
                                                                       {"multipleOf", "number"}};

constexpr std::string_view kTypes[] = {"array", "boolean", "integer", "null", "number", "object", "string"};

// Whether a keyword that cannot be enforced asks for nothing anyway, such as uniqueItems: false.
bool asks_for_nothing(std::string_view keyword, const ordered_json& value) {
    if (keyword == "uniqueItems") return value == false;
    if (keyword == "minProperties" || keyword == "minContains") return value == 0;
    if (keyword == "patternProperties" || keyword == "dependentRequired" || keyword == "dependentSchemas") {
        return value.is_object() && value.empty();
    }
    const bool is_schema = keyword == "propertyNames" || keyword == "unevaluatedProperties" ||
                           keyword == "unevaluatedItems" || keyword == "additionalItems";
    return is_schema && (value == true || (value.is_object() && value.empty()));
}

const ordered_json* keyword_of_kind(const ordered_json& schema, const char* keyword,
                                    bool (*is_right)(const ordered_json&), std::string_view expected,
                                    const SchemaPlace& place, const SchemaProblems& problems) {
    const ordered_json* value = find_keyword(schema, keyword);
    if (!value || is_right(*value)) return value;
    problems.malformed(place, keyword, expected);
    return nullptr;
}

}  // namespace

SchemaPlace inside(const SchemaPlace& place, std::string_view key) {
    SchemaPlace result = place + "/";
    for (const char letter : key) {
        if (letter == '~') {
            result += "~0";
        } else if (letter == '/') {
            result += "~1";
        } else {
            result += letter;
        }
    }
    return result;
}

void SchemaProblems::unsupported(const SchemaPlace& place, std::string_view keyword, std::string_view why) const {
    if (is_lenient()) return;
    throw Error(ErrorCode::unsupported, fmt::format("the schema's keyword \"{}\" cannot be enforced: {}", keyword, why),
                {{"keyword", std::string(keyword)}, {"at", inside(place, keyword)}},
                "leave the keyword out or write the schema without it");
}

void SchemaProblems::malformed(const SchemaPlace& place, std::string_view keyword, std::string_view expected) const {
    if (is_lenient()) return;
    throw Error(ErrorCode::bad_request, fmt::format("the schema's keyword \"{}\" must be {}", keyword, expected),
                {{"keyword", std::string(keyword)}, {"at", inside(place, keyword)}}, "correct the schema");
}

bool is_annotation(std::string_view keyword) {
    return keyword.starts_with("x-") ||
           std::find(std::begin(kAnnotations), std::end(kAnnotations), keyword) != std::end(kAnnotations);
}

bool has_assertions(const ordered_json& schema, std::string_view except) {
    if (!schema.is_object()) return true;
    for (const auto& [keyword, value] : schema.items()) {
        if (keyword != except && !is_annotation(keyword)) return true;
    }
    return false;
}

void check_keywords(const ordered_json& schema, const SchemaPlace& place, const SchemaProblems& problems) {
    for (const auto& [keyword, value] : schema.items()) {
        const std::string_view name = keyword;
        const auto is_this = [name](const auto& entry) { return entry.first == name; };
        if ((name == "$id" || name == "id") && place != "#") {
            problems.unsupported(place, name, "references inside an embedded schema are not followed");
        }
        if (is_annotation(name) || std::any_of(std::begin(kEnforced), std::end(kEnforced), is_this)) continue;
        if (!asks_for_nothing(name, value)) problems.unsupported(place, name, "it is not among those supported");
    }
}

const ordered_json* find_keyword(const ordered_json& schema, const char* keyword) {
    const auto found = schema.find(keyword);
    return found == schema.end() ? nullptr : &*found;
}

std::optional<uint64_t> count_keyword(const ordered_json& schema, const char* keyword, const SchemaPlace& place,
                                      const SchemaProblems& problems) {
    const ordered_json* value = number_keyword(schema, keyword, place, problems);
    if (!value) return std::nullopt;
    constexpr double kLargest = 1e9;  // beyond it a count is as good as unlimited
    const double number = value->get<double>();
    if (number >= 0 && number == std::floor(number)) {
        return number > kLargest ? static_cast<uint64_t>(kLargest) : static_cast<uint64_t>(number);
    }
    problems.malformed(place, keyword, "a whole number from 0");
    return std::nullopt;
}

const ordered_json* number_keyword(const ordered_json& schema, const char* keyword, const SchemaPlace& place,
                                   const SchemaProblems& problems) {
    const auto is_finite_number = [](const ordered_json& value) {
        return value.is_number() && std::isfinite(value.get<double>());
    };
    return keyword_of_kind(schema, keyword, is_finite_number, "a number", place, problems);
}

const ordered_json* array_keyword(const ordered_json& schema, const char* keyword, const SchemaPlace& place,
                                  const SchemaProblems& problems) {
    const auto is_full_array = [](const ordered_json& value) { return value.is_array() && !value.empty(); };
    return keyword_of_kind(schema, keyword, is_full_array, "a list with at least one entry", place, problems);
}

const ordered_json* object_keyword(const ordered_json& schema, const char* keyword, const SchemaPlace& place,
                                   const SchemaProblems& problems) {
    const auto is_object = [](const ordered_json& value) { return value.is_object(); };
    return keyword_of_kind(schema, keyword, is_object, "an object", place, problems);
}

std::vector<std::string> required_names(const ordered_json& schema, const SchemaPlace& place,
                                        const SchemaProblems& problems) {
    std::vector<std::string> names;
    const auto is_list_of_strings = [](const ordered_json& value) {
        return value.is_array() &&
               std::all_of(value.begin(), value.end(), [](const ordered_json& name) { return name.is_string(); });
    };
    const ordered_json* list =
        keyword_of_kind(schema, "required", is_list_of_strings, "a list of strings", place, problems);
    if (!list) return names;
    for (const ordered_json& name : *list) names.push_back(name.get<std::string>());
    return names;
}

std::optional<TypeNames> stated_types(const ordered_json& schema, const SchemaPlace& place,
                                      const SchemaProblems& problems) {
    const ordered_json* type = find_keyword(schema, "type");
    if (!type) return std::nullopt;
    const ordered_json& list = *type;
    TypeNames names;
    const auto add = [&names](const ordered_json& name) {
        const bool is_known = name.is_string() && std::find(std::begin(kTypes), std::end(kTypes),
                                                            name.get_ref<const std::string&>()) != std::end(kTypes);
        if (is_known) names.insert(name.get<std::string>());
        return is_known;
    };
    const bool is_right = list.is_array() ? !list.empty() && std::all_of(list.begin(), list.end(), add) : add(list);
    if (!is_right) problems.malformed(place, "type", "a type of JSON Schema or a list of them");
    if (names.count("number") != 0) names.erase("integer");
    return names.empty() ? std::nullopt : std::optional(names);
}

TypeNames types_of(const ordered_json& schema, const SchemaPlace& place, const SchemaProblems& problems) {
    if (const std::optional<TypeNames> stated = stated_types(schema, place, problems)) return *stated;
    TypeNames names;
    for (const auto& [keyword, type] : kEnforced) {
        if (!type.empty() && schema.contains(std::string(keyword))) names.insert(std::string(type));
    }
    if (!names.empty()) return names;
    return {"array", "boolean", "null", "number", "object", "string"};
}

size_t json_weight(const ordered_json& value) {
    size_t weight = 1;
    if (!value.is_structured()) return weight;
    for (const ordered_json& element : value) weight += json_weight(element);
    return weight;
}

bool is_of_type(const ordered_json& value, std::string_view type) {
    if (type == "null") return value.is_null();
    if (type == "boolean") return value.is_boolean();
    if (type == "string") return value.is_string();
    if (type == "array") return value.is_array();
    if (type == "object") return value.is_object();
    if (type == "number") return value.is_number();
    if (value.is_number_integer()) return true;
    return value.is_number_float() && value.get<double>() == std::floor(value.get<double>());
}

std::optional<std::vector<ordered_json>> listed_values(const ordered_json& schema, const SchemaPlace& place,
                                                       const SchemaProblems& problems) {
    const ordered_json* constant = find_keyword(schema, "const");
    const ordered_json* list = array_keyword(schema, "enum", place, problems);
    if (!constant && !list) return std::nullopt;
    std::vector<ordered_json> values;
    if (list) values.assign(list->begin(), list->end());
    if (!constant) return values;
    const bool is_listed = !list || std::any_of(values.begin(), values.end(), [constant](const ordered_json& value) {
        return nlohmann::json(value) == nlohmann::json(*constant);
    });
    values.clear();
    if (is_listed) values.push_back(*constant);
    return values;
}

}  // namespace gemmatrace::engine
