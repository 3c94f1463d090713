// Building a grammar and measuring it: which nodes can end, how deep, and which bytes it tells apart.
#include "engine/constraint/grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace gemmatrace::engine {
namespace {

NodeId or_no_node(bool is_absent, NodeId node) { return is_absent ? kNoNode : node; }

}  // namespace

GrammarBuilder::GrammarBuilder(const ConstraintLimits& limits)
    : grammar_(std::make_shared<Grammar>()), max_nodes_(limits.max_nodes) {
    grammar_->max_nesting_ = limits.max_nesting;
    grammar_->max_steps_ = limits.max_steps;
    add(Node{});
    Node nothing;
    nothing.kind = NodeKind::empty;
    add(std::move(nothing));
}

NodeId GrammarBuilder::add(Node node) {
    if (grammar_->nodes_.size() >= max_nodes_) {
        throw Error(ErrorCode::bad_request, fmt::format("the format is too large: more than {} parts", max_nodes_), {},
                    "give a smaller schema or pattern");
    }
    grammar_->nodes_.push_back(std::move(node));
    return static_cast<NodeId>(grammar_->nodes_.size() - 1);
}

NodeId GrammarBuilder::bytes(const ByteSet& set) {
    if (set.none()) return never();
    const auto number = static_cast<uint32_t>(grammar_->byte_sets_.size());
    const auto [known, is_new] = set_numbers_.try_emplace(set.to_string(), number);
    if (!is_new) return set_nodes_.at(known->second);
    grammar_->byte_sets_.push_back(set);
    Node node;
    node.kind = NodeKind::bytes;
    node.byte_set = number;
    return set_nodes_[number] = add(std::move(node));
}

NodeId GrammarBuilder::byte_range(uint8_t first, uint8_t last) {
    ByteSet set;
    for (int byte = first; byte <= last; ++byte) set.set(static_cast<size_t>(byte));
    return bytes(set);
}

NodeId GrammarBuilder::literal(std::string_view text) {
    if (text.empty()) return empty();
    if (text.size() == 1) {
        const auto byte = static_cast<uint8_t>(text.front());
        return byte_range(byte, byte);
    }
    const auto known = literals_.find(text);
    if (known != literals_.end()) return known->second;
    for (const char letter : text) literal({&letter, 1});  // so that its bytes get classes
    Node node;
    node.kind = NodeKind::literal;
    node.literal = text;
    return literals_[std::string(text)] = add(std::move(node));
}

NodeId GrammarBuilder::symbol(int32_t id) {
    Node node;
    node.kind = NodeKind::symbol;
    node.symbol = id;
    return add(std::move(node));
}

// The text that a node is, when it is just one; else empty.
std::string GrammarBuilder::text_of(NodeId id) const {
    const Node& node = grammar_->nodes_[id];
    if (node.kind == NodeKind::literal) return node.literal;
    if (node.kind != NodeKind::bytes) return {};
    const ByteSet& set = grammar_->byte_sets_[node.byte_set];
    if (set.count() != 1) return {};
    size_t byte = 0;
    while (!set.test(byte)) ++byte;
    return std::string(1, static_cast<char>(byte));
}

NodeId GrammarBuilder::sequence(const std::vector<NodeId>& parts) {
    std::vector<NodeId> flat;
    for (const NodeId part : parts) {
        if (is_never(part)) return never();
        const Node& node = grammar_->nodes_[part];
        if (node.kind == NodeKind::sequence) {
            flat.insert(flat.end(), node.children.begin(), node.children.end());
        } else if (node.kind != NodeKind::empty) {
            flat.push_back(part);
        }
    }
    std::vector<NodeId> kept;
    std::string pending;  // adjacent bytes become one literal
    const auto flush = [&] {
        if (!pending.empty()) kept.push_back(literal(std::exchange(pending, {})));
    };
    for (const NodeId part : flat) {
        const std::string text = text_of(part);
        pending += text;
        if (!text.empty()) continue;
        flush();
        kept.push_back(part);
    }
    flush();
    if (kept.empty()) return empty();
    if (kept.size() == 1) return kept.front();
    Node node;
    node.kind = NodeKind::sequence;
    node.children = std::move(kept);
    return add(std::move(node));
}

NodeId GrammarBuilder::choice(const std::vector<NodeId>& options) {
    std::vector<NodeId> kept;
    ByteSet set;
    for (const NodeId option : options) {
        const Node& node = grammar_->nodes_[option];
        if (node.kind == NodeKind::bytes) {
            set |= grammar_->byte_sets_[node.byte_set];
        } else if (node.kind == NodeKind::choice) {
            kept.insert(kept.end(), node.children.begin(), node.children.end());
        } else if (node.kind != NodeKind::never) {
            kept.push_back(option);
        }
    }
    if (set.any()) kept.push_back(bytes(set));
    std::sort(kept.begin(), kept.end());
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
    if (kept.empty()) return never();
    if (kept.size() == 1) return kept.front();
    Node node;
    node.kind = NodeKind::choice;
    node.children = std::move(kept);
    return add(std::move(node));
}

NodeId GrammarBuilder::series(const std::vector<NodeId>& first, NodeId item, NodeId separator, uint64_t min,
                              uint64_t max) {
    if (min > max) return never();
    if (max == 0) return empty();
    if (first.empty() && min == 1 && max == 1) return item;
    const bool has_no_more = item == kNoNode || is_never(item);
    if (has_no_more && min > first.size()) return never();
    Node node;
    node.kind = NodeKind::series;
    node.children = first;
    node.item = or_no_node(has_no_more, item);
    for (const NodeId child : first) node.followers.push_back(sequence({separator, child}));
    node.item_follower = or_no_node(has_no_more, has_no_more ? kNoNode : sequence({separator, item}));
    node.min = min;
    node.max = max;
    return add(std::move(node));
}

