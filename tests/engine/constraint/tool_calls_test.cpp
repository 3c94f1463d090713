// Tool calls in Gemma 4's form: bare keys, strings between control tokens, arguments of the schema's types.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/constraint/grammar_matches.h"
#include "engine/constraint/random_walk.h"

namespace gemmatrace::engine {
namespace {

ToolFunction tool(const std::string& name, std::string_view parameters) {
    return {name, nlohmann::ordered_json::parse(parameters)};
}

const ToolFunction& weather_tool() {
    static const ToolFunction kTool = tool("get_weather", R"({"type":"object","properties":{
        "city":{"type":"string"},"unit":{"type":"string","enum":["C","F"]},"days":{"type":"integer","minimum":1,"maximum":9},
        "deep":{"type":"object","properties":{"list":{"type":"array","items":{"type":"object","properties":{"code":{"type":"string"}}}}}},
        "flags":{"type":"array","items":{"type":["boolean","null","number"]}}},"required":["city"]})");
    return kTool;
}

bool call_takes(const std::vector<ToolFunction>& tools, std::string_view text, bool allows_several = false) {
    return takes(compile_tool_calls(tools, allows_several, kTestSyntax, ConstraintLimits{}), text, true);
}

TEST(ToolCallsTest, F082_arguments_have_their_types) {
    const std::vector<ToolFunction> tools{weather_tool()};
    EXPECT_TRUE(
        call_takes(tools, R"(<|tool_call>call:get_weather{city:<|"|>Rome<|"|>,days:3,unit:<|"|>C<|"|>}<tool_call|>)"));
    EXPECT_TRUE(
        call_takes(tools, R"(<|tool_call>call:get_weather{city:<|"|><|"|>,flags:[true,null,-1.5e3]}<tool_call|>)"));
    for (const char* arguments :
         {"{}", "{city:Rome}", "{city:\"Rome\"}", R"({city:<|"|>a<|"|>,days:<|"|>3<|"|>})",
          R"({city:<|"|>a<|"|>,days:10})", R"({city:<|"|>a<|"|>,unit:<|"|>K<|"|>})", R"({city:<|"|>a<|"|>,other:1})",
          R"({city:<|"|>a<|"|>,flags:[<|"|>a<|"|>]})", R"({city:<|"|>a<|"|>, days:1})", R"({"city":<|"|>a<|"|>})"}) {
        EXPECT_FALSE(call_takes(tools, std::string("<|tool_call>call:get_weather") + arguments + "<tool_call|>"))
            << arguments;
    }
}

TEST(ToolCallsTest, F081_any_text_may_stand_in_a_string) {
    const std::vector<ToolFunction> tools{weather_tool()};
    for (const char* text :
         {"say \"hi\"", "a\\b", "line\nline", "{\"a\":[1]}", "<|\"", "<tool_call", "\xf0\x9f\x99\x82", "a,b:c"}) {
        EXPECT_TRUE(call_takes(
            tools, R"(<|tool_call>call:get_weather{city:<|"|>)" + std::string(text) + R"(<|"|>}<tool_call|>)"))
            << text;
    }
    EXPECT_FALSE(call_takes(tools, "<|tool_call>call:get_weather{city:<|\"|>\xff<|\"|>}<tool_call|>"));
}

TEST(ToolCallsTest, F085_nested_arguments_are_kept) {
    EXPECT_TRUE(call_takes(
        {weather_tool()},
        R"(<|tool_call>call:get_weather{city:<|"|>a<|"|>,deep:{list:[{code:<|"|>if (a) { b }<|"|>},{}]}}<tool_call|>)"));
    const ToolFunction free = tool("run", R"({"type":"object"})");
    EXPECT_TRUE(call_takes({free}, R"(<|tool_call>call:run{a:{b:[1,{c-d:<|"|>x<|"|>}]},e:null}<tool_call|>)"));
    EXPECT_FALSE(call_takes({free}, R"(<|tool_call>call:run{:1}<tool_call|>)"));
}

TEST(ToolCallsTest, members_come_in_any_order_but_once) {
    const std::vector<ToolFunction> tools{weather_tool()};
    EXPECT_TRUE(
        call_takes(tools, R"(<|tool_call>call:get_weather{unit:<|"|>C<|"|>,city:<|"|>a<|"|>,days:1}<tool_call|>)"));
    EXPECT_FALSE(call_takes(tools, R"(<|tool_call>call:get_weather{days:1,city:<|"|>a<|"|>,days:1}<tool_call|>)"));
    EXPECT_FALSE(call_takes(tools, R"(<|tool_call>call:get_weather{days:1,unit:<|"|>C<|"|>}<tool_call|>)"));
}

