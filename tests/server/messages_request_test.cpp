// What a Messages request becomes for the engine, and what is refused of it.
#include "server/messages_request.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "server/messages_fixture.h"
#include "support/expect_error.h"

namespace gemmatrace::server::messages_testing {
namespace {

using gemmatrace::testing::thrown_error;

Json body_with(const char* members) {
    Json body = json(R"({"model": "demo", "max_tokens": 16, "messages": [{"role": "user", "content": "Hi"}]})");
    body.update(json(members));
    return body;
}

MessagesRequest parsed(const char* members) { return parse_messages_request(demo_service(), body_with(members)); }

std::string prompt_of(const char* members) {
    return demo_service().tokenizer.decode(parsed(members).job.request.prompt_ids, false);
}

void expect_request_refused(ErrorCode code, const std::string& field, const char* members) {
    SCOPED_TRACE(members);
    const auto error = thrown_error([&] { parsed(members); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), code) << error->what();
    EXPECT_EQ(error->context().front().second, field) << error->what();
}

TEST(MessagesRequest, MembersReachTheJob) {
    const MessagesRequest request = parsed(R"({"stream": true, "temperature": 0.5, "top_p": 0.9, "top_k": 7,
        "stop_sequences": ["END", "###"], "tools": [{"name": "f", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": true}})");
    EXPECT_TRUE(request.streams);
    EXPECT_EQ(request.model, "demo");
    const GenerationJob& job = request.job;
    EXPECT_EQ(job.request.max_tokens, 16);
    EXPECT_EQ(job.request.sampling.temperature, 0.5);
    EXPECT_EQ(job.request.sampling.top_p, 0.9);
    EXPECT_EQ(job.request.sampling.top_k, 7);
    EXPECT_EQ(job.stop_strings, (std::vector<std::string>{"END", "###"}));
    EXPECT_TRUE(job.parses_tool_calls);
    EXPECT_TRUE(job.is_single_call);
    EXPECT_TRUE(job.is_chat);
}

TEST(MessagesRequest, WithoutToolsCallsAreText) {
    EXPECT_FALSE(parsed("{}").job.parses_tool_calls);
    EXPECT_FALSE(parsed(R"({"tools": [{"name": "f", "input_schema": {}}], "tool_choice": {"type": "none"}})")
                     .job.parses_tool_calls);
}

TEST(MessagesRequest, F138_MembersThatAreUnknownOrNullAreAccepted) {
    const MessagesRequest request = parsed(R"({"stream": null, "temperature": null, "system": null, "tools": null,
        "tool_choice": null, "thinking": null, "stop_sequences": null, "metadata": {"user_id": "u"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}, "service_tier": "auto",
        "output_config": {"effort": "xhigh"}, "mcp_servers": [], "some_future_member": {"a": [1]}})");
    EXPECT_EQ(request.job.request.prompt_ids, parsed("{}").job.request.prompt_ids);
}

TEST(MessagesRequest, ThinkingIsSwitchedOnInEitherForm) {
    EXPECT_EQ(prompt_of("{}").find("<|think|>"), std::string::npos);
    EXPECT_EQ(prompt_of(R"({"thinking": {"type": "disabled"}})").find("<|think|>"), std::string::npos);
    EXPECT_NE(prompt_of(R"({"thinking": {"type": "enabled", "budget_tokens": 1024}})").find("<|think|>"),
              std::string::npos);
    const char* adaptive =
        R"({"thinking": {"type": "adaptive", "display": "omitted"}, "output_config": {"effort": "low"}})";
    EXPECT_NE(prompt_of(adaptive).find("<|think|>"), std::string::npos);
    EXPECT_TRUE(parsed(adaptive).hides_thoughts);
    EXPECT_FALSE(parsed(R"({"thinking": {"type": "adaptive", "display": "summarized"}})").hides_thoughts);
}

TEST(MessagesRequest, CountingGivesThePromptsLength) {
    for (const char* members :
         {"{}", R"({"system": "Be brief."})", R"({"tools": [{"name": "f", "input_schema": {"type": "object"}}]})",
          R"({"thinking": {"type": "adaptive"}})",
          R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]})"}) {
        Json body = body_with(members);
        const size_t prompt_tokens = parse_messages_request(demo_service(), body).job.request.prompt_ids.size();
        body.erase("max_tokens");
        EXPECT_EQ(count_messages_tokens(demo_service(), body), static_cast<int64_t>(prompt_tokens)) << members;
    }
}

TEST(MessagesRequest, F132_WhatDoesNotFitIsRefusedWithBothNumbers) {
    const auto count = static_cast<int64_t>(parsed("{}").job.request.prompt_ids.size());
    constexpr int64_t kContext = kMessagesContext;
    Json body = body_with("{}");
    body["max_tokens"] = kContext - count;
    EXPECT_EQ(parse_messages_request(demo_service(), body).job.request.max_tokens, kContext - count);
    body["max_tokens"] = kContext - count + 1;
    const auto cut = thrown_error([&] { parse_messages_request(demo_service(), body); });
    ASSERT_TRUE(cut);
    EXPECT_EQ(cut->code(), ErrorCode::too_long);
    EXPECT_EQ(cut->message(), fmt::format("input length and `max_tokens` exceed context limit: {} + {} > {}", count,
                                          kContext - count + 1, kContext));

    std::string words;
    for (int64_t word = 0; word < kContext; ++word) words += "a ";
    body["messages"][0]["content"] = words;
    const auto too_long = thrown_error([&] { parse_messages_request(demo_service(), body); });
    ASSERT_TRUE(too_long);
    EXPECT_EQ(too_long->code(), ErrorCode::too_long);
    EXPECT_EQ(too_long->message(), fmt::format("prompt is too long: {} tokens > {} maximum",
                                               count_messages_tokens(demo_service(), body), kContext - 1));
}

TEST(MessagesRequest, WrongMembersAreRefusedByField) {
    constexpr auto kBad = ErrorCode::bad_request;
    expect_request_refused(kBad, "max_tokens", R"({"max_tokens": null})");
    expect_request_refused(kBad, "max_tokens", R"({"max_tokens": 0})");
    expect_request_refused(kBad, "max_tokens", R"({"max_tokens": 1.5})");
    expect_request_refused(kBad, "max_tokens", R"({"max_tokens": true})");
    expect_request_refused(kBad, "temperature", R"({"temperature": -1})");
    expect_request_refused(kBad, "top_p", R"({"top_p": 1.5})");
    expect_request_refused(kBad, "stop_sequences", R"({"stop_sequences": [1]})");
    expect_request_refused(kBad, "stream", R"({"stream": "yes"})");
    expect_request_refused(kBad, "messages", R"({"messages": "Hi"})");
    expect_request_refused(kBad, "system", R"({"system": 5})");
    expect_request_refused(kBad, "thinking.type", R"({"thinking": {"type": "often"}})");
    expect_request_refused(kBad, "thinking.budget_tokens", R"({"thinking": {"type": "enabled", "budget_tokens": 0}})");
    expect_request_refused(kBad, "output_config.effort", R"({"output_config": {"effort": 3}})");
    expect_request_refused(kBad, "output_config.format.schema",
                           R"({"output_config": {"format": {"type": "json_schema"}}})");
    expect_request_refused(ErrorCode::not_found, "model", R"({"model": "claude"})");
    expect_request_refused(ErrorCode::unsupported, "mcp_servers", R"({"mcp_servers": [{"url": "x"}]})");
    expect_request_refused(ErrorCode::unsupported, "thread", R"({"thread": {"type": "create"}})");
    expect_request_refused(kBad, "messages", R"({"output_config": {"format": {"type": "json_schema", "schema": {}}},
        "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "{"}]})");
}

}  // namespace
}  // namespace gemmatrace::server::messages_testing
