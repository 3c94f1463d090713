// Every block reaches the prompt at its place, or the request is refused by name.
#include "server/messages_conversation.h"

#include <gtest/gtest.h>

#include "server/messages_fixture.h"
#include "server/messages_signature.h"
#include "server/prompt.h"
#include "support/expect_error.h"

namespace gemmatrace::server::messages_testing {
namespace {

using gemmatrace::testing::expect_error;

MessagesConversation conversation_of(const Json& body) { return read_messages_conversation(RequestFields(body, "")); }

Json messages_of(std::string_view messages) {
    Json body;
    body["messages"] = json(messages);
    return conversation_of(body).messages;
}

void expect_refused(ErrorCode code, const std::string& field, std::string_view messages) {
    SCOPED_TRACE(std::string(messages));
    expect_error(code, {field}, [&] { messages_of(messages); });
}

// The prompt as the demo's template writes it.
std::string prompt_text(const Json& body) {
    MessagesConversation conversation = conversation_of(body);
    ChatPrompt prompt;
    prompt.messages = conversation.messages;
    prompt.continues_last = conversation.continues_last;
    const std::vector<int32_t> ids = chat_ids(demo_service(), prompt);
    return demo_service().tokenizer.decode(ids, false);
}

TEST(MessagesConversation, StringsAndBlocksAreTexts) {
    EXPECT_EQ(messages_of(R"([{"role": "user", "content": "Hi"}])"), json(R"([{"role": "user", "content": "Hi"}])"));
    EXPECT_EQ(messages_of(R"([{"role": "user", "content": [
                  {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}, "citations": null},
                  {"type": "text", "text": "b"}]}])"),
              json(R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}])"));
}

TEST(MessagesConversation, SystemTextsKeepTheirPlaces) {
    const Json body = json(R"({
        "system": [{"type": "text", "text": "one", "cache_control": {"type": "ephemeral"}},
                   {"type": "text", "text": "two"}],
        "messages": [{"role": "system", "content": "three"}, {"role": "user", "content": "Hi"},
                     {"role": "system", "content": [{"type": "text", "text": "four"}]}]})");
    EXPECT_EQ(conversation_of(body).messages, json(R"([
        {"role": "system", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
        {"role": "system", "content": "three"}, {"role": "user", "content": "Hi"},
        {"role": "system", "content": [{"type": "text", "text": "four"}]}])"));
    const std::string prompt = prompt_text(body);
    size_t place = 0;
    for (const char* word : {"one", "two", "three", "Hi", "four"}) {
        place = prompt.find(word, place);
        ASSERT_NE(place, std::string::npos) << word << " in " << prompt;
    }
}

TEST(MessagesConversation, AnEmptySystemTextIsNone) {
    for (const char* system : {R"("")", "[]", "null"}) {
        Json body = json(R"({"messages": [{"role": "user", "content": "Hi"}]})");
        body["system"] = json(system);
        EXPECT_EQ(conversation_of(body).messages.size(), 1U) << system;
    }
}

TEST(MessagesConversation, AResultAndTheTextBesideItBothReachThePrompt) {
    const char* tool_turns[] = {
        R"([{"type": "tool_result", "tool_use_id": "t1", "content": "sunny"}, {"type": "text", "text": "Thanks"}])",
        R"([{"type": "text", "text": "Thanks"}, {"type": "tool_result", "tool_use_id": "t1", "content": "sunny"}])"};
    for (const char* turn : tool_turns) {
        Json body = json(R"({"messages": [{"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Rome"}}]}]})");
        Json last;
        last["role"] = "user";
        last["content"] = json(turn);
        body["messages"].push_back(last);
        EXPECT_EQ(conversation_of(body).messages, json(R"([
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": "", "tool_calls": [
                {"id": "t1", "type": "function", "function": {"name": "weather", "arguments": {"city": "Rome"}}}]},
            {"role": "tool", "content": "sunny", "tool_call_id": "t1"},
            {"role": "user", "content": [{"type": "text", "text": "Thanks"}]}])"));
        const std::string prompt = prompt_text(body);
        const size_t result = prompt.find("<tool_call|><|tool_response>response:weather{value:<|\"|>sunny");
        ASSERT_NE(result, std::string::npos) << prompt;
        EXPECT_NE(prompt.find("<|turn>user\nThanks", result), std::string::npos) << prompt;
    }
}

TEST(MessagesConversation, ResultsFindTheirCallsWhateverStandsBetween) {
    const Json messages = messages_of(R"([
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}},
                                          {"type": "tool_use", "id": "b", "name": "g", "input": null}]},
        {"role": "system", "content": "a note"},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "b", "content": [
                                          {"type": "text", "text": "x"}, {"type": "text", "text": "y"}]},
                                     {"type": "tool_result", "tool_use_id": "a"}]}])");
    ASSERT_EQ(messages.size(), 4U);
    EXPECT_EQ(messages[0]["tool_calls"].size(), 2U);
    EXPECT_EQ(messages[0]["tool_calls"][1]["function"]["arguments"], Json::object());
    EXPECT_EQ(messages[1], json(R"({"role": "tool", "content": "", "tool_call_id": "a"})"));
    EXPECT_EQ(messages[2], json(R"({"role": "tool", "content": "x\ny", "tool_call_id": "b"})"));
    EXPECT_EQ(messages[3]["role"], "system");
}

