// Walks a schema: references and merges first, then alternatives, listed values and types.
#include "engine/constraint/schema_compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "engine/constraint/formats.h"
#include "engine/constraint/number_range.h"
#include "engine/constraint/schema_merge.h"

namespace gemmatrace::engine {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMaxNameBytes = 512;  // of a property
constexpr size_t kMaxBranches = 256;   // of oneOf, whose pairs are compared

ordered_json without_keyword(const ordered_json& schema, const char* keyword) {
    ordered_json rest = schema;
    rest.erase(keyword);
    return rest;
}

size_t character_count(const std::string& text) {
    size_t count = 0;
    for (size_t at = 0; at < text.size(); ++count) at += static_cast<size_t>(decode_utf8(text, at).length);
    return count;
}

NumberBounds bounds_of(const ordered_json& schema, const SchemaPlace& place, const SchemaProblems& problems) {
    NumberBounds bounds;
    bounds.minimum = number_keyword(schema, "minimum", place, problems);
    bounds.exclusive_minimum = number_keyword(schema, "exclusiveMinimum", place, problems);
    bounds.maximum = number_keyword(schema, "maximum", place, problems);
    bounds.exclusive_maximum = number_keyword(schema, "exclusiveMaximum", place, problems);
    return bounds;
}

bool is_within(const ordered_json& value, const NumberBounds& bounds) {
    return (!bounds.minimum || value >= *bounds.minimum) &&
           (!bounds.exclusive_minimum || value > *bounds.exclusive_minimum) &&
           (!bounds.maximum || value <= *bounds.maximum) &&
           (!bounds.exclusive_maximum || value < *bounds.exclusive_maximum);
}

// "%41" in a reference's fragment is "A".
std::string percent_decoded(std::string_view text) {
    std::string decoded;
    for (size_t at = 0; at < text.size(); ++at) {
        int value = 0;
        const bool is_escape =
            text[at] == '%' && at + 2 < text.size() &&
            std::sscanf(std::string(text.substr(at + 1, 2)).c_str(), "%2x", reinterpret_cast<unsigned*>(&value)) == 1;
        decoded += is_escape ? static_cast<char>(value) : text[at];
        if (is_escape) at += 2;
    }
    return decoded;
}

// One step of a JSON pointer into an object or array; null when it leads nowhere.
const ordered_json* pointer_step(const ordered_json& value, std::string token) {
    for (size_t at = token.find('~'); at != std::string::npos; at = token.find('~', at + 1)) {
        if (at + 1 >= token.size() || (token[at + 1] != '0' && token[at + 1] != '1')) return nullptr;
        token.replace(at, 2, token[at + 1] == '0' ? "~" : "/");
    }
    if (value.is_object()) return find_keyword(value, token.c_str());
    const bool is_index = value.is_array() && !token.empty() && token.size() < 9 &&
                          token.find_first_not_of("0123456789") == std::string::npos;
    if (!is_index) return nullptr;
    const size_t index = std::stoul(token);
    return index < value.size() ? &value[index] : nullptr;
}

}  // namespace

SchemaCompiler::SchemaCompiler(const Json& schema, ValueWriter& writer, Strictness strictness,
                               const ConstraintLimits& limits)
    : root_(schema), writer_(writer), problems_(strictness), limits_(limits) {
    const size_t bytes = dump_json(schema).size();
    if (bytes > limits.max_schema_bytes) {
        throw Error(ErrorCode::bad_request,
                    fmt::format("the schema has {} bytes, at most {} are read", bytes, limits.max_schema_bytes), {},
                    "give a smaller schema");
    }
}

NodeId SchemaCompiler::compile() {
    const NodeId root = value(root_, "#", 0);
    while (!undefined_rules_.empty()) {
        const auto [rule, schema] = undefined_rules_.back();
        const SchemaPlace place = undefined_places_.back();
        undefined_rules_.pop_back();
        undefined_places_.pop_back();
        writer_.builder().define_rule(rule, value(*schema, place, 0));
    }
    return root;
}

