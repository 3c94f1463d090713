// The ways into the constraint engine: each makes a grammar from what a request asks for.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/utf8.h"
#include "engine/constraint/constraint.h"
#include "engine/constraint/pattern.h"
#include "engine/constraint/schema_compiler.h"
#include "engine/constraint/tool_function.h"
#include "engine/constraint/value_writer.h"

namespace gemmatrace::engine {
namespace {

constexpr int32_t kNoQuote = -1;         // JSON has no token for it
constexpr uint64_t kMostToolCalls = 16;  // in a row
constexpr size_t kMaxToolNameBytes = 256;

int32_t control_token(const text::Tokenizer& tokenizer, std::string_view name) {
    const std::optional<int32_t> id = tokenizer.id_of(name);
    if (id && tokenizer.is_control(*id)) return *id;
    throw Error(ErrorCode::unsupported, fmt::format("the tokenizer has no control token {}", name), {},
                "use a checkpoint whose tokenizer has the tokens of tool calls, or give no tools");
}

void check_tool_name(const std::string& name) {
    const bool is_writable = !name.empty() && name.size() <= kMaxToolNameBytes && is_valid_utf8(name) &&
                             name.find_first_of("{}<>|\" \t\r\n") == std::string::npos;
    if (is_writable) return;
    throw Error(ErrorCode::bad_request, "a function's name cannot be written in a call", {{"name", name}},
                "name functions with letters, digits, dots, dashes and underscores");
}

// NAME{key:value,…} of one function.
NodeId call_of(const ToolFunction& function, ValueWriter& writer, const ConstraintLimits& limits) {
    check_tool_name(function.name);
    nlohmann::ordered_json parameters = function.parameters;
    if (parameters.is_null()) {
        parameters = nlohmann::ordered_json::object();
        parameters["properties"] = nlohmann::ordered_json::object();
    }
    if (parameters.is_object() && !parameters.contains("type")) parameters["type"] = "object";
    const bool is_object = parameters.is_object() && parameters["type"] == "object";
    if (!is_object) {
        throw Error(ErrorCode::bad_request, "a function's parameters must be a schema of an object",
                    {{"function", function.name}}, "give a schema with \"type\": \"object\"");
    }
    try {
        const NodeId arguments = SchemaCompiler(parameters, writer, Strictness::lenient, limits).compile();
        GrammarBuilder& builder = writer.builder();
        return builder.sequence({builder.literal(function.name), arguments});
    } catch (Error& error) {
        throw error.add_context("function", function.name);
    }
}

}  // namespace

GrammarPtr compile_json_object(const ConstraintLimits& limits) {
    GrammarBuilder builder(limits);
    ValueWriter writer(builder, ValueForm::json, kNoQuote);
    return builder.finish(writer.any_object());
}

GrammarPtr compile_json_schema(const nlohmann::ordered_json& schema, const ConstraintLimits& limits,
                               Strictness strictness) {
    GrammarBuilder builder(limits);
    ValueWriter writer(builder, ValueForm::json, kNoQuote);
    const NodeId root = SchemaCompiler(schema, writer, strictness, limits).compile();
    return builder.finish(root);
}

GrammarPtr compile_regex(std::string_view pattern, const ConstraintLimits& limits) {
    GrammarBuilder builder(limits);
    CharacterNodes characters(builder);
    const Pattern parsed = parse_pattern(pattern, PatternScope::whole, limits);
    return builder.finish(pattern_node(parsed, TextForm::plain, builder, characters));
}

ToolSyntax ToolSyntax::of(const text::Tokenizer& tokenizer) {
    return {control_token(tokenizer, "<|tool_call>"), control_token(tokenizer, "<tool_call|>"),
            control_token(tokenizer, "<|\"|>")};
}

GrammarPtr compile_tool_calls(const std::vector<ToolFunction>& functions, bool allows_several, const ToolSyntax& syntax,
                              const ConstraintLimits& limits) {
    if (functions.empty()) {
        throw Error(ErrorCode::bad_request, "there is no function to call", {}, "give at least one tool");
    }
    GrammarBuilder builder(limits);
    ValueWriter writer(builder, ValueForm::tool_arguments, syntax.quote);
    std::vector<NodeId> calls;
    for (const ToolFunction& function : functions) {
        calls.push_back(call_of(function, writer, limits));
        if (!builder.is_never(calls.back())) continue;
        throw Error(ErrorCode::bad_request, "no arguments can satisfy the function's parameters",
                    {{"function", function.name}}, "correct the schema of its parameters");
    }
    const NodeId call = builder.sequence({builder.symbol(syntax.call_begin), builder.literal("call:"),
                                          builder.choice(calls), builder.symbol(syntax.call_end)});
    return builder.finish(builder.repeat(call, 1, allows_several ? kMostToolCalls : 1));
}

}  // namespace gemmatrace::engine
