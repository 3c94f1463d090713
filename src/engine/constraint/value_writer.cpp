// Strings, numbers, objects and arrays as nodes, in JSON and in the arguments of tool calls.
#include "engine/constraint/value_writer.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/utf8.h"
#include "engine/constraint/number_range.h"

namespace gemmatrace::engine {
namespace {

constexpr uint64_t kMostIndent = 16;  // spaces behind a line break: bounded, so that no model stays in white space

// What separates keys and values of tool arguments, and what begins control tokens there.
const CodePointSet& key_breakers() {
    static const CodePointSet kBreakers{{0, 0x20},  {'"', '"'},   {',', ','},      {':', ':'}, {'<', '<'},
                                        {'>', '>'}, {'[', '['},   {']', ']'},      {'{', '{'}, {'|', '|'},
                                        {'}', '}'}, {0x7F, 0xA0}, {0x2028, 0x2029}};
    return kBreakers;
}

}  // namespace

// Names as a tree of characters.
struct ValueWriter::NameTree {
    std::map<uint32_t, NameTree> next;
    bool is_name = false;

    void add(std::string_view name) {
        NameTree* node = this;
        for (size_t at = 0; at < name.size();) {
            const Utf8Step step = decode_utf8(name, at);
            node = &node->next[step.code_point];
            at += static_cast<size_t>(step.length);
        }
        node->is_name = true;
    }
};

ValueWriter::ValueWriter(GrammarBuilder& builder, ValueForm form, int32_t quote)
    : builder_(builder), characters_(builder), form_(form), quote_(quote) {}

// Nothing or one space.
NodeId ValueWriter::space() {
    return form_ == ValueForm::json ? builder_.optional(builder_.literal(" ")) : builder_.empty();
}

// Nothing, one space, or a line break with an indent.
NodeId ValueWriter::inner_space() {
    if (form_ != ValueForm::json) return builder_.empty();
    if (inner_space_ != kNoNode) return inner_space_;
    const NodeId indent = builder_.repeat(builder_.literal(" "), 0, kMostIndent);
    const NodeId line = builder_.sequence({builder_.literal("\n"), indent});
    return inner_space_ = builder_.choice({builder_.empty(), builder_.literal(" "), line});
}

NodeId ValueWriter::comma() { return builder_.sequence({builder_.literal(","), inner_space()}); }

NodeId ValueWriter::quoted(NodeId content) {
    const NodeId quote = form_ == ValueForm::json ? builder_.literal("\"") : builder_.symbol(quote_);
    return builder_.sequence({quote, content, quote});
}

NodeId ValueWriter::string_of_length(uint64_t min, uint64_t max) {
    const NodeId character = form_ == ValueForm::json ? characters_.any_in_json_string()
                                                      : characters_.of_set(CodePointSet::all(), TextForm::plain);
    return quoted(builder_.repeat(character, min, max));
}

NodeId ValueWriter::literal(const nlohmann::ordered_json& value) {
    if (value.is_string() && form_ != ValueForm::json) return quoted(builder_.literal(value.get<std::string>()));
    if (value.is_array()) {
        std::vector<NodeId> elements;
        for (const auto& element : value) elements.push_back(literal(element));
        return array(elements, kNoNode, elements.size(), elements.size());
    }
    if (value.is_object()) {
        std::vector<NodeId> parts;
        for (const auto& [key, element] : value.items()) {
            if (!can_write_key(key)) return builder_.never();
            if (!parts.empty()) parts.push_back(comma());
            parts.push_back(member(key, literal(element)));
        }
        if (parts.empty()) return builder_.literal("{}");
        return enclosed("{", builder_.sequence(parts), "}");
    }
    return builder_.literal(dump_json(value));
}

NodeId ValueWriter::any_value() {
    if (any_value_ != kNoNode) return any_value_;
    any_value_ = builder_.declare_rule();
    const NodeId body = builder_.choice({builder_.literal("null"), builder_.literal("true"), builder_.literal("false"),
                                         bounded_number({}, builder_).value(), string_of_length(0, kUnbounded),
                                         any_object(), array({}, any_value_, 0, kUnbounded)});
    builder_.define_rule(any_value_, body);
    return any_value_;
}

NodeId ValueWriter::any_object() {
    if (any_object_ != kNoNode) return any_object_;
    const NodeId value = any_value();
    if (any_object_ == kNoNode) any_object_ = object({}, other_member({}, value));
    return any_object_;
}

CodePointSet ValueWriter::key_characters() const {
    const CodePointSet all = CodePointSet::all();
    if (form_ != ValueForm::json) return all.without(key_breakers());
    return all.without({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}});
}