NodeId GrammarBuilder::members(const std::vector<Member>& given, NodeId additional, NodeId separator, bool is_ordered,
                               bool needs_one) {
    constexpr size_t kMaskBits = 63;  // in any order, a frame's number says which members have been
    Node node;
    node.kind = NodeKind::members;
    for (const Member& member : given) {
        if (is_never(member.node)) {
            if (member.is_required) return never();
            continue;
        }
        node.children.push_back(member.node);
        node.followers.push_back(sequence({separator, member.node}));
        node.required.push_back(member.is_required);
    }
    const bool has_no_more = additional == kNoNode || is_never(additional);
    node.item = or_no_node(has_no_more, additional);
    node.item_follower = or_no_node(has_no_more, has_no_more ? kNoNode : sequence({separator, additional}));
    node.is_ordered = is_ordered || node.children.size() > kMaskBits;
    node.needs_one = needs_one;
    if (node.children.empty() && has_no_more) return needs_one ? never() : empty();
    return add(std::move(node));
}

NodeId GrammarBuilder::declare_rule() {
    Node node;
    node.kind = NodeKind::rule;
    return add(std::move(node));
}

void GrammarBuilder::define_rule(NodeId rule, NodeId body) { grammar_->nodes_[rule].item = body; }

GrammarPtr GrammarBuilder::finish(NodeId root) {
    grammar_->root_ = root;
    grammar_->measure_heights();
    if (grammar_->height(root) > grammar_->max_nesting_) {
        throw Error(ErrorCode::bad_request,
                    fmt::format("no text satisfies this format within {} levels of nesting", grammar_->max_nesting_),
                    {}, "look for a schema that requires itself, or for requirements that exclude each other");
    }
    grammar_->find_byte_classes();
    return std::exchange(grammar_, nullptr);
}

// Every height begins as endless and falls until nothing changes: the smallest solution, by the number of rules on the
// shortest way. More than the levels allowed is as good as endless, which bounds the rounds.
void Grammar::measure_heights() {
    heights_.assign(nodes_.size(), kNeverEnds);
    for (bool has_changed = true; has_changed;) {
        has_changed = false;
        for (size_t id = 0; id < nodes_.size(); ++id) {
            uint32_t height = height_of(nodes_[id]);
            if (height > max_nesting_) height = kNeverEnds;
            if (height >= heights_[id]) continue;
            heights_[id] = height;
            has_changed = true;
        }
    }
}

uint32_t Grammar::height_of(const Node& node) const {
    uint32_t height = 0;
    switch (node.kind) {
        case NodeKind::never:
            return kNeverEnds;
        case NodeKind::empty:
        case NodeKind::bytes:
        case NodeKind::literal:
        case NodeKind::symbol:
            return 0;
        case NodeKind::sequence:
            for (const NodeId child : node.children) height = std::max(height, heights_[child]);
            return height;
        case NodeKind::choice:
            height = kNeverEnds;
            for (const NodeId child : node.children) height = std::min(height, heights_[child]);
            return height;
        case NodeKind::series:
            return series_height(node);
        case NodeKind::members:
            return members_height(node);
        case NodeKind::rule:
            return node.item == kNoNode ? kNeverEnds : 1 + heights_[node.item];
    }
    return kNeverEnds;
}

// The series ends as soon as it has its least number of elements. An element's follower also holds the separator, which
// is never higher.
uint32_t Grammar::series_height(const Node& node) const {
    uint32_t height = 0;
    for (uint64_t index = 0; index < node.min; ++index) {
        const bool is_first = index < node.children.size();
        const NodeId element = is_first ? node.children[index] : node.item;
        height = std::max(height, element == kNoNode ? kNeverEnds : heights_[element]);
        if (!is_first) break;
    }
    return height;
}

uint32_t Grammar::members_height(const Node& node) const {
    uint32_t of_required = 0;
    uint32_t of_any = node.item == kNoNode ? kNeverEnds : heights_[node.item];
    bool has_required = false;
    for (size_t index = 0; index < node.children.size(); ++index) {
        const uint32_t height = heights_[node.children[index]];
        of_any = std::min(of_any, height);
        if (!node.required[index]) continue;
        of_required = std::max(of_required, height);
        has_required = true;
    }
    if (has_required) return of_required;
    return node.needs_one ? of_any : 0;
}

// Two bytes are of one class when every set holds both or neither; each set splits the classes so far.
void Grammar::find_byte_classes() {
    byte_classes_.assign(256, 0);
    uint32_t count = 1;
    for (const ByteSet& set : byte_sets_) {
        std::map<std::pair<uint32_t, bool>, uint32_t> numbers;
        std::vector<uint32_t> split(256);
        for (size_t byte = 0; byte < 256; ++byte) {
            const auto key = std::make_pair(byte_classes_[byte], set.test(byte));
            split[byte] = numbers.try_emplace(key, static_cast<uint32_t>(numbers.size())).first->second;
        }
        if (numbers.size() == count) continue;
        count = static_cast<uint32_t>(numbers.size());
        byte_classes_ = std::move(split);
    }
    class_bytes_.assign(count, 0);
    for (size_t byte = 0; byte < 256; ++byte) class_bytes_[byte_classes_[byte]] = static_cast<uint8_t>(byte);
}

}  // namespace gemmatrace::engine
