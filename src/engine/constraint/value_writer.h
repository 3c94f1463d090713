// How values are written: JSON, or the arguments of a Gemma 4 tool call.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/constraint/code_points.h"
#include "engine/constraint/grammar.h"

namespace gemmatrace::engine {

enum class ValueForm {
    json,            // quoted keys, escapes in strings, a little white space
    tool_arguments,  // bare keys, strings between control tokens without escapes, no white space
};

// The pieces of values as nodes, in one form. The schema compiler says which pieces; this class how they look.
class ValueWriter {
  public:
    // quote: the control token around strings of tool arguments; not used for JSON.
    ValueWriter(GrammarBuilder& builder, ValueForm form, int32_t quote);

    GrammarBuilder& builder() { return builder_; }
    CharacterNodes& characters() { return characters_; }
    TextForm text_form() const { return form_ == ValueForm::json ? TextForm::json_string : TextForm::plain; }

    // A string of min to max characters.
    NodeId string_of_length(uint64_t min, uint64_t max);
    // A string around content that is already written in text_form.
    NodeId quoted(NodeId content);
    // Exactly this value, with white space where JSON has it. Its text must be UTF-8.
    NodeId literal(const nlohmann::ordered_json& value);
    // Any JSON value or object, nested as deep as the grammar's limit allows.
    NodeId any_value();
    NodeId any_object();

    // A member: key, colon, value. can_write_key tells whether the key can be written in this form.
    bool can_write_key(std::string_view key) const;
    NodeId member(std::string_view key, NodeId value);
    // A member under any key that is none of those named.
    NodeId other_member(const std::vector<std::string>& named, NodeId value);
    NodeId object(const std::vector<GrammarBuilder::Member>& members, NodeId additional);
    // first: the elements at the beginning, item: the others (kNoNode: none).
    NodeId array(const std::vector<NodeId>& first, NodeId item, uint64_t min, uint64_t max);

  private:
    struct NameTree;

    NodeId space();
    NodeId inner_space();
    NodeId comma();
    NodeId enclosed(std::string_view open, NodeId content, std::string_view close);
    NodeId names_other_than(const NameTree& tree, bool is_name_start);
    CodePointSet key_characters() const;

    GrammarBuilder& builder_;
    CharacterNodes characters_;
    ValueForm form_;
    int32_t quote_;
    NodeId any_value_ = kNoNode;
    NodeId any_object_ = kNoNode;
    NodeId inner_space_ = kNoNode;
};

}  // namespace gemmatrace::engine
