// The response object and its events: every text in its item, every item in its place, whole and streamed alike.
#include <gtest/gtest.h>

#include "server/responses_fixture.h"
#include "support/expect_error.h"

namespace gemmatrace::server::responses_testing {
namespace {

constexpr const char* kRichReply =
    "<|channel>thought\nLet me see.\n<channel|>I look.<|tool_call>call:add{a:1}<tool_call|>"
    "<|tool_call>call:find{q:<|\"|>x\"y<|\"|>}<tool_call|>Done.";

Json rich_request() {
    return Json::parse(R"({"input": "Hi", "temperature": 0, "tools": [
        {"type": "function", "name": "add", "parameters":
            {"type": "object", "properties": {"a": {"type": ["integer", "string"]}}}},
        {"type": "namespace", "name": "group", "description": "", "tools": [{"type": "function", "name": "find",
            "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}}]}]})");
}

std::string types_of(const Json& output) {
    std::string types;
    for (const Json& item : output) types += item["type"].get<std::string>() + " ";
    return types;
}

// Ids, times and numbers that differ from run to run are taken out.
Json without_ids(Json response) {
    for (const char* name : {"id", "created_at", "completed_at"}) response.erase(name);
    for (Json& item : response["output"]) {
        item.erase("id");
        item.erase("call_id");
    }
    return response;
}

TEST(ResponsesReply, EveryKindOfPieceIsAnItemInItsPlace) {
    const auto owned = scripted_service(kRichReply);
    const Service& service = *owned;
    const Json answer = whole_answer(service, rich_request());
    EXPECT_EQ(answer["status"], "completed");
    const Json& output = answer["output"];
    ASSERT_EQ(types_of(output), "reasoning message function_call function_call message ") << answer.dump(1);
    EXPECT_EQ(output[0]["content"][0]["text"], "Let me see.");
    EXPECT_EQ(output[0]["summary"], Json::array());
    EXPECT_EQ(output[1]["content"][0]["text"], "I look.");
    EXPECT_EQ(output[2]["name"], "add");
    EXPECT_EQ(output[2]["arguments"], R"({"a":1})");
    EXPECT_FALSE(output[2].contains("namespace"));
    EXPECT_EQ(output[3]["name"], "find");
    EXPECT_EQ(output[3]["namespace"], "group");
    EXPECT_EQ(Json::parse(output[3]["arguments"].get<std::string>())["q"], "x\"y");
    EXPECT_EQ(output[4]["content"][0]["text"], "Done.");
    for (const Json& item : output) EXPECT_EQ(item["status"], "completed");
}

TEST(ResponsesReply, UsageAndSettingsAreShown) {
    const auto owned = scripted_service(kRichReply);
    const Service& service = *owned;
    Json request = rich_request();
    request.update(Json::parse(R"({"instructions": "Be brief", "metadata": {"k": "v"}, "top_p": 0.5,
                                   "max_output_tokens": 200, "tool_choice": "auto", "parallel_tool_calls": true})"));
    const Json answer = whole_answer(service, request);
    for (const char* name : {"instructions", "metadata", "top_p", "max_output_tokens", "tool_choice", "tools"}) {
        EXPECT_EQ(answer[name], request[name]) << name;
    }
    EXPECT_EQ(answer["temperature"], 0.0);
    EXPECT_EQ(answer["parallel_tool_calls"], true);
    EXPECT_EQ(answer["text"]["format"]["type"], "text");
    EXPECT_EQ(answer["object"], "response");
    EXPECT_EQ(answer["id"].get<std::string>().substr(0, 5), "resp_");
    const Json& usage = answer["usage"];
    EXPECT_GT(usage["output_tokens_details"]["reasoning_tokens"], 0);
    EXPECT_EQ(usage["input_tokens_details"]["cached_tokens"], 0);
    EXPECT_EQ(usage["total_tokens"], usage["input_tokens"].get<int>() + usage["output_tokens"].get<int>());
}

// Follows the events as the clients do, and checks each against what was announced.
struct Follower {
    Json items = Json::array();
    std::vector<std::string> texts;
    Json last;

    void follow(const std::vector<SentEvent>& events) {
        int64_t number = 0;
        for (const SentEvent& event : events) {
            EXPECT_EQ(event.data["type"], event.name);
            EXPECT_EQ(event.data["sequence_number"], number++);
            take(event);
        }
    }

    void take(const SentEvent& event) {
        const Json& data = event.data;
        const std::string& name = event.name;
        if (data.contains("response")) {
            last = data["response"];
            return;
        }
        if (name == "error") return;
        if (name == "response.output_item.added") {
            EXPECT_EQ(data["output_index"], items.size());
            EXPECT_EQ(data["item"].value("content", Json::array()), Json::array());
            EXPECT_EQ(data["item"].value("arguments", ""), "");
            EXPECT_EQ(data["item"]["status"], "in_progress");
            items.push_back(data["item"]);
            texts.emplace_back();
            return;
        }
        ASSERT_EQ(data["output_index"], items.size() - 1) << name;
        if (name == "response.output_item.done") {
            EXPECT_EQ(data["item"]["id"], items.back()["id"]);
            items.back() = data["item"];
            return;
        }
        EXPECT_EQ(data["item_id"], items.back()["id"]) << name;
        const bool is_call = name.find("arguments") != std::string::npos;
        EXPECT_EQ(data.contains("content_index"), !is_call) << name;
        if (data.contains("delta")) texts.back() += data["delta"].get<std::string>();
        if (name == "response.output_text.done" || name == "response.reasoning_text.done") {
            EXPECT_EQ(data["text"], texts.back());
        }
        if (name == "response.function_call_arguments.done") {
            EXPECT_EQ(data["arguments"], texts.back());
            EXPECT_EQ(data["name"], items.back()["name"]);
        }
        if (name == "response.content_part.done") {
            EXPECT_EQ(data["part"]["text"], texts.back());
        }
    }
};

TEST(ResponsesReply, TheStreamTellsWhatTheWholeAnswerHolds) {
    const auto owned = scripted_service(kRichReply);
    const Service& service = *owned;
    const std::vector<SentEvent> events = streamed_answer(service, rich_request());
    ASSERT_GT(events.size(), 4U);
    EXPECT_EQ(events[0].name, "response.created");
    EXPECT_EQ(events[1].name, "response.in_progress");
    EXPECT_EQ(events[1].data["response"]["output"], Json::array());
    EXPECT_EQ(events[1].data["response"]["status"], "in_progress");
    EXPECT_EQ(events.back().name, "response.completed");
    Follower follower;
    follower.follow(events);
    EXPECT_EQ(follower.items, follower.last["output"]);
    EXPECT_EQ(without_ids(follower.last), without_ids(whole_answer(service, rich_request())));
}

TEST(ResponsesReply, F140_ACutAnswerSaysSo) {
    const auto owned = scripted_service("one two three four five six seven eight nine ten");
    const Service& service = *owned;
    const Json request = Json::parse(R"({"input": "Count", "max_output_tokens": 3})");
    const Json answer = whole_answer(service, request);
    EXPECT_EQ(answer["status"], "incomplete");
    EXPECT_EQ(answer["incomplete_details"]["reason"], "max_output_tokens");
    EXPECT_EQ(answer["output"][0]["status"], "incomplete");
    EXPECT_EQ(answer["usage"]["output_tokens"], 3);
    EXPECT_EQ(streamed_answer(service, request).back().name, "response.incomplete");
    EXPECT_EQ(whole_answer(service, Json::parse(R"({"input": "Count"})"))["incomplete_details"], nullptr);
}

TEST(ResponsesReply, F089_ACallCutByLengthComesBackAsText) {
    const auto owned = scripted_service("<|tool_call>call:add{a:<|\"|>one two three four five six<|\"|>}<tool_call|>");
    const Service& service = *owned;
    Json request = rich_request();
    request["max_output_tokens"] = 8;
    const Json answer = whole_answer(service, request);
    EXPECT_EQ(answer["status"], "incomplete");
    ASSERT_EQ(types_of(answer["output"]), "message ");
    EXPECT_NE(answer["output"][0]["content"][0]["text"], "");
}

TEST(ResponsesReply, AnEmptyReplyIsStillAMessage) {
    const auto owned = scripted_service("");
    const Service& service = *owned;
    Follower follower;
    follower.follow(streamed_answer(service, Json::parse(R"({"input": "Hi"})")));
    ASSERT_EQ(types_of(follower.last["output"]), "message ");
    EXPECT_EQ(follower.last["output"][0]["content"][0]["text"], "");
    EXPECT_EQ(follower.last["output"], follower.items);
}

TEST(ResponsesReply, F137_AFailureInsideAStreamIsToldAndEndsIt) {
    const auto owned = scripted_service("one two", true);
    const Service& service = *owned;
    const std::vector<SentEvent> events = streamed_answer(service, Json::parse(R"({"input": "Hi"})"));
    Follower follower;
    follower.follow({events.begin(), events.end() - 1});
    ASSERT_EQ(events.back().name, "response.failed");
    const Json& failed = events.back().data["response"];
    EXPECT_EQ(failed["status"], "failed");
    EXPECT_EQ(failed["error"]["code"], "server_error");
    EXPECT_EQ(failed["output"], follower.items);
    bool was_told = false;
    for (const SentEvent& event : events) {
        if (event.name != "error") continue;
        was_told = true;
        EXPECT_EQ(event.data["message"], failed["error"]["message"]);
        EXPECT_EQ(event.data["error"]["type"], "server_error");
    }
    EXPECT_TRUE(was_told);
    EXPECT_EQ(service.responses->find(failed["id"].get<std::string>()), nullptr);
    EXPECT_EQ(ask(service, Json::parse(R"({"input": "Hi"})")).status, 500);
}

TEST(ResponsesReply, LogprobsJoinToTheText) {
    const auto owned = scripted_service("<|channel>thought\nHm.\n<channel|>one two");
    const Service& service = *owned;
    const Json request =
        Json::parse(R"({"input": "Hi", "include": ["message.output_text.logprobs"], "top_logprobs": 2})");
    Follower follower;
    std::string joined;
    const auto events = streamed_answer(service, request);
    follower.follow(events);
    for (const Json& entry : follower.last["output"][1]["content"][0]["logprobs"]) {
        joined += entry["token"].get<std::string>();
        EXPECT_EQ(entry["top_logprobs"].size(), 2U);
    }
    EXPECT_EQ(joined, "one two");
    size_t streamed = 0;
    for (const SentEvent& event : events) {
        if (event.name == "response.output_text.delta") streamed += event.data["logprobs"].size();
    }
    EXPECT_EQ(streamed, follower.last["output"][1]["content"][0]["logprobs"].size());
}

TEST(ResponsesReply, AThoughtIsCarriedForClientsThatKeepNothingElse) {
    const auto owned = scripted_service(kRichReply);
    const Service& service = *owned;
    Json request = rich_request();
    EXPECT_FALSE(whole_answer(service, request)["output"][0].contains("encrypted_content"));
    request["include"] = Json::array({"reasoning.encrypted_content"});
    Json thought = whole_answer(service, request)["output"][0];
    EXPECT_EQ(thought["encrypted_content"], "gemmatrace-thought:Let me see.");
}

TEST(ResponsesReply, WhatWasSentIsTakenBackByIdOrByItem) {
    const auto owned = scripted_service(kRichReply);
    const Service& service = *owned;
    const Json first = whole_answer(service, rich_request());
    const std::string id = first["id"];
    Json next = rich_request();
    next["previous_response_id"] = id;
    next["input"] = Json::array();
    for (const Json& item : first["output"]) {
        if (item["type"] != "function_call") continue;
        Json output;
        output["type"] = "function_call_output";
        output["call_id"] = item["call_id"];
        output["output"] = "found";
        next["input"].push_back(output);
    }
    const Json by_id = whole_answer(service, next);
    EXPECT_EQ(by_id["previous_response_id"], id);

    // The same conversation sent item by item, and by references, is the same prompt.
    Json items = Json::array();
    Json references = Json::array();
    for (Json* list : {&items, &references}) list->push_back(Json::parse(R"({"role": "user", "content": "Hi"})"));
    for (const Json& item : first["output"]) {
        items.push_back(item);
        Json reference;
        reference["type"] = "item_reference";
        reference["id"] = item["id"];
        references.push_back(reference);
    }
    for (const Json& output : next["input"]) {
        items.push_back(output);
        references.push_back(output);
    }
    const auto prompt_of = [&](const Json& request) {
        return parse_responses_request(service, *service.responses, request).job.request.prompt_ids;
    };
    Json by_items = rich_request();
    by_items["input"] = items;
    EXPECT_EQ(prompt_of(by_items), prompt_of(next));
    by_items["input"] = references;
    EXPECT_EQ(prompt_of(by_items), prompt_of(next));

    // And the second answer is a place to go on from, too.
    Json third = rich_request();
    third["previous_response_id"] = by_id["id"];
    third["input"] = "Thanks";
    const std::string text = service.tokenizer.decode(prompt_of(third), false);
    for (const char* words : {"<|turn>user\nHi", "response:add", "response:find", "Thanks"}) {
        EXPECT_NE(text.find(words), std::string::npos) << words << " in " << text;
    }
}

RouteContext context_for(const Service& service, std::shared_ptr<RecordingWriter> writer) {
    return {service, HttpRequest(), std::move(writer), nullptr};
}

TEST(ResponsesReply, WithoutStoreNothingIsKept) {
    const auto owned = scripted_service("Hello");
    const Service& service = *owned;
    Json request = Json::parse(R"({"input": "Hi"})");
    const std::string kept = whole_answer(service, request)["id"];
    request["store"] = false;
    const std::string gone = whole_answer(service, request)["id"];
    EXPECT_EQ(service.responses->entries(), 1U);

    auto writer = std::make_shared<RecordingWriter>();
    answer_stored_response(context_for(service, writer), kept);
    EXPECT_EQ(Json::parse(writer->wait().body)["id"], kept);
    gemmatrace::testing::expect_error(ErrorCode::not_found, {gone}, [&] {
        answer_stored_response(context_for(service, std::make_shared<RecordingWriter>()), gone);
    });

    auto deleted = std::make_shared<RecordingWriter>();
    answer_delete_response(context_for(service, deleted), kept);
    EXPECT_EQ(Json::parse(deleted->wait().body)["deleted"], true);
    gemmatrace::testing::expect_error(ErrorCode::not_found, {kept}, [&] {
        answer_delete_response(context_for(service, std::make_shared<RecordingWriter>()), kept);
    });
}

}  // namespace
}  // namespace gemmatrace::server::responses_testing
