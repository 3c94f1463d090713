// Masks from walks of the vocabulary through the automaton, remembered and shared by the sequences of a grammar.
#include "engine/constraint/constraint.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "engine/constraint/automaton.h"

namespace gemmatrace::engine {
namespace {

using ConstraintMask = std::vector<uint64_t>;
using ConstraintMaskPtr = std::shared_ptr<const ConstraintMask>;

void set_bit(ConstraintMask& mask, int32_t id) {
    mask[static_cast<size_t>(id) / 64] |= uint64_t{1} << (static_cast<size_t>(id) % 64);
}

// Walks the trie from the top, keeping the state at each depth; a dead state cuts the subtree off.
void walk_vocabulary(const VocabularyTrie& vocabulary, Automaton& automaton, StateId from, ConstraintMask& mask) {
    std::vector<StateId> states(vocabulary.max_depth() + 1);
    states[0] = from;
    const std::span<const VocabularyTrie::Node> nodes = vocabulary.nodes();
    const std::span<const int32_t> ids = vocabulary.token_ids();
    const size_t count = nodes.size() - 1;  // the last one is the sentinel
    for (size_t index = 0; index < count;) {
        const VocabularyTrie::Node& node = nodes[index];
        const StateId state = automaton.step(states[node.depth - 1], node.byte);
        if (state == Automaton::kDead) {
            index = node.end;
            continue;
        }
        states[node.depth] = state;
        const uint32_t last_token = nodes[index + 1].first_token;
        for (uint32_t token = node.first_token; token < last_token; ++token) set_bit(mask, ids[token]);
        ++index;
    }
}

uint64_t mask_hash(const ConstraintMask& mask) {
    uint64_t hash = 0;
    for (const uint64_t word : mask) hash = mix_bits(hash ^ word) + word;
    return hash;
}

// Every byte that some text may need next must be there as a token of its own, or a text could get stuck.
void check_vocabulary(const Grammar& grammar, const VocabularyTrie& vocabulary) {
    for (const ByteSet& set : grammar.byte_sets()) {
        bool is_reachable = false;
        for (size_t byte = 0; byte < 256 && !is_reachable; ++byte) {
            is_reachable = set.test(byte) && vocabulary.has_single_byte(static_cast<uint8_t>(byte));
        }
        if (is_reachable) continue;
        size_t missing = 0;
        while (!set.test(missing)) ++missing;
        throw Error(
            ErrorCode::unsupported,
            fmt::format("the vocabulary has no token for the single byte 0x{:02X}, which this format needs", missing),
            {}, "ask for an answer without a format");
    }
    for (size_t id = 0; id < grammar.size(); ++id) {
        const Node& node = grammar.node(static_cast<NodeId>(id));
        if (node.kind != NodeKind::symbol) continue;
        const bool is_control =
            node.symbol >= 0 && node.symbol < vocabulary.vocab_size() && vocabulary.bytes(node.symbol).empty();
        require(is_control, "symbols of a grammar are control tokens");
    }
}

}  // namespace

// States and masks that count in one automaton. When they outgrow the memory allowed, a new one is begun; sequences
// move over as they come by, and the old one goes with the last of them.
struct Constraint::Generation {
    explicit Generation(const GrammarPtr& grammar) : automaton(grammar) {}

    Automaton automaton;
    std::unordered_map<StateId, ConstraintMaskPtr> masks;
    std::unordered_multimap<uint64_t, ConstraintMaskPtr> distinct_masks;  // many states allow the same tokens
    size_t mask_bytes = 0;

    size_t memory_bytes() const { return automaton.memory_bytes() + mask_bytes; }

    ConstraintMaskPtr keep(StateId state, ConstraintMask mask) {
        const uint64_t hash = mask_hash(mask);
        ConstraintMaskPtr shared;
        const auto [first, last] = distinct_masks.equal_range(hash);
        for (auto known = first; known != last; ++known) {
            if (*known->second == mask) shared = known->second;
        }
        if (!shared) {
            mask_bytes += mask.size() * sizeof(uint64_t) + 100;
            shared = std::make_shared<const ConstraintMask>(std::move(mask));
            distinct_masks.emplace(hash, shared);
        }
        mask_bytes += 60;
        masks.emplace(state, shared);
        return shared;
    }
};

struct Constraint::Memory {
    GrammarPtr grammar;
    std::shared_ptr<const VocabularyTrie> vocabulary;
    size_t max_bytes;
    std::mutex mutex;  // guards the generations' contents
    std::shared_ptr<Generation> current;

