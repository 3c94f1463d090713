// A grammar over bytes and control tokens as a graph of small nodes, and the builder that makes one.
#pragma once

#include <bitset>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/constraint/limits.h"

namespace gemmatrace::engine {

using NodeId = uint32_t;
inline constexpr NodeId kNoNode = std::numeric_limits<NodeId>::max();

// Which of the 256 bytes.
using ByteSet = std::bitset<256>;

enum class NodeKind : uint8_t {
    never,     // matches nothing
    empty,     // matches the empty text
    bytes,     // one byte of a set
    literal,   // exactly these bytes
    symbol,    // one control token
    sequence,  // children one after the other
    choice,    // one of the children
    series,    // so many elements with separators between them: children for the first ones, `item` for the rest
    members,   // elements that each come at most once: children, some of them required, then or between them `item`
    rule,      // `item`, one level of nesting deeper: the only way in which a grammar may refer to itself
};

// One node. Which fields count is the kind's business.
struct Node {
    NodeKind kind = NodeKind::never;
    std::vector<NodeId> children;
    std::vector<NodeId> followers;   // series, members: each child behind a separator
    NodeId item = kNoNode;           // series, members: what comes any number of times; rule: its body
    NodeId item_follower = kNoNode;  // `item` behind a separator
    std::string literal;             // literal: at least two bytes
    uint32_t byte_set = 0;           // bytes: which set of the grammar
    int32_t symbol = -1;             // symbol: the id
    uint64_t min = 0;                // series: how many elements
    uint64_t max = 0;                // series: kUnbounded for no limit
    std::vector<bool> required;      // members: one a child
    bool is_ordered = false;         // members: in the order of the children, additional ones last
    bool needs_one = false;          // members: not without any
};

inline constexpr uint64_t kUnbounded = std::numeric_limits<uint64_t>::max();

// A finished grammar: immutable, shared by all sequences that it constrains. Whatever path through it is begun can be
// finished: a node is entered only when its shortest way to the end fits the levels of nesting that are left.
class Grammar {
  public:
    NodeId root() const { return root_; }
    const Node& node(NodeId id) const { return nodes_[id]; }
    size_t size() const { return nodes_.size(); }
    const ByteSet& byte_set(const Node& node) const { return byte_sets_[node.byte_set]; }
    const std::vector<ByteSet>& byte_sets() const { return byte_sets_; }
    // Levels of nesting that the node's shortest match needs; kNeverEnds when it has none.
    uint32_t height(NodeId id) const { return heights_[id]; }
    uint32_t max_nesting() const { return max_nesting_; }
    uint64_t max_steps() const { return max_steps_; }

    // Bytes that no node tells apart share a class; classes are numbered from 0.
    uint32_t byte_class(uint8_t byte) const { return byte_classes_[byte]; }
    uint32_t byte_class_count() const { return static_cast<uint32_t>(class_bytes_.size()); }
    // One byte of the class.
    uint8_t class_byte(uint32_t byte_class) const { return class_bytes_[byte_class]; }

    static constexpr uint32_t kNeverEnds = uint32_t{1} << 30;

  private:
    friend class GrammarBuilder;
    void measure_heights();
    uint32_t height_of(const Node& node) const;
    uint32_t members_height(const Node& node) const;
    uint32_t series_height(const Node& node) const;
    void find_byte_classes();

    std::vector<Node> nodes_;
    std::vector<ByteSet> byte_sets_;
    std::vector<uint32_t> heights_;
    std::vector<uint32_t> byte_classes_;
    std::vector<uint8_t> class_bytes_;
    NodeId root_ = 0;
    uint32_t max_nesting_ = 0;
    uint64_t max_steps_ = 0;
};

using GrammarPtr = std::shared_ptr<const Grammar>;

// Makes the nodes of a grammar, simplifying as it goes. Throws Error(bad_request) when the grammar outgrows
// limits.max_nodes.
class GrammarBuilder {
  public:
    explicit GrammarBuilder(const ConstraintLimits& limits);

    NodeId never() const { return 0; }
    NodeId empty() const { return 1; }
    bool is_never(NodeId id) const { return grammar_->nodes_[id].kind == NodeKind::never; }
    NodeId bytes(const ByteSet& set);
    NodeId byte_range(uint8_t first, uint8_t last);
    NodeId literal(std::string_view bytes);
    NodeId symbol(int32_t id);
    NodeId sequence(const std::vector<NodeId>& parts);
    NodeId choice(const std::vector<NodeId>& options);
    NodeId optional(NodeId part) { return choice({empty(), part}); }
    // `part` from min to max times.
    NodeId repeat(NodeId part, uint64_t min, uint64_t max) { return series({}, part, empty(), min, max); }
    // Elements with separators between: the first ones as `first` says, the others `item` (kNoNode: no others).
    NodeId series(const std::vector<NodeId>& first, NodeId item, NodeId separator, uint64_t min, uint64_t max);

    struct Member {
        NodeId node = kNoNode;
        bool is_required = false;
    };
    // Each member at most once, with separators between, in the given order or in any; `additional` (or kNoNode) any
    // number of times, once the required ones are there. needs_one: at least one of all.
    NodeId members(const std::vector<Member>& given, NodeId additional, NodeId separator, bool is_ordered,
                   bool needs_one);
    // A rule may be used before it is defined.
    NodeId declare_rule();
    void define_rule(NodeId rule, NodeId body);

    // The grammar; the builder is spent. Error(bad_request) when no text matches within the levels of nesting.
    GrammarPtr finish(NodeId root);

  private:
    NodeId add(Node node);
    std::string text_of(NodeId id) const;

    std::shared_ptr<Grammar> grammar_;
    std::map<std::string, uint32_t> set_numbers_;
    std::map<std::string, NodeId, std::less<>> literals_;
    std::map<uint32_t, NodeId> set_nodes_;
    size_t max_nodes_;
};

}  // namespace gemmatrace::engine
