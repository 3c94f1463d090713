// The deterministic automaton of a grammar, built as far as texts have gone: states, and where each byte leads.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/constraint/grammar.h"

namespace gemmatrace::engine {

using StateId = uint32_t;

// A state is the set of all places in the grammar where the text so far may stand. A place is a leaf of the grammar and
// a stack of frames: what is to be done behind the leaf. Frames and states are numbered and never made twice, so that
// equal states are one and what was learnt about one stays known. For one thread at a time.
class Automaton {
  public:
    explicit Automaton(GrammarPtr grammar);

    static constexpr StateId kDead = 0xffffffff;  // no text of the grammar begins so

    const Grammar& grammar() const { return *grammar_; }
    StateId start();
    // Where the byte leads from a state, or kDead. Throws Error(unsupported) once the steps granted are spent.
    StateId step(StateId state, uint8_t byte) {
        const uint32_t byte_class = grammar_->byte_class(byte);
        const StateId known = transitions_[size_t{state} * class_count_ + byte_class];
        return known != kUnknown ? known : make_step(state, byte_class);
    }
    StateId step_symbol(StateId state, int32_t symbol);
    // Whether the text may end here; whether a byte may follow; which control tokens may.
    bool may_end(StateId state) const { return states_[state].may_end; }
    bool takes_bytes(StateId state) const { return states_[state].takes_bytes; }
    std::vector<int32_t> symbols(StateId state) const;

    // Allows so many further steps of making states, to bound the time of one request.
    void grant(uint64_t steps) { steps_left_ = steps; }
    // The same state in this automaton, given one of another automaton of the same grammar.
    StateId adopt(const Automaton& other, StateId state);
    size_t memory_bytes() const { return memory_bytes_; }

  private:
    using FrameId = uint32_t;
    static constexpr StateId kUnknown = 0xfffffffe;
    static constexpr FrameId kBottom = 0;  // below the root: the text is complete

    struct Frame {
        NodeId node = kNoNode;
        FrameId parent = 0;
        uint64_t number = 0;  // sequence: the next child; series: elements so far; members: which have been
        uint32_t nesting = 0;
        bool operator==(const Frame&) const = default;
    };
    // A leaf under its frame; `offset` is the next byte of a literal. The end of the text is kNoNode at the bottom.
    struct Place {
        NodeId node = kNoNode;
        uint32_t offset = 0;
        FrameId frame = kBottom;
        auto operator<=>(const Place&) const = default;
    };
    struct State {
        size_t first_place = 0;
        uint32_t place_count = 0;
        bool may_end = false;
        bool takes_bytes = false;
    };
    // Still to be expanded: a node under a frame, or with kNoNode what the frame says comes next.
    struct Task {
        NodeId node = kNoNode;
        FrameId frame = kBottom;
    };
    struct FrameHash {
        size_t operator()(const Frame& frame) const;
    };

    std::span<const Place> places(StateId state) const;
    StateId make_step(StateId state, uint32_t byte_class);
    StateId close(std::vector<Task> tasks, std::vector<Place> places);
    StateId intern_state(const std::vector<Place>& places);
    FrameId push(NodeId node, uint64_t number, FrameId parent, uint32_t nesting);
    FrameId push(NodeId node, uint64_t number, FrameId parent) {
        return push(node, number, parent, frames_[parent].nesting);
    }
    void expand(const Task& task, std::vector<Task>& tasks, std::vector<Place>& places);
    void resume(FrameId frame, std::vector<Task>& tasks, std::vector<Place>& places);
    void continue_sequence(NodeId sequence, uint64_t next, FrameId parent, std::vector<Task>& tasks);
    void continue_series(NodeId series, uint64_t count, FrameId parent, std::vector<Task>& tasks);
    void continue_members(NodeId members, uint64_t number, FrameId parent, std::vector<Task>& tasks);

    GrammarPtr grammar_;
    uint32_t class_count_;
    std::vector<Frame> frames_;
    std::unordered_map<Frame, FrameId, FrameHash> frame_numbers_;
    std::vector<Place> all_places_;
    std::vector<State> states_;
    std::vector<StateId> transitions_;  // [states, classes]
    std::unordered_multimap<uint64_t, StateId> states_by_hash_;
    std::unordered_set<uint64_t> seen_;  // tasks of the closure under way
    uint64_t steps_left_ = 0;
    size_t memory_bytes_ = 0;
};

}  // namespace gemmatrace::engine
