// Random answers under a constraint: at each step any of the tokens allowed, in a hurry to close after a while.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "engine/constraint/constraint.h"
#include "text/tokenizer.h"

namespace gemmatrace::engine {

struct RandomWalk {
    std::vector<int32_t> ids;
    bool has_ended = false;  // false: cut off at the limit of tokens
};

// Ids whose bit is set.
inline std::vector<int32_t> ids_of_mask(std::span<const uint64_t> mask) {
    std::vector<int32_t> ids;
    for (size_t word = 0; word < mask.size(); ++word) {
        for (int bit = 0; bit < 64; ++bit) {
            if (((mask[word] >> bit) & 1) != 0) ids.push_back(static_cast<int32_t>(word * 64) + bit);
        }
    }
    return ids;
}

// Walks until the text ends, by itself or by chance where it may, or max_tokens are out. patient_tokens: how many come
// before closing brackets and quotes are preferred.
inline RandomWalk random_walk(ConstraintState state, const text::Tokenizer& tokenizer, const CounterRandom& random,
                              size_t patient_tokens, size_t max_tokens) {
    RandomWalk walk;
    uint64_t draw = 0;
    const auto chance = [&](double probability) { return random.unit(draw++) < probability; };
    while (walk.ids.size() < max_tokens) {
        const bool is_late = walk.ids.size() >= patient_tokens;
        if (state.must_end() || (state.may_end() && chance(is_late ? 1.0 : 0.2))) {
            walk.has_ended = true;
            return walk;
        }
        const std::vector<int32_t> ids = ids_of_mask(state.allowed());
        require(!ids.empty(), "a text that has not ended can go on");
        std::vector<int32_t> closing;
        for (const int32_t id : ids) {
            const std::string& token = tokenizer.token(id);
            const bool is_closing = token == "\"" || token == "}" || token == "]" || token == "<|\"|>" ||
                                    token == "<tool_call|>" || token == "\"}" || token == ":";
            if (is_closing) closing.push_back(id);
        }
        const bool takes_closing = !closing.empty() && chance(is_late ? 0.8 : 0.05);
        const std::vector<int32_t>& choices = takes_closing ? closing : ids;
        const int32_t id = choices[random.bits(draw++) % choices.size()];
        state.advance(id);
        walk.ids.push_back(id);
    }
    return walk;
}

}  // namespace gemmatrace::engine
