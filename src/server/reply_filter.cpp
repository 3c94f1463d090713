// A filter with three states: thinking, free content, and content under constraints.
#include "server/reply_filter.h"

#include <algorithm>

#include "base/error.h"

namespace gemmatrace::server {
namespace {

constexpr size_t kMaxStoredConstraints = 64;

void set_bit(std::vector<uint64_t>& bits, int32_t id, bool value) {
    const auto word = static_cast<size_t>(id) / 64;
    if (id < 0 || word >= bits.size()) return;
    const uint64_t bit = uint64_t{1} << (static_cast<size_t>(id) % 64);
    bits[word] = value ? bits[word] | bit : bits[word] & ~bit;
}

bool has_bit(std::span<const uint64_t> bits, int32_t id) {
    const auto word = static_cast<size_t>(id) / 64;
    return id >= 0 && word < bits.size() && (bits[word] >> (static_cast<size_t>(id) % 64) & 1) != 0;
}

class ReplyFilter : public engine::TokenFilter {
  public:
    ReplyFilter(const ReplyPlan& plan, const ReplyMarkers& markers, int32_t vocab_size, bool may_think,
                bool starts_thinking)
        : plan_(plan), markers_(markers), may_think_(may_think), bits_((static_cast<size_t>(vocab_size) + 63) / 64) {
        if (starts_thinking) {
            state_ = State::thinking;
        } else {
            begin_content();
        }
    }

    std::span<const uint64_t> allowed() override {
        if (state_ == State::free) return {};
        if (state_ == State::thinking) {
            if (plan_.answers.empty()) return {};
            // Anything but an end, which would leave no answer.
            std::ranges::fill(bits_, ~uint64_t{0});
            for (const int32_t id : plan_.end_ids) set_bit(bits_, id, false);
            return bits_;
        }
        const bool may_open = may_think_ && is_at_begin_ && markers_.channel_open;
        if (constraints_.size() == 1 && !may_open) return constraints_.front().allowed();
        std::ranges::fill(bits_, 0);
        for (auto& constraint : constraints_) {
            const auto allowed = constraint.allowed();
            for (size_t word = 0; word < std::min(allowed.size(), bits_.size()); ++word) bits_[word] |= allowed[word];
        }
        if (may_open) set_bit(bits_, *markers_.channel_open, true);
        return bits_;
    }

    bool may_end() const override {
        if (state_ == State::free) return true;
        if (state_ == State::thinking) return plan_.answers.empty();
        return std::ranges::any_of(constraints_, [](const auto& constraint) { return constraint.may_end(); });
    }

    // A call in free content is followed by free content again.
    bool must_end() const override {
        return state_ == State::constrained && !is_call_ &&
               std::ranges::all_of(constraints_, [](const auto& constraint) { return constraint.must_end(); });
    }

    void advance(int32_t id) override {
        switch (state_) {
            case State::thinking:
                if (id == markers_.channel_close) begin_content();
                return;
            case State::free:
                if (plan_.call != nullptr && id == markers_.call_open) begin_call(id);
                return;
            case State::constrained:
                advance_constraints(id);
                return;
        }
    }

  private:
    enum class State { thinking, free, constrained };

    void begin_content() {
        state_ = plan_.answers.empty() ? State::free : State::constrained;
        is_call_ = false;
        is_at_begin_ = true;
        constraints_.clear();
        for (const auto& answer : plan_.answers) constraints_.emplace_back(answer);
    }

    void begin_call(int32_t id) {
        constraints_.clear();
        constraints_.emplace_back(plan_.call);
        if (!has_bit(constraints_.front().allowed(), id)) return;
        constraints_.front().advance(id);
        state_ = State::constrained;
        is_call_ = true;
        is_at_begin_ = false;
    }

    void advance_constraints(int32_t id) {
        if (is_at_begin_ && may_think_ && id == markers_.channel_open) {
            state_ = State::thinking;
            may_think_ = false;
            return;
        }
        is_at_begin_ = false;
        std::erase_if(constraints_, [&](auto& constraint) { return !has_bit(constraint.allowed(), id); });
        require(!constraints_.empty(), "the chosen token is one that a constraint allows");
        for (auto& constraint : constraints_) constraint.advance(id);
        if (is_call_ && constraints_.front().must_end()) begin_content();
    }

    ReplyPlan plan_;
    ReplyMarkers markers_;
    bool may_think_;
    State state_ = State::free;
    bool is_call_ = false;                              // a call within free content
    bool is_at_begin_ = false;                          // of the content
    std::vector<engine::ConstraintState> constraints_;  // those that hold so far
    std::vector<uint64_t> bits_;
};

}  // namespace

std::shared_ptr<engine::Constraint> ConstraintStore::find(const std::string& key, const text::Tokenizer& tokenizer,
                                                          int32_t vocab_size) {
    const std::lock_guard lock(mutex_);
    if (trie_ == nullptr) trie_ = std::make_shared<const engine::VocabularyTrie>(tokenizer, vocab_size);
    const auto found = entries_.find(key);
    if (found == entries_.end()) return nullptr;
    found->second.last_use = ++clock_;
    return found->second.constraint;
}

std::shared_ptr<engine::Constraint> ConstraintStore::keep(const std::string& key, engine::GrammarPtr grammar) {
    auto constraint = engine::Constraint::create(std::move(grammar), trie_, limits());
    const std::lock_guard lock(mutex_);
    entries_[key] = {constraint, ++clock_};
    if (entries_.size() > kMaxStoredConstraints) {
        entries_.erase(std::ranges::min_element(entries_, {}, [](const auto& entry) { return entry.second.last_use; }));
    }
    return constraint;
}

ReplyMarkers ReplyMarkers::of(const text::Tokenizer& tokenizer) {
    return {tokenizer.id_of("<|channel>"), tokenizer.id_of("<channel|>"), tokenizer.id_of("<|turn>"),
            tokenizer.id_of("<|tool_call>"), tokenizer.id_of("<|think|>")};
}

std::shared_ptr<engine::TokenFilter> make_reply_filter(const ReplyPlan& plan, const ReplyMarkers& markers,
                                                       int32_t vocab_size, std::span<const int32_t> prompt_ids) {
    if (plan.answers.empty() && plan.call == nullptr) return nullptr;
    const bool may_think = markers.think && std::ranges::find(prompt_ids, *markers.think) != prompt_ids.end();
    bool starts_thinking = false;
    for (auto id = prompt_ids.rbegin(); id != prompt_ids.rend(); ++id) {
        if (*id == markers.channel_close || *id == markers.turn_open) break;
        if (*id == markers.channel_open) {
            starts_thinking = true;
            break;
        }
    }
    return std::make_shared<ReplyFilter>(plan, markers, vocab_size, may_think, starts_thinking);
}

}  // namespace gemmatrace::server