TEST(ToolCallsTest, other_members_come_once_the_required_ones_are_there) {
    const std::vector<ToolFunction> tools{tool(
        "f",
        R"({"type":"object","properties":{"a":{},"b":{}},"required":["b"],"additionalProperties":{"type":"integer"}})")};
    EXPECT_TRUE(call_takes(tools, "<|tool_call>call:f{b:1,x:2,a:3,y:4}<tool_call|>"));
    EXPECT_TRUE(call_takes(tools, "<|tool_call>call:f{a:3,b:1}<tool_call|>"));
    EXPECT_FALSE(call_takes(tools, "<|tool_call>call:f{x:2,b:1}<tool_call|>"));
}

TEST(ToolCallsTest, F087_the_call_must_come_and_only_to_a_function_named) {
    const std::vector<ToolFunction> tools{
        weather_tool(), {"now", nullptr}, tool("nothing", R"({"type":"object","properties":{}})")};
    EXPECT_TRUE(call_takes(tools, "<|tool_call>call:now{}<tool_call|>"));
    EXPECT_TRUE(call_takes(tools, "<|tool_call>call:nothing{}<tool_call|>"));
    for (const char* text :
         {"", "Sure!", "<|tool_call>", "<|tool_call>call:never{}<tool_call|>", "<|tool_call>call:no{}<tool_call|>",
          "<|tool_call>call:now{}", "<|tool_call>call:now{a:1}<tool_call|>", "call:now{}"}) {
        EXPECT_FALSE(call_takes(tools, text)) << text;
    }
}

TEST(ToolCallsTest, F088_after_one_call_only_the_end_may_come_and_after_several_another) {
    const std::string call = "<|tool_call>call:now{}<tool_call|>";
    const std::vector<ToolFunction> tools{{"now", nullptr}};
    EXPECT_FALSE(call_takes(tools, call + call));
    EXPECT_TRUE(call_takes(tools, call + call, true));
    std::string many;
    for (int count = 0; count < 16; ++count) many += call;
    EXPECT_TRUE(call_takes(tools, many, true));
    EXPECT_FALSE(call_takes(tools, many + call, true));
}

TEST(ToolCallsTest, what_cannot_be_written_or_satisfied_is_refused) {
    const auto code_of = [](const std::vector<ToolFunction>& tools) {
        try {
            compile_tool_calls(tools, false, kTestSyntax, ConstraintLimits{});
        } catch (const Error& error) {
            return error.code();
        }
        return ErrorCode::internal;
    };
    EXPECT_EQ(code_of({}), ErrorCode::bad_request);
    EXPECT_EQ(code_of({{"a{b", nullptr}}), ErrorCode::bad_request);
    EXPECT_EQ(code_of({{"", nullptr}}), ErrorCode::bad_request);
    EXPECT_EQ(code_of({tool("a", R"({"type":"string"})")}), ErrorCode::bad_request);
    EXPECT_EQ(code_of({tool("a", "[]")}), ErrorCode::bad_request);
    EXPECT_EQ(code_of({tool("a", R"({"properties":{"b":false},"required":["b"]})")}), ErrorCode::bad_request);
    EXPECT_EQ(code_of({tool("a", R"({"properties":{"b:c":{}, "d":{}}})")}), ErrorCode::internal);
}

TEST(ToolCallsTest, the_control_tokens_come_from_the_tokenizer_and_random_calls_end) {
    const auto tokenizer = text::Tokenizer::load(std::filesystem::path(GEMMATRACE_SOURCE_DIR) / "models/demo");
    const ToolSyntax syntax = ToolSyntax::of(tokenizer);
    EXPECT_EQ(tokenizer.token(syntax.quote), "<|\"|>");
    const ConstraintLimits limits;
    const GrammarPtr grammar = compile_tool_calls({weather_tool(), {"now", nullptr}}, true, syntax, limits);
    const auto trie = std::make_shared<const VocabularyTrie>(tokenizer, tokenizer.vocab_size());
    const auto constraint = Constraint::create(grammar, trie, limits);
    for (uint64_t seed = 0; seed < 20; ++seed) {
        const RandomWalk walk = random_walk(ConstraintState(constraint), tokenizer, CounterRandom(seed), 60, 4000);
        ASSERT_TRUE(walk.has_ended);
        EXPECT_EQ(walk.ids.front(), syntax.call_begin);
        EXPECT_EQ(walk.ids.back(), syntax.call_end);
        EXPECT_EQ(std::count(walk.ids.begin(), walk.ids.end(), syntax.quote) % 2, 0);
        for (const int32_t id : walk.ids) {
            const bool is_ours = id == syntax.call_begin || id == syntax.call_end || id == syntax.quote;
            EXPECT_TRUE(is_ours || !tokenizer.is_control(id)) << tokenizer.token(id);
        }
    }
}

TEST(ToolCallsTest, a_tokenizer_without_the_control_tokens_is_refused) {
    const auto tokenizer = text::Tokenizer::parse(
        R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"decoder":{"type":"Fuse"},"added_tokens":[]})", "");
    EXPECT_THROW(ToolSyntax::of(tokenizer), Error);
}

}  // namespace
}  // namespace gemmatrace::engine
