// Items, tools and settings of a Responses request: what reaches the prompt, and what is refused under which name.
#include "server/responses_request.h"

#include <gtest/gtest.h>

#include "server/responses_fixture.h"
#include "server/responses_items.h"
#include "support/expect_error.h"

namespace gemmatrace::server::responses_testing {
namespace {

// Kept for all tests of this file: loading a tokenizer takes a while.
const Service& silent_service() {
    static const std::unique_ptr<Service> service = scripted_service("");
    return *service;
}

// A request around these members.
Json request_with(const char* members) {
    Json request = Json::parse(R"({"model": "scripted", "input": "Hi"})");
    request.update(Json::parse(members));
    return request;
}

ResponsesRequest read(const Json& body) {
    return parse_responses_request(silent_service(), *silent_service().responses, body);
}

std::string prompt_of(const Json& body) {
    return silent_service().tokenizer.decode(read(body).job.request.prompt_ids, false);
}

// The members "field" and "code" of the error that the request gets.
std::string refusal_of(const char* members) {
    const auto error = gemmatrace::testing::thrown_error([&] { read(request_with(members)); });
    if (!error) return "accepted";
    std::string said;
    for (const auto& [name, value] : error->context()) said += (said.empty() ? "" : " ") + value;
    return said;
}

Json messages_of(const char* items, const char* tools = "[]") {
    Json request = Json::object();
    request["tools"] = Json::parse(tools);
    const ResponsesTools read_tools = read_responses_tools(RequestFields(request, ""));
    return template_messages_of_items(Json::parse(items), 0, read_tools);
}

TEST(ResponsesItems, F142_TextAsAStringOrInPartsReachesThePrompt) {
    const std::string plain = prompt_of(request_with("{}"));
    EXPECT_NE(plain.find("<|turn>user\nHi<turn|>"), std::string::npos) << plain;
    for (const char* input :
         {R"({"input": [{"role": "user", "content": "Hi"}]})",
          R"({"input": [{"type": "message", "id": "msg_1", "role": "user", "content": "Hi"}]})",
          R"({"input": [{"type": "message", "role": "user",
                                  "content": [{"type": "input_text", "text": "H"}, {"type": "input_text", "text": "i"}]}]})",
          R"({"instructions": null, "tools": null, "previous_response_id": null, "store": null})"}) {
        EXPECT_EQ(prompt_of(request_with(input)), plain) << input;
    }
}

TEST(ResponsesItems, SystemTextsSurviveInTheirOrder) {
    const std::string prompt = prompt_of(request_with(R"({"instructions": "One", "input": [
        {"role": "developer", "content": [{"type": "input_text", "text": "Two"}]},
        {"role": "user", "content": "Three"}, {"role": "system", "content": "Four"}, {"role": "user", "content": "Five"}]})"));
    size_t at = 0;
    for (const char* word : {"<|turn>system\nOne", "Two", "Three", "Four", "Five"}) {
        const size_t found = prompt.find(word, at);
        ASSERT_NE(found, std::string::npos) << word << " in " << prompt;
        at = found;
    }
}

TEST(ResponsesItems, TextAndCallsKeepTheirOrder) {
    const Json messages = messages_of(R"([
        {"role": "user", "content": "Add"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me see.", "annotations": []}]},
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{\"a\": 1}"},
        {"type": "function_call", "call_id": "c2", "name": "add", "arguments": ""},
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "two"}]},
        {"type": "function_call_output", "call_id": "c1", "output": "one"},
        {"type": "function_call", "call_id": "c3", "name": "add", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c3", "output": "three"}])");
    std::string roles;
    for (const Json& message : messages) roles += message["role"].get<std::string>() + " ";
    EXPECT_EQ(roles, "user assistant assistant tool tool assistant tool ");
    EXPECT_EQ(messages[2]["tool_calls"].size(), 2U);
    EXPECT_EQ(messages[2]["tool_calls"][0]["function"]["arguments"]["a"], 1);
    EXPECT_EQ(messages[2]["tool_calls"][1]["function"]["arguments"], Json::object());
    EXPECT_EQ(messages[3]["tool_call_id"], "c2");
    EXPECT_EQ(messages[4]["content"], "one");
}

TEST(ResponsesItems, AnOutputStandsBesideItsCallWhateverCameBetween) {
    const Json messages = messages_of(R"([
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"},
        {"role": "user", "content": "Hurry"},
        {"type": "function_call_output", "call_id": "c1", "output": "one"}])");
    ASSERT_EQ(messages.size(), 3U);
    EXPECT_EQ(messages[1]["role"], "tool");
    EXPECT_EQ(messages[2]["role"], "user");
}