// Counts a schema looked at, with the weight of what is copied for it. False, in lenient mode, when there have been too
// many or they are too deep.
bool SchemaCompiler::charge(size_t depth, const SchemaPlace& place, size_t weight) {
    constexpr size_t kWeightAStep = 8;  // values of JSON copied or compared
    const bool is_deep = depth > limits_.max_schema_depth;
    steps_ += 1 + weight / kWeightAStep;
    if (!is_deep && steps_ <= limits_.max_schema_steps) return true;
    if (problems_.is_lenient()) return false;
    const std::string message =
        is_deep ? fmt::format("the schema is nested more than {} deep, or refers to itself without end",
                              limits_.max_schema_depth)
                : fmt::format("the schema has more than {} parts once its references and alternatives are followed",
                              limits_.max_schema_steps);
    throw Error(ErrorCode::bad_request, message, {{"at", place}}, "give a simpler schema");
}

NodeId SchemaCompiler::value(const Json& schema, const SchemaPlace& place, size_t depth) {
    if (!charge(depth, place)) return writer_.any_value();
    if (schema == false) return writer_.builder().never();
    if (schema == true) return writer_.any_value();
    if (!schema.is_object()) {
        if (problems_.is_lenient()) return writer_.any_value();
        throw Error(ErrorCode::bad_request, "a schema must be an object, true or false", {{"at", place}},
                    "correct the schema");
    }
    check_keywords(schema, place, problems_);
    if (const Json* target = find_keyword(schema, "$ref")) {
        if (!has_assertions(schema, "$ref")) return reference(*target, place);
        return value(flat(schema, place, depth), place, depth + 1);
    }
    if (schema.contains("allOf")) return value(flat(schema, place, depth), place, depth + 1);
    for (const char* keyword : {"anyOf", "oneOf"}) {
        if (array_keyword(schema, keyword, place, problems_)) return alternatives(schema, keyword, place, depth);
    }
    return constrained_value(schema, place, depth);
}

// A schema without references, merges and alternatives.
NodeId SchemaCompiler::constrained_value(const Json& schema, const SchemaPlace& place, size_t depth) {
    if (const auto values = listed_values(schema, place, problems_)) return listed(*values, schema, place);
    if (!has_assertions(schema)) return writer_.any_value();
    std::vector<NodeId> options;
    for (const std::string& type : types_of(schema, place, problems_)) {
        options.push_back(typed(type, schema, place, depth));
    }
    const Json* nullable = find_keyword(schema, "nullable");
    if (problems_.is_lenient() && nullable && *nullable == true) options.push_back(writer_.literal(nullptr));
    return writer_.builder().choice(options);
}

NodeId SchemaCompiler::alternatives(const Json& schema, const char* keyword, const SchemaPlace& place, size_t depth) {
    const Json& branches = schema.at(keyword);
    const bool is_plain = !has_assertions(schema, keyword);
    const Json base = is_plain ? Json(true) : without_keyword(schema, keyword);
    const size_t base_weight = json_weight(base);
    const SchemaPlace branch_place = inside(place, keyword);
    if (std::string_view(keyword) == "oneOf") check_one_of(branches, place, depth);
    std::vector<NodeId> options;
    for (size_t index = 0; index < branches.size(); ++index) {
        const SchemaPlace here = inside(branch_place, std::to_string(index));
        if (is_plain) {
            options.push_back(value(branches[index], here, depth + 1));
        } else {
            if (!charge(depth, place, base_weight)) return writer_.any_value();
            const Json branch = flat(branches[index], here, depth + 1);
            if (branch.is_object()) check_keywords(branch, here, problems_);
            options.push_back(value(merge_schemas(base, branch, here, problems_), here, depth + 1));
        }
    }
    return writer_.builder().choice(options);
}

