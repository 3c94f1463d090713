// Whether a grammar takes a text, byte by byte and without a vocabulary.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "engine/constraint/automaton.h"
#include "engine/constraint/constraint.h"
#include "engine/constraint/tool_function.h"

namespace gemmatrace::engine {

// Control tokens of the tests, by their text.
inline const ToolSyntax kTestSyntax{48, 49, 52};
inline const std::map<std::string, int32_t, std::less<>> kTestSymbols{
    {"<|tool_call>", 48}, {"<tool_call|>", 49}, {"<|\"|>", 52}};

// How far a text gets: every byte of it, and then to an end.
struct GrammarMatch {
    size_t taken = 0;  // bytes
    bool is_whole = false;
    bool may_end = false;
};

// With has_symbols, the texts of kTestSymbols stand for control tokens.
inline GrammarMatch match_grammar(const GrammarPtr& grammar, std::string_view text, bool has_symbols = false) {
    Automaton automaton(grammar);
    automaton.grant(grammar->max_steps());
    StateId state = automaton.start();
    size_t at = 0;
    while (at < text.size()) {
        size_t length = 1;
        StateId next = Automaton::kDead;
        int32_t symbol = -1;
        for (const auto& [name, id] : kTestSymbols) {
            if (!has_symbols || !text.substr(at).starts_with(name)) continue;
            symbol = id;
            length = name.size();
        }
        next =
            symbol < 0 ? automaton.step(state, static_cast<uint8_t>(text[at])) : automaton.step_symbol(state, symbol);
        if (next == Automaton::kDead) return {at, false, false};
        state = next;
        at += length;
    }
    return {at, true, automaton.may_end(state)};
}

inline bool takes(const GrammarPtr& grammar, std::string_view text, bool has_symbols = false) {
    return match_grammar(grammar, text, has_symbols).may_end;
}

inline GrammarPtr schema_grammar(std::string_view schema, Strictness strictness = Strictness::strict) {
    return compile_json_schema(nlohmann::ordered_json::parse(schema), ConstraintLimits{}, strictness);
}

inline bool schema_takes(std::string_view schema, std::string_view text) { return takes(schema_grammar(schema), text); }

}  // namespace gemmatrace::engine
