// What a reply may be, token by token: an answer of a given form, calls that fit their schemas, thinking before either.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/constraint/constraint.h"
#include "engine/token_filter.h"
#include "text/tokenizer.h"

namespace gemmatrace::server {

// Compiled constraints of one model, the last used kept. Any thread may ask.
class ConstraintStore {
  public:
    // The constraint that `key` names, compiled by `compile` when it is not there. Always for the same tokenizer, which
    // is read at the first use.
    template <typename Compile>
    std::shared_ptr<engine::Constraint> get(const text::Tokenizer& tokenizer, int32_t vocab_size,
                                            const std::string& key, const Compile& compile) {
        if (auto known = find(key, tokenizer, vocab_size)) return known;
        return keep(key, compile());
    }

    static engine::ConstraintLimits limits() { return {}; }

  private:
    struct Entry {
        std::shared_ptr<engine::Constraint> constraint;
        uint64_t last_use = 0;
    };
    std::shared_ptr<engine::Constraint> find(const std::string& key, const text::Tokenizer& tokenizer,
                                             int32_t vocab_size);
    std::shared_ptr<engine::Constraint> keep(const std::string& key, engine::GrammarPtr grammar);

    std::mutex mutex_;
    std::shared_ptr<const engine::VocabularyTrie> trie_;  // made at the first use
    std::map<std::string, Entry> entries_;
    uint64_t clock_ = 0;
};

// The ids that separate thinking and calls from content; absent where the tokenizer has none.
struct ReplyMarkers {
    std::optional<int32_t> channel_open, channel_close, turn_open, call_open, think;
    static ReplyMarkers of(const text::Tokenizer& tokenizer);
};

struct ReplyPlan {
    // The content must be one of these; empty: anything.
    std::vector<std::shared_ptr<engine::Constraint>> answers;
    // A call in free content must be this one; null: anything.
    std::shared_ptr<engine::Constraint> call;
    std::vector<int32_t> end_ids;
};

// Null when the plan asks for nothing. Whether the reply may think, and thinks already, is read off the prompt.
std::shared_ptr<engine::TokenFilter> make_reply_filter(const ReplyPlan& plan, const ReplyMarkers& markers,
                                                       int32_t vocab_size, std::span<const int32_t> prompt_ids);

}  // namespace gemmatrace::server
