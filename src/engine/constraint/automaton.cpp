// Expanding places of a grammar until every one stands before a byte, a control token or the end.
#include "engine/constraint/automaton.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/random.h"

namespace gemmatrace::engine {
namespace {

constexpr uint64_t kHasEmitted = uint64_t{1} << 63;  // members: the next one needs a separator

bool is_leaf(NodeKind kind) { return kind == NodeKind::bytes || kind == NodeKind::literal || kind == NodeKind::symbol; }

}  // namespace

size_t Automaton::FrameHash::operator()(const Frame& frame) const {
    const uint64_t place = (uint64_t{frame.node} << 32) | frame.parent;
    return mix_bits(mix_bits(place) ^ frame.number ^ (uint64_t{frame.nesting} << 48));
}

Automaton::Automaton(GrammarPtr grammar) : grammar_(std::move(grammar)), class_count_(grammar_->byte_class_count()) {
    frames_.push_back({});
}

StateId Automaton::start() { return close({{grammar_->root(), kBottom}}, {}); }

std::span<const Automaton::Place> Automaton::places(StateId state) const {
    return std::span(all_places_).subspan(states_[state].first_place, states_[state].place_count);
}

StateId Automaton::make_step(StateId state, uint32_t byte_class) {
    const uint8_t byte = grammar_->class_byte(byte_class);
    std::vector<Task> tasks;
    std::vector<Place> next;
    constexpr uint64_t kPlacesAStep = 8;  // looking at a place is cheap beside expanding one
    steps_left_ -= std::min<uint64_t>(steps_left_, states_[state].place_count / kPlacesAStep);
    for (const Place& place : places(state)) {
        if (place.node == kNoNode) continue;
        const Node& node = grammar_->node(place.node);
        if (node.kind == NodeKind::bytes) {
            if (grammar_->byte_set(node).test(byte)) tasks.push_back({kNoNode, place.frame});
        } else if (node.kind == NodeKind::literal && static_cast<uint8_t>(node.literal[place.offset]) == byte) {
            if (place.offset + 1 < node.literal.size()) {
                next.push_back({place.node, place.offset + 1, place.frame});
            } else {
                tasks.push_back({kNoNode, place.frame});
            }
        }
    }
    const StateId target = close(std::move(tasks), std::move(next));
    transitions_[size_t{state} * class_count_ + byte_class] = target;
    return target;
}

StateId Automaton::step_symbol(StateId state, int32_t symbol) {
    std::vector<Task> tasks;
    for (const Place& place : places(state)) {
        if (place.node == kNoNode) continue;
        const Node& node = grammar_->node(place.node);
        if (node.kind == NodeKind::symbol && node.symbol == symbol) tasks.push_back({kNoNode, place.frame});
    }
    return close(std::move(tasks), {});
}

std::vector<int32_t> Automaton::symbols(StateId state) const {
    std::vector<int32_t> ids;
    for (const Place& place : places(state)) {
        if (place.node == kNoNode) continue;
        const Node& node = grammar_->node(place.node);
        if (node.kind == NodeKind::symbol) ids.push_back(node.symbol);
    }
    return ids;
}

// Expands tasks until only leaves are left. A task met before is not expanded again, which also ends loops of parts
// that match nothing.
StateId Automaton::close(std::vector<Task> tasks, std::vector<Place> places) {
    constexpr size_t kManyBuckets = 4096;  // clearing costs by the bucket, so one wide closure must not burden all
    if (seen_.bucket_count() > kManyBuckets) {
        seen_ = {};
    } else {
        seen_.clear();
    }
    while (!tasks.empty()) {
        const Task task = tasks.back();
        tasks.pop_back();
        if (!seen_.insert((uint64_t{task.node} << 32) | task.frame).second) continue;
        if (steps_left_ == 0) {
            throw Error(ErrorCode::unsupported, "the format can be read in too many ways to follow them all", {},
                        "make the pattern or the alternatives of the schema less ambiguous");
        }
        --steps_left_;
        if (task.node == kNoNode) {
            resume(task.frame, tasks, places);
        } else {
            expand(task, tasks, places);
        }
    }
    if (places.empty()) return kDead;
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    return intern_state(places);
}

StateId Automaton::intern_state(const std::vector<Place>& places) {
    uint64_t hash = places.size();
    for (const Place& place : places) {
        hash = mix_bits(hash ^ ((uint64_t{place.node} << 32) | place.frame)) + place.offset;
    }
    const auto [first, last] = states_by_hash_.equal_range(hash);
    for (auto known = first; known != last; ++known) {
        if (std::ranges::equal(this->places(known->second), places)) return known->second;
    }
    State state;
    state.first_place = all_places_.size();
    state.place_count = static_cast<uint32_t>(places.size());
    for (const Place& place : places) {
        const bool is_end = place.node == kNoNode;
        state.may_end = state.may_end || is_end;
        state.takes_bytes = state.takes_bytes || (!is_end && grammar_->node(place.node).kind != NodeKind::symbol);
    }
    const auto id = static_cast<StateId>(states_.size());
    states_.push_back(state);
    all_places_.insert(all_places_.end(), places.begin(), places.end());
    transitions_.resize(transitions_.size() + class_count_, kUnknown);
    states_by_hash_.emplace(hash, id);
    memory_bytes_ += places.size() * sizeof(Place) + class_count_ * sizeof(StateId) + 80;
    // Steps also stand for what is stored, so that a limit on them is one on memory.
    steps_left_ -= std::min<uint64_t>(steps_left_, places.size() + class_count_ / 4 + 8);
    return id;
}

Automaton::FrameId Automaton::push(NodeId node, uint64_t number, FrameId parent, uint32_t nesting) {
    const Frame frame{node, parent, number, nesting};
    const auto [known, is_new] = frame_numbers_.try_emplace(frame, static_cast<FrameId>(frames_.size()));
    if (is_new) {
        frames_.push_back(frame);
        memory_bytes_ += 3 * sizeof(Frame);
    }
    return known->second;
}

void Automaton::expand(const Task& task, std::vector<Task>& tasks, std::vector<Place>& places) {
    // Only what can be finished within the levels left is begun, so that no text ever gets stuck.
    if (frames_[task.frame].nesting + grammar_->height(task.node) > grammar_->max_nesting()) return;
    const Node& node = grammar_->node(task.node);
    if (is_leaf(node.kind)) {
        places.push_back({task.node, 0, task.frame});
        return;
    }
    switch (node.kind) {
        case NodeKind::empty:
            tasks.push_back({kNoNode, task.frame});
            break;
        case NodeKind::sequence:
            continue_sequence(task.node, 0, task.frame, tasks);
            break;
        case NodeKind::choice:
            for (const NodeId child : node.children) tasks.push_back({child, task.frame});
            break;
        case NodeKind::series:
            continue_series(task.node, 0, task.frame, tasks);
            break;
        case NodeKind::members:
            continue_members(task.node, 0, task.frame, tasks);
            break;
        case NodeKind::rule:
            tasks.push_back({node.item, push(task.node, 0, task.frame, frames_[task.frame].nesting + 1)});
            break;
        default:
            break;
    }
}

void Automaton::resume(FrameId frame_id, std::vector<Task>& tasks, std::vector<Place>& places) {
    if (frame_id == kBottom) {
        places.push_back({});
        return;
    }
    const Frame frame = frames_[frame_id];
    switch (grammar_->node(frame.node).kind) {
        case NodeKind::sequence:
            continue_sequence(frame.node, frame.number, frame.parent, tasks);
            break;
        case NodeKind::series:
            continue_series(frame.node, frame.number, frame.parent, tasks);
            break;
        case NodeKind::members:
            continue_members(frame.node, frame.number, frame.parent, tasks);
            break;
        default:  // a rule ends with its body
            tasks.push_back({kNoNode, frame.parent});
            break;
    }
}

void Automaton::continue_sequence(NodeId sequence, uint64_t next, FrameId parent, std::vector<Task>& tasks) {
    const std::vector<NodeId>& children = grammar_->node(sequence).children;
    const bool is_last = next + 1 == children.size();
    tasks.push_back({children[next], is_last ? parent : push(sequence, next + 1, parent)});
}

void Automaton::continue_series(NodeId series, uint64_t count, FrameId parent, std::vector<Task>& tasks) {
    const Node& node = grammar_->node(series);
    if (count >= node.min) tasks.push_back({kNoNode, parent});
    if (count >= node.max) return;
    const bool is_first = count < node.children.size();
    const NodeId element = is_first     ? (count == 0 ? node.children : node.followers)[count]
                           : count == 0 ? node.item
                                        : node.item_follower;
    if (element == kNoNode) return;
    // Without an upper limit, counting stops where it no longer matters, so that states stay few.
    const uint64_t enough = std::max<uint64_t>({node.min, node.children.size(), 1});
    const uint64_t next = node.max == kUnbounded ? std::min(count + 1, enough) : count + 1;
    tasks.push_back({element, push(series, next, parent)});
}

// number: bit 63 says that some member has been. In order, the rest is the first child that may still come; in any
// order, bit i says that child i has been.
void Automaton::continue_members(NodeId members, uint64_t number, FrameId parent, std::vector<Task>& tasks) {
    const Node& node = grammar_->node(members);
    const bool has_emitted = (number & kHasEmitted) != 0;
    const uint64_t progress = number & ~kHasEmitted;
    const std::vector<NodeId>& elements = has_emitted ? node.followers : node.children;
    bool is_complete = true;
    for (size_t index = node.is_ordered ? progress : 0; index < elements.size(); ++index) {
        if (!node.is_ordered && ((progress >> index) & 1) != 0) continue;
        const uint64_t after = node.is_ordered ? index + 1 : progress | (uint64_t{1} << index);
        tasks.push_back({elements[index], push(members, after | kHasEmitted, parent)});
        if (!node.required[index]) continue;
        is_complete = false;
        if (node.is_ordered) break;
    }
    // Only behind the required ones: who invents names instead of giving those would go on without end.
    if (node.item != kNoNode && is_complete) {
        const uint64_t after = node.is_ordered ? elements.size() : progress;
        tasks.push_back({has_emitted ? node.item_follower : node.item, push(members, after | kHasEmitted, parent)});
    }
    if (is_complete && (has_emitted || !node.needs_one)) tasks.push_back({kNoNode, parent});
}

StateId Automaton::adopt(const Automaton& other, StateId state) {
    std::vector<Place> places;
    for (Place place : other.places(state)) {
        std::vector<FrameId> chain;
        for (FrameId frame = place.frame; frame != kBottom; frame = other.frames_[frame].parent) chain.push_back(frame);
        FrameId copied = kBottom;
        for (size_t index = chain.size(); index-- > 0;) {
            const Frame& frame = other.frames_[chain[index]];
            copied = push(frame.node, frame.number, copied, frame.nesting);
        }
        place.frame = copied;
        places.push_back(place);
    }
    std::sort(places.begin(), places.end());
    return intern_state(places);
}

}  // namespace gemmatrace::engine