bool ValueWriter::can_write_key(std::string_view key) const {
    if (!is_valid_utf8(key)) return false;
    if (form_ == ValueForm::json) return true;
    // Spaces inside a bare key are no doubt for a reader, at its ends they are.
    CodePointSet allowed = key_characters();
    if (key.empty() || key.front() == ' ' || key.back() == ' ') return false;
    allowed.add(' ', ' ');
    for (size_t at = 0; at < key.size();) {
        const Utf8Step step = decode_utf8(key, at);
        if (!allowed.contains(step.code_point)) return false;
        at += static_cast<size_t>(step.length);
    }
    return true;
}

NodeId ValueWriter::member(std::string_view key, NodeId value) {
    const std::string text = form_ == ValueForm::json ? dump_json(std::string(key)) : std::string(key);
    return builder_.sequence({builder_.literal(text), builder_.literal(":"), space(), value});
}

// Keys that leave the tree of names somewhere or end where no name ends. They are written without escapes: an escape
// could spell a name in a way that the tree does not see.
NodeId ValueWriter::names_other_than(const NameTree& tree, bool is_name_start) {
    const CodePointSet allowed = key_characters();
    std::vector<CodePointSet::Range> continued;
    std::vector<NodeId> options;
    for (const auto& [code_point, next] : tree.next) {
        if (!allowed.contains(code_point)) continue;
        continued.emplace_back(code_point, code_point);
        options.push_back(builder_.sequence(
            {characters_.of_set({{code_point, code_point}}, TextForm::plain), names_other_than(next, false)}));
    }
    const CodePointSet others = allowed.without(CodePointSet(std::move(continued)));
    const NodeId any_rest = builder_.repeat(characters_.of_set(allowed, TextForm::plain), 0, kUnbounded);
    options.push_back(builder_.sequence({characters_.of_set(others, TextForm::plain), any_rest}));
    const bool may_be_empty = form_ == ValueForm::json || !is_name_start;
    if (!tree.is_name && may_be_empty) options.push_back(builder_.empty());
    return builder_.choice(options);
}

NodeId ValueWriter::other_member(const std::vector<std::string>& named, NodeId value) {
    NameTree tree;
    for (const std::string& name : named) tree.add(name);
    NodeId key = names_other_than(tree, true);
    if (form_ == ValueForm::json) key = builder_.sequence({builder_.literal("\""), key, builder_.literal("\"")});
    return builder_.sequence({key, builder_.literal(":"), space(), value});
}

NodeId ValueWriter::enclosed(std::string_view open, NodeId content, std::string_view close) {
    return builder_.sequence({builder_.literal(open), inner_space(), content, inner_space(), builder_.literal(close)});
}

NodeId ValueWriter::object(const std::vector<GrammarBuilder::Member>& members, NodeId additional) {
    const bool is_ordered = form_ == ValueForm::json;
    bool may_be_empty = true;
    for (const GrammarBuilder::Member& member : members) may_be_empty = may_be_empty && !member.is_required;
    const NodeId some = enclosed("{", builder_.members(members, additional, comma(), is_ordered, true), "}");
    return may_be_empty ? builder_.choice({builder_.literal("{}"), some}) : some;
}

NodeId ValueWriter::array(const std::vector<NodeId>& first, NodeId item, uint64_t min, uint64_t max) {
    const NodeId nothing = min == 0 ? builder_.literal("[]") : builder_.never();
    const NodeId elements = builder_.series(first, item, comma(), std::max<uint64_t>(min, 1), max);
    return builder_.choice({nothing, enclosed("[", elements, "]")});
}

}  // namespace gemmatrace::engine