TEST(ResponsesItems, ReasoningBelongsToWhatFollowsIt) {
    const Json messages = messages_of(R"([
        {"role": "user", "content": "Add"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "one"},
        {"type": "reasoning", "summary": [], "encrypted_content": "gemmatrace-thought:Carried."},
        {"type": "message", "role": "assistant", "content": "Two."},
        {"type": "reasoning", "summary": [], "encrypted_content": "what another server wrote"},
        {"role": "assistant", "content": "Three."}])");
    EXPECT_EQ(messages[1]["reasoning_content"], "Hm.");
    EXPECT_EQ(messages[3]["reasoning_content"], "Carried.");
    EXPECT_FALSE(messages[4].contains("reasoning_content"));
}

TEST(ResponsesItems, WhatCannotBeReadIsRefusedByName) {
    EXPECT_EQ(
        refusal_of(R"({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:"}]}]})"),
        "input[0].content[0].type");
    EXPECT_EQ(refusal_of(R"({"input": [{"type": "computer_call", "id": "x"}]})"), "input[0].type");
    EXPECT_EQ(refusal_of(R"({"input": [{"role": "robot", "content": "x"}]})"), "input[0].role");
    EXPECT_EQ(refusal_of(R"({"input": [{"role": "user"}]})"), "input[0].content");
    EXPECT_EQ(refusal_of(R"({"input": ["x"]})"), "input[0]");
    EXPECT_EQ(refusal_of(R"({"input": 7})"), "input");
    EXPECT_EQ(refusal_of(R"({"input": []})"), "input");
    EXPECT_EQ(refusal_of(R"({"input": null})"), "input");
    EXPECT_EQ(refusal_of(R"({"input": [{"type": "item_reference", "id": "msg_unknown"}]})"), "input[0].id");
    EXPECT_EQ(refusal_of(R"({"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]})"),
              "input[0].call_id");
    EXPECT_EQ(refusal_of(R"({"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{"}]})"),
              "input[0].arguments");
    EXPECT_EQ(refusal_of(R"({"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "[]"}]})"),
              "input[0].arguments");
}

TEST(ResponsesRequest, FeaturesThatAreNotHereAreErrorsAndUnknownMembersAreNot) {
    EXPECT_EQ(refusal_of(R"({"background": true})"), "background");
    EXPECT_EQ(refusal_of(R"({"truncation": "auto"})"), "truncation");
    EXPECT_EQ(refusal_of(R"({"conversation": "conv_1"})"), "conversation");
    EXPECT_EQ(refusal_of(R"({"prompt": {"id": "pmpt_1"}})"), "prompt");
    EXPECT_EQ(refusal_of(R"({"model": "other"})"), "model model_not_found");
    EXPECT_EQ(refusal_of(R"({"previous_response_id": "resp_unknown"})"),
              "previous_response_id previous_response_not_found");
    EXPECT_EQ(refusal_of(R"({"max_output_tokens": 0})"), "max_output_tokens");
    EXPECT_EQ(refusal_of(R"({"temperature": 9})"), "temperature");
    EXPECT_EQ(refusal_of(R"({"top_logprobs": 21})"), "top_logprobs");
    EXPECT_EQ(refusal_of(R"({"include": [1]})"), "include");
    EXPECT_EQ(refusal_of(R"({"text": {"format": {"type": "xml"}}})"), "text.format.type");
    EXPECT_EQ(refusal_of(R"({"text": {"format": {"type": "json_schema", "name": "x"}}})"), "text.format.schema");
    EXPECT_EQ(refusal_of(R"({"background": false, "truncation": "disabled", "prompt_cache_key": "k",
                             "client_metadata": {"a": "b"}, "include": ["reasoning.encrypted_content"],
                             "reasoning": {"summary": "auto"}, "text": {"verbosity": "low"}, "made_up": [1]})"),
              "accepted");
}

TEST(ResponsesRequest, F005_ATooLongConversationIsRefusedWithBothNumbers) {
    gemmatrace::testing::expect_error(ErrorCode::too_long, {"4096"},
                                      [] { read(request_with(R"({"max_output_tokens": 4090})")); });
    const auto error = gemmatrace::testing::thrown_error([] {
        Json request = request_with("{}");
        std::string text;
        for (int word = 0; word < 5000; ++word) text += " one";
        request["input"] = text;
        read(request);
    });
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->code(), ErrorCode::too_long);
}

TEST(ResponsesRequest, EffortSwitchesTheThinking) {
    const auto thinks = [](const char* members) {
        return prompt_of(request_with(members)).find("<|think|>") != std::string::npos;
    };
    EXPECT_FALSE(thinks("{}"));
    EXPECT_FALSE(thinks(R"({"reasoning": {"summary": "auto"}})"));
    EXPECT_FALSE(thinks(R"({"reasoning": {"effort": "none"}})"));
    EXPECT_TRUE(thinks(R"({"reasoning": {"effort": "low"}})"));
    EXPECT_FALSE(thinks(R"({"reasoning": {"effort": "high"}, "chat_template_kwargs": {"enable_thinking": false}})"));
}

