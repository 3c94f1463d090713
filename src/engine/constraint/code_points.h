// Sets of characters, and how each character of a set is written: as itself, or escaped inside a JSON string.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/constraint/grammar.h"

namespace gemmatrace::engine {

// Code points as sorted ranges that do not touch. Surrogates are no characters and never in a set.
class CodePointSet {
  public:
    using Range = std::pair<uint32_t, uint32_t>;  // first and last

    CodePointSet() = default;
    CodePointSet(std::initializer_list<Range> ranges);
    explicit CodePointSet(std::vector<Range> ranges);

    static CodePointSet all() { return {{0, 0x10FFFF}}; }
    static CodePointSet ascii() { return {{0, 0x7F}}; }

    void add(uint32_t first, uint32_t last);
    void add(const CodePointSet& other);
    CodePointSet complement() const;
    CodePointSet without(const CodePointSet& other) const;
    bool contains(uint32_t code_point) const;
    bool is_empty() const { return ranges_.empty(); }
    const std::vector<Range>& ranges() const { return ranges_; }
    auto operator<=>(const CodePointSet&) const = default;

  private:
    void normalize();

    std::vector<Range> ranges_;
};

// How text is written.
enum class TextForm {
    plain,        // UTF-8 as it is
    json_string,  // inside a JSON string: quote, backslash and control characters as their escapes
};

// Makes nodes for characters; remembers the sets it has met.
class CharacterNodes {
  public:
    explicit CharacterNodes(GrammarBuilder& builder) : builder_(builder) {}

    // One character of the set, written in one way.
    NodeId of_set(const CodePointSet& set, TextForm form);
    // One character of a JSON string, in any way that JSON has of writing it.
    NodeId any_in_json_string();

  private:
    NodeId plain(const CodePointSet& set);
    void add_range(uint32_t first, uint32_t last, std::vector<NodeId>& options);
    NodeId json_string(const CodePointSet& set);

    GrammarBuilder& builder_;
    std::map<std::pair<CodePointSet, TextForm>, NodeId> known_;
    NodeId any_in_json_string_ = kNoNode;
};

}  // namespace gemmatrace::engine
