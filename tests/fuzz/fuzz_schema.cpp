// Any text as a JSON schema, as a function's parameters and as a regular expression: a grammar in which no text gets
// stuck, or an error that blames the request.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "base/random.h"
#include "engine/constraint/automaton.h"
#include "engine/constraint/constraint.h"
#include "engine/constraint/tool_function.h"

using gemmatrace::Error;
using gemmatrace::ErrorCode;
using gemmatrace::require;
namespace engine = gemmatrace::engine;

namespace {

constexpr int kWalkedBytes = 200;
constexpr int32_t kCallBegin = 0;
constexpr int32_t kCallEnd = 1;
constexpr int32_t kQuote = 2;

engine::ConstraintLimits limits() {
    engine::ConstraintLimits small;
    small.max_schema_bytes = size_t{1} << 16;
    small.max_schema_steps = 2'000;
    small.max_nodes = 20'000;
    small.max_steps = 200'000;
    return small;
}

// Goes wherever the automaton lets it; there must be a way on until the text may end.
void walk(const engine::GrammarPtr& grammar) {
    engine::Automaton automaton(grammar);
    automaton.grant(limits().max_steps);
    const gemmatrace::CounterRandom random(1);
    engine::StateId state = automaton.start();
    for (uint64_t step = 0; step < kWalkedBytes; ++step) {
        require(state != engine::Automaton::kDead, "a grammar takes some text");
        std::vector<engine::StateId> next;
        for (int byte = 0; byte < 256; ++byte) {
            const engine::StateId target = automaton.step(state, static_cast<uint8_t>(byte));
            if (target != engine::Automaton::kDead) next.push_back(target);
        }
        for (const int32_t symbol : automaton.symbols(state)) next.push_back(automaton.step_symbol(state, symbol));
        require(!next.empty() || automaton.may_end(state), "a text that may not end can go on");
        if (next.empty()) return;
        state = next[random.bits(step) % next.size()];
    }
}

template <typename Compile>
void compile_and_walk(const Compile& compile) {
    try {
        walk(compile());
    } catch (const Error& error) {
        const bool is_expected = error.code() == ErrorCode::bad_request || error.code() == ErrorCode::unsupported;
        if (!is_expected) throw;
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    compile_and_walk([&] { return engine::compile_regex(text, limits()); });
    compile_and_walk([&] {
        const auto schema = gemmatrace::parse_json(text, "fuzz", ErrorCode::bad_request);
        return engine::compile_json_schema(schema, limits());
    });
    compile_and_walk([&] {
        const auto schema = gemmatrace::parse_json(text, "fuzz", ErrorCode::bad_request);
        return engine::compile_json_schema(schema, limits(), engine::Strictness::lenient);
    });
    compile_and_walk([&] {
        const auto schema = gemmatrace::parse_json(text, "fuzz", ErrorCode::bad_request);
        return engine::compile_tool_calls({{"run", schema}}, true, {kCallBegin, kCallEnd, kQuote}, limits());
    });
    return 0;
}