TEST(MessagesConversation, AnIdThatIsUsedAgainGetsItsOwnResult) {
    const Json messages = messages_of(R"([
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "first"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "second"}]}])");
    EXPECT_EQ(messages[1]["content"], "first");
    EXPECT_EQ(messages[3]["content"], "second");
}

TEST(MessagesConversation, AFailedResultSaysSo) {
    const Json messages = messages_of(R"([
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": "no such file", "is_error": true}]}])");
    EXPECT_EQ(messages[1]["content"], "Error: no such file");
}

TEST(MessagesConversation, F072_WordsBeforeACallStayBeforeItAndItsResult) {
    const Json body = json(R"({"messages": [{"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hmm", "signature": "s"},
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "t1", "name": "weather", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "sunny"}]}]})");
    const std::string prompt = prompt_text(body);
    EXPECT_NE(prompt.find("thought\nHmm\n<channel|>Let me look.<|tool_call>call:weather{}<tool_call|><|tool_response>"),
              std::string::npos)
        << prompt;
    EXPECT_TRUE(prompt.ends_with("sunny<|\"|>}<tool_response|>")) << prompt;
}

TEST(MessagesConversation, ThoughtsOfTheHistoryAreAccepted) {
    const Json messages = messages_of(R"([{"role": "assistant", "content": [
        {"type": "thinking", "thinking": "one", "signature": "EqQBCgIYAhIM"},
        {"type": "redacted_thinking", "data": "abc"},
        {"type": "thinking", "thinking": "two", "signature": ""}, {"type": "text", "text": "Yes"}]}])");
    EXPECT_EQ(messages, json(R"([{"role": "assistant", "content": "Yes", "reasoning_content": "one\ntwo"}])"));
}

TEST(MessagesConversation, AHiddenThoughtComesBackFromItsSignature) {
    for (const std::string thought : {"a", "ab", "abc", "Grüße, 世界 \x01\n", ""}) {
        Json block = json(R"({"type": "thinking", "thinking": ""})");
        block["signature"] = thinking_signature(thought, true);
        EXPECT_EQ(thought_of(RequestFields(block, "")), thought);
    }
    for (const char* forged : {"gemmatrace-hidden.?", "gemmatrace-hidden.A", "other"}) {
        Json block;
        block["signature"] = forged;
        EXPECT_EQ(thought_of(RequestFields(block, "")), "") << forged;
    }
}

TEST(MessagesConversation, ALastAssistantMessageIsContinued) {
    const Json body = json(R"({"messages": [{"role": "user", "content": "Capital of France?"},
                              {"role": "assistant", "content": [{"type": "text", "text": "The capital is"}]}]})");
    EXPECT_TRUE(conversation_of(body).continues_last);
    EXPECT_TRUE(prompt_text(body).ends_with("<|turn>model\nThe capital is"));
    EXPECT_FALSE(conversation_of(json(R"({"messages": [{"role": "user", "content": "Hi"}]})")).continues_last);
}

TEST(MessagesConversation, F129_BlocksThatAreNoTextAreRefusedByName) {
    expect_refused(ErrorCode::unsupported, "messages[0].content[1].type", R"([{"role": "user", "content": [
        {"type": "text", "text": "a"}, {"type": "image", "source": {"type": "base64", "data": "AA=="}}]}])");
    expect_refused(ErrorCode::unsupported, "messages[0].content[0].type",
                   R"([{"role": "user", "content": [{"type": "document", "source": {}}]}])");
    expect_refused(ErrorCode::unsupported, "messages[1].content[0].content[0].type", R"([
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "image"}]}]}])");
    expect_refused(ErrorCode::unsupported, "messages[0].content[0].type",
                   R"([{"role": "assistant", "content": [{"type": "server_tool_use", "id": "a"}]}])");
}

TEST(MessagesConversation, WhatIsNoConversationIsRefusedByField) {
    constexpr auto kBad = ErrorCode::bad_request;
    expect_refused(kBad, "messages[0].role", R"([{"role": "tool", "content": "a"}])");
    expect_refused(kBad, "messages: holds 0", "[]");
    expect_error(kBad, {"messages[0].content[0].tool_use_id", "'x'"}, [] {
        messages_of(R"([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "a"}]}])");
    });
    expect_refused(kBad, "messages[0].content[0].tool_use_id", R"([
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "a"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "x", "name": "f", "input": {}}]},
        {"role": "user", "content": "b"}])");
    expect_refused(
        kBad, "messages[0].content: the conversation ends with a call",
        R"([{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]}])");
    for (const char* messages :
         {R"([{"role": "user"}])", R"([{"role": "user", "content": 5}])", R"([{"role": "user", "content": ["a"]}])",
          R"([{"role": "user", "content": [{"text": "a"}]}])", R"([{"content": "a"}])", R"(["a"])",
          R"([{"role": "user", "content": [{"type": "text"}]}])",
          R"([{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": "{}"}]},
              {"role": "user", "content": "a"}])"}) {
        SCOPED_TRACE(messages);
        const auto error = gemmatrace::testing::thrown_error([&] { messages_of(messages); });
        ASSERT_TRUE(error);
        EXPECT_EQ(error->code(), kBad);
        EXPECT_EQ(error->context().front().first, "field");
    }
}

}  // namespace
}  // namespace gemmatrace::server::messages_testing
