// Which tools a Messages request offers, and which of them it makes the model call.
#include "server/messages_tools.h"

#include <gtest/gtest.h>

#include "server/messages_fixture.h"
#include "support/expect_error.h"

namespace gemmatrace::server::messages_testing {
namespace {

using gemmatrace::testing::thrown_error;
using Choice = ToolUse::Choice;

constexpr const char* kTwoTools = R"([
    {"name": "weather", "description": "Of a city",
     "input_schema": {"$schema": "x", "type": "object", "properties": {}}},
    {"type": "custom", "name": "time", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}])";
constexpr const char* kHostedTool = R"([{"type": "web_search_20250305", "name": "web_search", "max_uses": 5}])";

ToolUse use_of(const char* tools, const char* choice) {
    Json body;
    body["tools"] = json(tools);
    body["tool_choice"] = json(choice);
    return read_messages_tools(RequestFields(body, ""));
}

std::vector<std::string> offered_names(const ToolUse& use) {
    std::vector<std::string> names;
    for (const Json& tool : use.offered) names.push_back(tool["function"]["name"]);
    return names;
}

void expect_tools_refused(ErrorCode code, const std::string& field, const char* tools, const char* choice) {
    SCOPED_TRACE(std::string(tools) + choice);
    const auto error = thrown_error([&] { use_of(tools, choice); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), code) << error->what();
    EXPECT_EQ(error->context().front().second, field);
}

TEST(MessagesTools, ASchemaBecomesParameters) {
    const ToolUse use = use_of(kTwoTools, "null");
    EXPECT_EQ(use.offered, json(R"([
        {"type": "function", "function": {"name": "weather", "description": "Of a city",
            "parameters": {"$schema": "x", "type": "object", "properties": {}}}},
        {"type": "function", "function": {"name": "time", "description": "", "parameters": {"type": "object"}}}])"));
    EXPECT_EQ(use.choice, Choice::automatic);
    EXPECT_TRUE(use.allows_several);
}

TEST(MessagesTools, EachChoiceIsHeld) {
    EXPECT_EQ(use_of(kTwoTools, R"({"type": "auto"})").choice, Choice::automatic);
    EXPECT_FALSE(use_of(kTwoTools, R"({"type": "auto", "disable_parallel_tool_use": true})").allows_several);
    const ToolUse any = use_of(kTwoTools, R"({"type": "any", "disable_parallel_tool_use": false})");
    EXPECT_EQ(any.choice, Choice::required);
    EXPECT_EQ(any.allowed, (std::vector<std::string>{"time", "weather"}));
    EXPECT_TRUE(any.allows_several);
    const ToolUse named = use_of(kTwoTools, R"({"type": "tool", "name": "time", "disable_parallel_tool_use": true})");
    EXPECT_EQ(named.choice, Choice::required);
    EXPECT_EQ(named.allowed, std::vector<std::string>{"time"});
    EXPECT_EQ(offered_names(named), (std::vector<std::string>{"weather", "time"}));
    EXPECT_FALSE(named.allows_several);
    EXPECT_TRUE(use_of(kTwoTools, R"({"type": "none"})").offered.empty());
}

TEST(MessagesTools, HostedToolsAreLeftOutUnlessOneHasToBeCalled) {
    Json mixed = json(kTwoTools);
    mixed.push_back(json(kHostedTool)[0]);
    const std::string tools = mixed.dump();
    EXPECT_EQ(offered_names(use_of(tools.c_str(), "null")), (std::vector<std::string>{"weather", "time"}));
    EXPECT_EQ(use_of(tools.c_str(), R"({"type": "any"})").allowed, (std::vector<std::string>{"time", "weather"}));
    EXPECT_TRUE(use_of(kHostedTool, R"({"type": "auto"})").offered.empty());
    expect_tools_refused(ErrorCode::unsupported, "tool_choice", kHostedTool, R"({"type": "any"})");
    expect_tools_refused(ErrorCode::unsupported, "tool_choice.name", tools.c_str(),
                         R"({"type": "tool", "name": "web_search"})");
}

TEST(MessagesTools, F087_AChoiceThatNoToolMeetsIsRefused) {
    constexpr auto kBad = ErrorCode::bad_request;
    expect_tools_refused(kBad, "tool_choice.name", kTwoTools, R"({"type": "tool", "name": "other"})");
    expect_tools_refused(kBad, "tool_choice.name", kTwoTools, R"({"type": "tool"})");
    expect_tools_refused(kBad, "tool_choice", "[]", R"({"type": "any"})");
    expect_tools_refused(kBad, "tool_choice.type", kTwoTools, R"({"type": "required"})");
    expect_tools_refused(kBad, "tool_choice", kTwoTools, R"("auto")");
    expect_tools_refused(kBad, "tool_choice.disable_parallel_tool_use", kTwoTools,
                         R"({"type": "auto", "disable_parallel_tool_use": 1})");
}

TEST(MessagesTools, ABrokenDeclarationIsRefusedByField) {
    constexpr auto kBad = ErrorCode::bad_request;
    expect_tools_refused(kBad, "tools[0].name", R"([{"input_schema": {}}])", "null");
    expect_tools_refused(kBad, "tools[0].input_schema", R"([{"name": "a"}])", "null");
    expect_tools_refused(kBad, "tools[0].input_schema", R"([{"name": "a", "input_schema": "object"}])", "null");
    expect_tools_refused(kBad, "tools[0].description", R"([{"name": "a", "description": 1, "input_schema": {}}])",
                         "null");
    expect_tools_refused(kBad, "tools", R"([{"name": "a", "input_schema": {}}, {"name": "a", "input_schema": {}}])",
                         "null");
    expect_tools_refused(kBad, "tools", R"({"name": "a"})", "null");
}

}  // namespace
}  // namespace gemmatrace::server::messages_testing
