// Random answers to schemas, for the cross-check in Python.
//
//   schema_walk CHECKPOINT SEED < LINES
//
// A line is {"schema": …}, {"pattern": …} or {"tools": [{"name": …, "parameters": …}]}; the answer is one line,
// {"text": …} or
// {"error": CODE, "message": …}. The tokens are those of the checkpoint's tokenizer.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "engine/constraint/constraint.h"
#include "engine/constraint/random_walk.h"
#include "engine/constraint/tool_function.h"

namespace {

namespace engine = gemmatrace::engine;
using gemmatrace::Error;
using nlohmann::ordered_json;

engine::GrammarPtr compile_line(const ordered_json& line, const gemmatrace::text::Tokenizer& tokenizer,
                                const engine::ConstraintLimits& limits) {
    if (line.contains("pattern")) return engine::compile_regex(line["pattern"].get<std::string>(), limits);
    if (!line.contains("tools")) return engine::compile_json_schema(line.at("schema"), limits);
    std::vector<engine::ToolFunction> functions;
    for (const ordered_json& tool : line["tools"]) {
        functions.push_back({tool.at("name").get<std::string>(), tool.value("parameters", ordered_json())});
    }
    return engine::compile_tool_calls(functions, true, engine::ToolSyntax::of(tokenizer), limits);
}

}  // namespace

int main(int argument_count, char** arguments) {
    if (argument_count != 3) {
        std::fprintf(stderr, "usage: schema_walk CHECKPOINT SEED < LINES\n");
        return 2;
    }
    constexpr size_t kPatientTokens = 40;
    constexpr size_t kMostTokens = 4000;
    const auto tokenizer = gemmatrace::text::Tokenizer::load(arguments[1]);
    const uint64_t seed = std::stoull(arguments[2]);
    const engine::ConstraintLimits limits;
    const auto trie = std::make_shared<const engine::VocabularyTrie>(tokenizer, tokenizer.vocab_size());
    uint64_t number = 0;
    for (std::string line; std::getline(std::cin, line); ++number) {
        ordered_json answer = ordered_json::object();
        try {
            const ordered_json request = gemmatrace::parse_json(line, "a line", gemmatrace::ErrorCode::bad_request);
            const auto constraint = engine::Constraint::create(compile_line(request, tokenizer, limits), trie, limits);
            const gemmatrace::CounterRandom random(seed, "walk " + std::to_string(number));
            const engine::RandomWalk walk = engine::random_walk(engine::ConstraintState(constraint), tokenizer, random,
                                                                kPatientTokens, kMostTokens);
            answer["text"] = tokenizer.decode(walk.ids, false);
            answer["has_ended"] = walk.has_ended;
        } catch (const Error& error) {
            answer["error"] = gemmatrace::error_code_name(error.code());
            answer["message"] = error.what();
        }
        std::puts(gemmatrace::dump_json(answer).c_str());
    }
    return 0;
}