void SchemaCompiler::check_one_of(const Json& branches, const SchemaPlace& place, size_t depth) {
    if (problems_.is_lenient()) return;
    if (branches.size() > kMaxBranches) {
        problems_.unsupported(place, "oneOf", fmt::format("it has more than {} branches", kMaxBranches));
    }
    std::vector<Json> flattened;
    for (size_t index = 0; index < branches.size(); ++index) {
        flattened.push_back(flat(branches[index], inside(place, "oneOf"), depth + 1));
        const size_t weight = json_weight(flattened.back());
        for (size_t earlier = 0; earlier < index; ++earlier) {
            charge(depth, place, weight);
            if (are_disjoint(flattened[earlier], flattened[index], place, problems_)) continue;
            problems_.unsupported(place, "oneOf",
                                  fmt::format("branches {} and {} might both hold; give them different types or a "
                                              "required member with different constants, or use anyOf",
                                              earlier, index));
        }
    }
}

NodeId SchemaCompiler::listed(const std::vector<Json>& values, const Json& schema, const SchemaPlace& place) {
    std::vector<NodeId> options;
    for (const Json& entry : values) {
        if (is_acceptable(entry, schema, place)) options.push_back(writer_.literal(entry));
    }
    return writer_.builder().choice(options);
}

// Whether a listed value satisfies the keywords beside the list.
bool SchemaCompiler::is_acceptable(const Json& value, const Json& schema, const SchemaPlace& place) {
    if (const auto types = stated_types(schema, place, problems_)) {
        const bool is_listed =
            std::any_of(types->begin(), types->end(), [&value](const auto& type) { return is_of_type(value, type); });
        if (!is_listed) return false;
    }
    const auto refuse = [&](std::initializer_list<const char*> keywords) {
        for (const char* keyword : keywords) {
            if (schema.contains(keyword)) problems_.unsupported(place, keyword, "it stands beside enum or const");
        }
    };
    if (value.is_object()) refuse({"properties", "required", "additionalProperties"});
    if (value.is_array()) refuse({"items", "prefixItems", "minItems", "maxItems"});
    if (value.is_number()) {
        refuse({"multipleOf"});
        return is_within(value, bounds_of(schema, place, problems_));
    }
    if (!value.is_string()) return true;
    refuse({"pattern", "format"});
    const size_t length = character_count(value.get<std::string>());
    return length >= count_keyword(schema, "minLength", place, problems_).value_or(0) &&
           length <= count_keyword(schema, "maxLength", place, problems_).value_or(kUnbounded);
}

NodeId SchemaCompiler::typed(const std::string& type, const Json& schema, const SchemaPlace& place, size_t depth) {
    GrammarBuilder& builder = writer_.builder();
    if (type == "object") return object(schema, place, depth);
    if (type == "array") return array(schema, place, depth);
    if (type == "string") return string(schema, place);
    if (type == "number" || type == "integer") return number(schema, type == "integer", place);
    if (type == "null") return builder.literal("null");
    return builder.choice({builder.literal("true"), builder.literal("false")});
}

NodeId SchemaCompiler::object(const Json& schema, const SchemaPlace& place, size_t depth) {
    const Json* properties = object_keyword(schema, "properties", place, problems_);
    const std::vector<std::string> required = required_names(schema, place, problems_);
    const Json* rest = find_keyword(schema, "additionalProperties");
    NodeId rest_value = kNoNode;  // the value of an additional member
    if (rest) {
        rest_value = value(*rest, inside(place, "additionalProperties"), depth + 1);
    } else if (!properties && required.empty()) {
        rest_value = writer_.any_value();
    }
    const std::set<std::string> required_set(required.begin(), required.end());
    const auto is_required = [&required_set](const std::string& name) { return required_set.count(name) != 0; };
    std::vector<std::string> names;
    std::set<std::string> known;
    std::vector<GrammarBuilder::Member> members;
    const auto add = [&](const std::string& name, NodeId node) {
        if (!known.insert(name).second) return;
        names.push_back(name);
        const NodeId written = member(name, is_required(name), node, place);
        if (written != kNoNode) members.push_back({written, is_required(name)});
    };
    if (properties) {
        const SchemaPlace inner = inside(place, "properties");
        for (const auto& [name, property] : properties->items()) {
            add(name, value(property, inside(inner, name), depth + 1));
        }
    }
    for (const std::string& name : required) add(name, rest ? rest_value : writer_.any_value());
    const bool has_rest = rest_value != kNoNode && !writer_.builder().is_never(rest_value);
    return writer_.object(members, has_rest ? writer_.other_member(names, rest_value) : kNoNode);
}