constexpr const char* kTools = R"([
    {"type": "function", "name": "run", "description": "Runs.", "strict": false,
     "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}}},
    {"type": "namespace", "name": "agents", "description": "For agents.",
     "tools": [{"type": "function", "name": "spawn", "parameters": {"type": "object"}},
               {"type": "function", "name": "run", "description": "Runs an agent."}]},
    {"type": "web_search", "external_web_access": false}, {"type": "web_search_preview_2025_03_11"},
    {"type": "custom", "name": "apply_patch"}])";

ResponsesTools tools_with(const char* choice) {
    Json request = Json::object();
    request["tools"] = Json::parse(kTools);
    request["tool_choice"] = Json::parse(choice);
    return read_responses_tools(RequestFields(request, ""));
}

std::string offered_names(const ResponsesTools& tools) {
    std::string names;
    for (const Json& tool : tools.use.offered) names += tool["function"]["name"].get<std::string>() + " ";
    return names;
}

TEST(ResponsesTools, GroupsAreFlattenedAndToolsOfOtherKindsLeftOut) {
    const ResponsesTools tools = tools_with(R"("auto")");
    EXPECT_EQ(offered_names(tools), "run spawn agents.run ");
    EXPECT_EQ(tools.use.offered[1]["function"]["description"], "For agents.\n");
    EXPECT_EQ(tools.use.offered[2]["function"]["description"], "Runs an agent.");
    EXPECT_EQ(tools.of_prompt("spawn")->name_space, "agents");
    EXPECT_EQ(tools.of_prompt("agents.run")->name, "run");
    EXPECT_EQ(tools.of_prompt("run")->name_space, "");
    EXPECT_EQ(tools.prompt_name("agents", "run"), "agents.run");
    EXPECT_EQ(tools.prompt_name("", "forgotten"), "forgotten");
}

TEST(ResponsesTools, F087_TheChoiceIsTakenSeriously) {
    EXPECT_EQ(tools_with(R"("none")").use.offered.size(), 0U);
    const ResponsesTools required = tools_with(R"("required")");
    EXPECT_EQ(required.use.choice, ToolUse::Choice::required);
    EXPECT_EQ(required.use.allowed, (std::vector<std::string>{"run", "spawn", "agents.run"}));
    const ResponsesTools named = tools_with(R"({"type": "function", "name": "spawn"})");
    EXPECT_EQ(named.use.allowed, std::vector<std::string>{"spawn"});
    const ResponsesTools grouped = tools_with(R"({"type": "function", "name": "run", "namespace": "agents"})");
    EXPECT_EQ(grouped.use.allowed, std::vector<std::string>{"agents.run"});
    const ResponsesTools allowed = tools_with(
        R"({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "spawn"}, {"type": "mcp"}]})");
    EXPECT_EQ(allowed.use.choice, ToolUse::Choice::automatic);
    EXPECT_EQ(offered_names(allowed), "spawn ");
    const ResponsesTools one_of = tools_with(
        R"({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "spawn"}]})");
    EXPECT_EQ(one_of.use.choice, ToolUse::Choice::required);
    EXPECT_EQ(one_of.use.allowed, std::vector<std::string>{"spawn"});
}

TEST(ResponsesTools, WhatCannotBeCalledCannotBeForced) {
    EXPECT_EQ(refusal_of(R"({"tool_choice": {"type": "web_search"}})"), "tool_choice");
    EXPECT_EQ(refusal_of(R"({"tool_choice": {"type": "function", "name": "f"}})"), "tool_choice");
    EXPECT_EQ(refusal_of(R"({"tool_choice": "required"})"), "tool_choice");
    EXPECT_EQ(refusal_of(R"({"tool_choice": "required", "tools": [{"type": "web_search"}]})"), "tool_choice");
    EXPECT_EQ(refusal_of(R"({"tool_choice": "sometimes"})"), "tool_choice");
    EXPECT_EQ(refusal_of(R"({"tools": [{"type": "functoin", "name": "f"}]})"), "tools[0].type");
    EXPECT_EQ(refusal_of(R"({"tools": [{"type": "function"}]})"), "tools[0].name");
    EXPECT_EQ(refusal_of(R"({"tools": [{"type": "namespace", "name": "g"}]})"), "tools[0].tools");
    EXPECT_EQ(refusal_of(R"({"tools": [{"type": "function", "name": "f"}, {"type": "function", "name": "f"}]})"),
              "tools[1].name");
}

TEST(ResponsesTools, ACallOfAGroupComesBackUnderItsNameInThePrompt) {
    const Json messages = messages_of(R"([
        {"type": "function_call", "call_id": "c1", "name": "run", "namespace": "agents", "arguments": "{}"}])",
                                      kTools);
    EXPECT_EQ(messages[0]["tool_calls"][0]["function"]["name"], "agents.run");
}

}  // namespace
}  // namespace gemmatrace::server::responses_testing