    // The generation that sequences should count in now.
    Generation& fresh() {
        if (current->memory_bytes() > max_bytes) current = std::make_shared<Generation>(grammar);
        current->automaton.grant(grammar->max_steps());
        return *current;
    }

    // Moves a sequence's state over if it counts in an older generation.
    void move_to_fresh(std::shared_ptr<const void>& generation, StateId& state) {
        Generation& target = fresh();
        if (generation == current) return;
        const auto& older = *static_cast<const Generation*>(generation.get());
        state = target.automaton.adopt(older.automaton, state);
        generation = current;
    }

    ConstraintMaskPtr mask_of(StateId state) {
        const auto known = current->masks.find(state);
        if (known != current->masks.end()) return known->second;
        ConstraintMask mask((static_cast<size_t>(vocabulary->vocab_size()) + 63) / 64);
        Automaton& automaton = current->automaton;
        for (const int32_t id : automaton.symbols(state)) set_bit(mask, id);
        if (automaton.takes_bytes(state)) walk_vocabulary(*vocabulary, automaton, state, mask);
        return current->keep(state, std::move(mask));
    }

    // Where a token leads; symbols are control tokens, which have no bytes.
    StateId target_of(StateId state, int32_t id) {
        const std::string_view bytes = vocabulary->bytes(id);
        Automaton& automaton = current->automaton;
        if (bytes.empty()) return automaton.step_symbol(state, id);
        for (size_t index = 0; index < bytes.size() && state != Automaton::kDead; ++index) {
            state = automaton.step(state, static_cast<uint8_t>(bytes[index]));
        }
        return state;
    }
};

Constraint::Constraint(GrammarPtr grammar, std::shared_ptr<const VocabularyTrie> vocabulary,
                       const ConstraintLimits& limits)
    : memory_(new Memory{std::move(grammar), std::move(vocabulary), limits.max_cache_bytes, {}, {}}) {
    memory_->current = std::make_shared<Generation>(memory_->grammar);
}

Constraint::~Constraint() = default;

std::shared_ptr<Constraint> Constraint::create(GrammarPtr grammar, std::shared_ptr<const VocabularyTrie> vocabulary,
                                               const ConstraintLimits& limits) {
    check_vocabulary(*grammar, *vocabulary);
    return std::shared_ptr<Constraint>(new Constraint(std::move(grammar), std::move(vocabulary), limits));
}

ConstraintState::ConstraintState(std::shared_ptr<Constraint> constraint) : constraint_(std::move(constraint)) {
    Constraint::Memory& memory = *constraint_->memory_;
    const std::lock_guard lock(memory.mutex);
    state_ = memory.fresh().automaton.start();
    generation_ = memory.current;
    note_ends();
}

void ConstraintState::note_ends() {
    const Automaton& automaton = static_cast<const Constraint::Generation*>(generation_.get())->automaton;
    may_end_ = automaton.may_end(state_);
    must_end_ = may_end_ && !automaton.takes_bytes(state_) && automaton.symbols(state_).empty();
}

std::span<const uint64_t> ConstraintState::allowed() {
    if (!mask_) {
        Constraint::Memory& memory = *constraint_->memory_;
        const std::lock_guard lock(memory.mutex);
        memory.move_to_fresh(generation_, state_);
        mask_ = memory.mask_of(state_);
    }
    return *mask_;
}

void ConstraintState::advance(int32_t id) {
    Constraint::Memory& memory = *constraint_->memory_;
    require(id >= 0 && id < memory.vocabulary->vocab_size(), "a constrained sequence takes ids of the vocabulary");
    const std::lock_guard lock(memory.mutex);
    memory.move_to_fresh(generation_, state_);
    const StateId next = memory.target_of(state_, id);
    require(next != Automaton::kDead, "a constrained sequence takes allowed ids only");
    state_ = next;
    mask_.reset();
    note_ends();
}

}  // namespace gemmatrace::engine