// The node of a member; kNoNode for an optional one whose name cannot be written.
NodeId SchemaCompiler::member(const std::string& name, bool is_required, NodeId value, const SchemaPlace& place) {
    if (name.size() > kMaxNameBytes) {
        throw Error(ErrorCode::bad_request,
                    fmt::format("a property's name has {} bytes, at most {} are read", name.size(), kMaxNameBytes),
                    {{"at", place}}, "give a shorter name");
    }
    if (writer_.can_write_key(name)) return writer_.member(name, value);
    if (is_required) problems_.unsupported(place, "required", "the name \"" + name + "\" cannot be written in a call");
    return kNoNode;
}

NodeId SchemaCompiler::array(const Json& schema, const SchemaPlace& place, size_t depth) {
    if (schema.contains("items") && schema.at("items").is_array()) {
        problems_.unsupported(place, "items", "a list of schemas belongs under prefixItems");
    }
    std::vector<NodeId> first;
    if (const Json* list = array_keyword(schema, "prefixItems", place, problems_)) {
        const SchemaPlace inner = inside(place, "prefixItems");
        for (size_t index = 0; index < list->size(); ++index) {
            first.push_back(value((*list)[index], inside(inner, std::to_string(index)), depth + 1));
        }
    }
    const uint64_t min = count_keyword(schema, "minItems", place, problems_).value_or(0);
    const uint64_t max = count_keyword(schema, "maxItems", place, problems_).value_or(kUnbounded);
    NodeId item = kNoNode;
    if (const Json* items = find_keyword(schema, "items")) {
        item = value(*items, inside(place, "items"), depth + 1);
    } else if (first.empty() || min > first.size()) {
        item = writer_.any_value();
    }
    return writer_.array(first, item, min, max);
}

NodeId SchemaCompiler::string(const Json& schema, const SchemaPlace& place) {
    const uint64_t min = count_keyword(schema, "minLength", place, problems_).value_or(0);
    const uint64_t max = count_keyword(schema, "maxLength", place, problems_).value_or(kUnbounded);
    if (min > max) return writer_.builder().never();
    const auto is_text = [](const Json* value) { return value && value->is_string(); };
    const Json* pattern = find_keyword(schema, "pattern");
    const Json* format = find_keyword(schema, "format");
    if (pattern && !is_text(pattern)) problems_.malformed(place, "pattern", "a string");
    if (format && !is_text(format)) problems_.malformed(place, "format", "a string");
    std::optional<Pattern> shape;
    if (is_text(pattern)) {
        try {
            shape = parse_pattern(pattern->get_ref<const std::string&>(), PatternScope::anywhere, limits_);
        } catch (Error& error) {
            if (!problems_.is_lenient()) throw error.add_context("at", inside(place, "pattern"));
        }
        if (format) problems_.unsupported(place, "format", "it stands beside a pattern");
    } else if (is_text(format)) {
        if (const auto known = format_pattern(format->get_ref<const std::string&>())) {
            shape = parse_pattern(*known, PatternScope::whole, limits_);
        } else {
            problems_.unsupported(place, "format",
                                  fmt::format("the formats known are {}", fmt::join(format_names(), ", ")));
        }
    }
    if (!shape) return writer_.string_of_length(min, max);
    if (!fit_length(*shape, min, max)) {
        problems_.unsupported(place, schema.contains("maxLength") ? "maxLength" : "minLength",
                              "the length cannot be combined with this pattern or format");
    }
    GrammarBuilder& builder = writer_.builder();
    return writer_.quoted(pattern_node(*shape, writer_.text_form(), builder, writer_.characters()));
}

