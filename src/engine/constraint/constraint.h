// Constrained decoding: from a JSON schema, a pattern or tool calls to a mask over the vocabulary at each step.
//
//   auto trie = std::make_shared<const VocabularyTrie>(tokenizer, vocab_size);              // once a model
//   auto constraint = Constraint::create(compile_json_schema(schema, limits), trie, limits); // once a schema
//   ConstraintState state(constraint);                                                       // once a sequence
//   for (;;) { mask with state.allowed(), and let end tokens through if state.may_end(); …; state.advance(id); }
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/constraint/grammar.h"
#include "engine/constraint/limits.h"
#include "engine/constraint/vocabulary_trie.h"

namespace gemmatrace::engine {

// How to meet keywords that cannot be enforced.
enum class Strictness {
    strict,   // refused, naming the keyword and where it stands; what is accepted is guaranteed
    lenient,  // passed over; the rest still holds
};

// Any JSON object: compact or with a space or a line break (and at most 16 spaces behind it) where JSON allows.
// Nested to limits.max_nesting at most.
GrammarPtr compile_json_object(const ConstraintLimits& limits);

// JSON texts that satisfy a schema; white space as above, none around the whole. In strict mode every text that ends
// validates. The texts are a part of those that validate: members come in the order in which `properties` states them,
// then required ones without a property, then additional ones; `additionalProperties` left out means none, unless the
// object has neither properties nor required members; keywords that only speak of one type make a value that type;
// numbers have at most 18 digits before and behind the point, integers at most 18 digits; keys of additional members
// are written without escapes. Enforced: type, enum, const, properties, required, additionalProperties, items,
// prefixItems, minItems, maxItems, minLength or maxLength, pattern, format (format_names), minimum, maximum and the
// exclusive ones, multipleOf 1, anyOf, oneOf of branches that cannot both hold, allOf of parts that can be merged, $ref
// within the schema. Throws Error(bad_request) for a malformed, too large or unsatisfiable schema, Error(unsupported)
// for what cannot be enforced, with the keyword and its JSON pointer.
GrammarPtr compile_json_schema(const nlohmann::ordered_json& schema, const ConstraintLimits& limits,
                               Strictness strictness = Strictness::strict);

// Texts that match a regular expression as a whole: literals, classes, groups, alternatives, repeats; `.` is any
// character but a line break; ^ and $ at the ends are allowed. Shorthand classes are ASCII. Error(bad_request) for a
// malformed one, Error(unsupported) for look-around, back references, word borders and Unicode properties.
GrammarPtr compile_regex(std::string_view pattern, const ConstraintLimits& limits);

// A function that the model may call; parameters: a JSON schema of an object, or null for none.
struct ToolFunction;

// The control tokens of a call.
struct ToolSyntax {
    int32_t call_begin = -1;  // <|tool_call>
    int32_t call_end = -1;    // <tool_call|>
    int32_t quote = -1;       // <|"|> around strings, which have no escapes

    // Looks the names up; Error(unsupported) when the tokenizer lacks one.
    static ToolSyntax of(const text::Tokenizer& tokenizer);
};

// One call of one of the functions, or several (16 at most) in a row: <|tool_call>call:NAME{key:value,…}<tool_call|>.
// Arguments satisfy the parameters' schema, read leniently; members come in any order (up to 63 of them, else in the
// stated one), because models write keys sorted, which the schema need not be. Throws Error(bad_request) when there is
// no function, a name cannot be written, or no arguments can satisfy a schema.
GrammarPtr compile_tool_calls(const std::vector<ToolFunction>& functions, bool allows_several, const ToolSyntax& syntax,
                              const ConstraintLimits& limits);

// The names that `format` may have.
std::vector<std::string_view> format_names();

// A grammar with a vocabulary, and what was learnt of them so far: states and masks, within limits.max_cache_bytes.
// Shared by sequences, on any threads.
class Constraint {
  public:
    // Throws Error(unsupported) when the vocabulary lacks a byte or token that a text of the grammar may need.
    static std::shared_ptr<Constraint> create(GrammarPtr grammar, std::shared_ptr<const VocabularyTrie> vocabulary,
                                              const ConstraintLimits& limits);
    ~Constraint();

    struct Memory;
    struct Generation;

  private:
    friend class ConstraintState;
    Constraint(GrammarPtr grammar, std::shared_ptr<const VocabularyTrie> vocabulary, const ConstraintLimits& limits);
    std::unique_ptr<Memory> memory_;
};

// Where one sequence stands. Copies go their own ways. Not for several threads at once.
class ConstraintState {
  public:
    explicit ConstraintState(std::shared_ptr<Constraint> constraint);

    // Which ids may come next: bit id % 64 of word id / 64, for all ids of the vocabulary; end tokens are not among
    // them (see may_end). Valid until the next call. At least one bit is set unless must_end. Throws
    // Error(unsupported) when the grammar is too ambiguous to be followed within limits.max_steps.
    std::span<const uint64_t> allowed();
    // The text so far is complete: an end token, any of them, may come.
    bool may_end() const { return may_end_; }
    // Nothing but the end may come.
    bool must_end() const { return must_end_; }
    // Takes the next id; end tokens are not given. Throws Error(internal) for one that is not allowed.
    void advance(int32_t id);

  private:
    void note_ends();

    std::shared_ptr<Constraint> constraint_;
    std::shared_ptr<const void> generation_;  // keeps the states alive that state_ counts in
    uint32_t state_ = 0;
    std::shared_ptr<const std::vector<uint64_t>> mask_;
    bool may_end_ = false;
    bool must_end_ = false;
};

}  // namespace gemmatrace::engine