NodeId SchemaCompiler::number(const Json& schema, bool is_integer, const SchemaPlace& place) {
    NumberBounds bounds = bounds_of(schema, place, problems_);
    if (const Json* factor = number_keyword(schema, "multipleOf", place, problems_)) {
        if (*factor == 1) {
            is_integer = true;
        } else {
            problems_.unsupported(place, "multipleOf", "only 1 is");
        }
    }
    GrammarBuilder& builder = writer_.builder();
    const std::optional<NodeId> node = is_integer ? bounded_integer(bounds, builder) : bounded_number(bounds, builder);
    if (node) return *node;
    const char* keyword = bounds.minimum             ? "minimum"
                          : bounds.exclusive_minimum ? "exclusiveMinimum"
                          : bounds.maximum           ? "maximum"
                                                     : "exclusiveMaximum";
    problems_.unsupported(place, keyword, "the bounds need more digits than are written");
    return is_integer ? *bounded_integer({}, builder) : *bounded_number({}, builder);
}

// The schema with its reference followed and its allOf merged in, as often as it takes.
ordered_json SchemaCompiler::flat(const Json& schema, const SchemaPlace& place, size_t depth) {
    if (!charge(depth, place, json_weight(schema))) return true;
    if (!schema.is_object()) {
        if (!schema.is_boolean()) value(schema, place, depth);  // complains
        return schema;
    }
    const Json* target_name = find_keyword(schema, "$ref");
    const Json* list = array_keyword(schema, "allOf", place, problems_);
    Json result = without_keyword(without_keyword(schema, "$ref"), "allOf");
    const auto merge_in = [&](const Json& part, const SchemaPlace& where) {
        const Json flat_part = flat(part, where, depth + 1);
        if (flat_part.is_object()) check_keywords(flat_part, where, problems_);
        result = merge_schemas(result, flat_part, where, problems_);
    };
    if (target_name) {
        if (const Json* target = resolve(*target_name, place)) merge_in(*target, target_name->get<std::string>());
    }
    if (!list) return result;
    for (size_t index = 0; index < list->size(); ++index) {
        merge_in((*list)[index], inside(inside(place, "allOf"), std::to_string(index)));
    }
    return result;
}

// What a reference names, or null in lenient mode when it names nothing here.
const ordered_json* SchemaCompiler::resolve(const Json& reference, const SchemaPlace& place) {
    if (!reference.is_string()) {
        problems_.malformed(place, "$ref", "a string");
        return nullptr;
    }
    const std::string& text = reference.get_ref<const std::string&>();
    if (text != "#" && !text.starts_with("#/")) {
        problems_.unsupported(place, "$ref", "only references within the schema, such as #/$defs/name, are followed");
        return nullptr;
    }
    const std::string pointer = percent_decoded(std::string_view(text).substr(1));
    const Json* target = &root_;
    for (size_t at = 0; target && at < pointer.size();) {
        const size_t end = std::min(pointer.find('/', at + 1), pointer.size());
        target = pointer_step(*target, pointer.substr(at + 1, end - at - 1));
        at = end;
    }
    if (!target) problems_.malformed(place, "$ref", "a reference to something in the schema");
    return target;
}

NodeId SchemaCompiler::reference(const Json& reference, const SchemaPlace& place) {
    const Json* target = resolve(reference, place);
    if (!target) return writer_.any_value();
    const std::string& name = reference.get_ref<const std::string&>();
    const auto known = rules_.find(name);
    if (known != rules_.end()) return known->second;
    const NodeId rule = writer_.builder().declare_rule();
    rules_[name] = rule;
    undefined_rules_.emplace_back(rule, target);
    undefined_places_.push_back(name);
    return rule;
}

}  // namespace gemmatrace::engine
