// Messages and their events: blocks that never overlap, true stop reasons and counts, errors in the dialect's shape.
#include "server/messages_reply.h"

#include <gtest/gtest.h>

#include "server/messages_fixture.h"

namespace gemmatrace::server::messages_testing {
namespace {

using Kind = text::ReplyPiece::Kind;
using Pieces = std::vector<text::ReplyPiece>;
using Reason = ChoiceEnd::Reason;

ChoiceEnd end_with(Reason reason, std::optional<std::string> stop_string = std::nullopt) {
    ChoiceEnd end;
    end.reason = reason;
    end.stop_string = std::move(stop_string);
    end.statistics.prompt_tokens = 30;
    end.statistics.cached_tokens = 12;
    end.statistics.generated_tokens = 5;
    return end;
}

MessagesRequest request_of(bool streams, bool hides_thoughts = false) {
    MessagesRequest request;
    request.model = "demo";
    request.streams = streams;
    request.hides_thoughts = hides_thoughts;
    request.job.request.prompt_ids.resize(30);
    return request;
}

std::shared_ptr<KeepingWriter> answered(const MessagesRequest& request, const Pieces& pieces, const ChoiceEnd& end) {
    auto writer = std::make_shared<KeepingWriter>();
    const auto reply = make_messages_reply(request, "req_1", writer, nullptr);
    reply->begin();
    if (end.reason != Reason::cancelled) reply->on_placed(0, end.statistics.cached_tokens);
    for (const auto& piece : pieces) reply->on_piece(0, piece);
    reply->on_end(0, end);
    EXPECT_EQ(writer->ends, 1);
    return writer;
}

const Pieces& pieces_of_all_kinds() {
    static const Pieces pieces = {{Kind::reasoning, "Let ", {}, {}},
                                  {Kind::reasoning, "me see", {}, {}},
                                  {Kind::content, "Looking", {}, {}},
                                  {Kind::content, " now.", {}, {}},
                                  {Kind::tool_call, {}, "weather", R"({"city":"Rome"})"},
                                  {Kind::tool_call, {}, "weather", "{}"}};
    return pieces;
}

// The message that a client puts together, checking the order of events on its way.
Json joined(const std::vector<SentEvent>& events) {
    Json message;
    int open_block = -1;
    std::vector<std::string> inputs;
    for (const auto& [name, data] : events) {
        EXPECT_EQ(name, data["type"]);
        if (name == "message_start") {
            EXPECT_TRUE(message.is_null());
            message = data["message"];
            EXPECT_EQ(message["content"], Json::array());
            EXPECT_TRUE(message["stop_reason"].is_null());
        } else if (name == "content_block_start") {
            EXPECT_EQ(open_block, -1) << "blocks overlap";
            open_block = data["index"];
            EXPECT_EQ(static_cast<size_t>(open_block), message["content"].size());
            message["content"].push_back(data["content_block"]);
            inputs.emplace_back();
        } else if (name == "content_block_delta") {
            EXPECT_EQ(data["index"], open_block);
            const Json& delta = data["delta"];
            Json& block = message["content"].back();
            const std::string type = delta["type"];
            if (type == "text_delta") block["text"].get_ref<std::string&>() += delta["text"].get<std::string>();
            if (type == "thinking_delta") {
                EXPECT_EQ(block["signature"], "") << "the signature comes last";
                block["thinking"].get_ref<std::string&>() += delta["thinking"].get<std::string>();
            }
            if (type == "signature_delta") block["signature"] = delta["signature"];
            if (type == "input_json_delta") inputs.back() += delta["partial_json"].get<std::string>();
        } else if (name == "content_block_stop") {
            EXPECT_EQ(data["index"], open_block);
            if (!inputs.back().empty()) message["content"].back()["input"] = json(inputs.back());
            open_block = -1;
        } else if (name == "message_delta") {
            EXPECT_EQ(open_block, -1);
            message.update(data["delta"]);
            message["usage"] = data["usage"];
        }
    }
    EXPECT_EQ(events.back().name, "message_stop");
    return message;
}

// Ids are made anew for each reply.
Json without_ids(Json message) {
    message.erase("id");
    for (Json& block : message["content"]) block.erase("id");
    return message;
}

TEST(MessagesReply, AMessageHasItsBlocksInOrder) {
    const Json message = answered(request_of(false), pieces_of_all_kinds(), end_with(Reason::tool_calls))->document();
    EXPECT_TRUE(message["id"].get<std::string>().starts_with("msg_"));
    for (const size_t call : {2, 3}) {
        EXPECT_TRUE(message["content"][call]["id"].get<std::string>().starts_with("toolu_"));
    }
    EXPECT_NE(message["content"][2]["id"], message["content"][3]["id"]);
    Json expected = json(R"({"type": "message", "role": "assistant", "model": "demo", "content": [
        {"type": "thinking", "thinking": "Let me see", "signature": "gemmatrace-shown"},
        {"type": "text", "text": "Looking now."},
        {"type": "tool_use", "name": "weather", "input": {"city": "Rome"}},
        {"type": "tool_use", "name": "weather", "input": {}}],
        "stop_reason": "tool_use", "stop_sequence": null, 
        "usage": {"input_tokens": 18, "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 12, "output_tokens": 5}})");
    EXPECT_EQ(without_ids(message), expected);
}

TEST(MessagesReply, EventsComeInTheDialectsOrder) {
    std::string names;
    const auto writer = answered(request_of(true), pieces_of_all_kinds(), end_with(Reason::tool_calls));
    EXPECT_EQ(writer->response.content_type, "text/event-stream");
    for (const SentEvent& event : writer->events()) {
        names += event.name +
                 (event.data.contains("delta") && event.name == "content_block_delta"
                      ? ":" + event.data["delta"]["type"].get<std::string>()
                      : "") +
                 "\n";
    }
    EXPECT_EQ(
        names,
        "message_start\nping\n"
        "content_block_start\ncontent_block_delta:thinking_delta\ncontent_block_delta:thinking_delta\n"
        "content_block_delta:signature_delta\ncontent_block_stop\n"
        "content_block_start\ncontent_block_delta:text_delta\ncontent_block_delta:text_delta\ncontent_block_stop\n"
        "content_block_start\ncontent_block_delta:input_json_delta\ncontent_block_stop\n"
        "content_block_start\ncontent_block_delta:input_json_delta\ncontent_block_stop\n"
        "message_delta\nmessage_stop\n");
    const std::vector<SentEvent> events = writer->events();
    EXPECT_EQ(events[11].data["content_block"]["input"], Json::object());
    EXPECT_EQ(events[11].data["content_block"]["name"], "weather");
}

TEST(MessagesReply, F083_AStreamJoinsToTheWholeMessage) {
    const Pieces late_thought = {
        {Kind::content, "A", {}, {}}, {Kind::reasoning, "B", {}, {}}, {Kind::content, "C", {}, {}}};
    for (const Pieces& pieces : {pieces_of_all_kinds(), late_thought, Pieces{}}) {
        for (const bool hides_thoughts : {false, true}) {
            const ChoiceEnd end = end_with(Reason::stop, "END");
            const Json whole = answered(request_of(false, hides_thoughts), pieces, end)->document();
            const Json streamed = joined(answered(request_of(true, hides_thoughts), pieces, end)->events());
            EXPECT_EQ(without_ids(streamed), without_ids(whole));
        }
    }
}

TEST(MessagesReply, F089_AReplyWithoutAnythingIsAnEmptyText) {
    const Json message = answered(request_of(false), {}, end_with(Reason::stop))->document();
    EXPECT_EQ(message["content"], json(R"([{"type": "text", "text": ""}])"));
}

TEST(MessagesReply, AHiddenThoughtIsOnlyInTheSignature) {
    const Json message = answered(request_of(false, true), pieces_of_all_kinds(), end_with(Reason::stop))->document();
    EXPECT_EQ(message["content"][0],
              json(R"({"type": "thinking", "thinking": "", "signature": "gemmatrace-hidden.TGV0IG1lIHNlZQ"})"));
}

TEST(MessagesReply, F140_EveryEndHasItsReason) {
    const auto stop_of = [](const ChoiceEnd& end) {
        const Json whole = answered(request_of(false), {{Kind::content, "A", {}, {}}}, end)->document();
        return whole["stop_reason"].dump() + whole["stop_sequence"].dump();
    };
    EXPECT_EQ(stop_of(end_with(Reason::stop)), R"("end_turn"null)");
    EXPECT_EQ(stop_of(end_with(Reason::length)), R"("max_tokens"null)");
    EXPECT_EQ(stop_of(end_with(Reason::stop, "\n\nEND")), R"("stop_sequence""\n\nEND")");
    EXPECT_EQ(stop_of(end_with(Reason::tool_calls)), R"("tool_use"null)");
}

TEST(MessagesReply, AStreamStartsWithTheCountsItEndsWith) {
    const auto events = answered(request_of(true), pieces_of_all_kinds(), end_with(Reason::stop))->events();
    Json start = events.front().data["message"]["usage"];
    Json end = (events.end() - 2)->data["usage"];
    EXPECT_EQ(start["output_tokens"], 0);
    start.erase("output_tokens");
    end.erase("output_tokens");
    EXPECT_EQ(start, end);
    EXPECT_EQ(start, json(R"({"input_tokens": 18, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 12})"));
}

TEST(MessagesReply, AStreamThatWaitsHasItsHeadersAndNoEventYet) {
    auto writer = std::make_shared<KeepingWriter>();
    const auto reply = make_messages_reply(request_of(true), "req_1", writer, nullptr);
    reply->begin();
    EXPECT_EQ(writer->starts, 1);
    EXPECT_TRUE(writer->events().empty());
    reply->on_placed(0, 0);
    EXPECT_EQ(writer->events().front().name, "message_start");
}

TEST(MessagesReply, AReplyThatWasCutByTheServerDoesNotLookWhole) {
    const auto streamed = answered(request_of(true), {{Kind::content, "A", {}, {}}}, end_with(Reason::cancelled));
    EXPECT_EQ(streamed->events().back().name, "error");
    const auto whole = answered(request_of(false), {{Kind::content, "A", {}, {}}}, end_with(Reason::cancelled));
    EXPECT_EQ(whole->response.status, 503);
    EXPECT_EQ(whole->document()["error"]["type"], "overloaded_error");
}

TEST(MessagesReply, F137_AnErrorInsideAStreamIsAnEvent) {
    auto writer = std::make_shared<KeepingWriter>();
    const auto reply = make_messages_reply(request_of(true), "req_1", writer, nullptr);
    reply->begin();
    reply->on_piece(0, {Kind::content, "A", {}, {}});
    reply->on_error(0, Error(ErrorCode::internal, "not a number"));
    EXPECT_EQ(writer->response.status, 200);
    EXPECT_EQ(writer->ends, 1);
    const SentEvent last = writer->events().back();
    EXPECT_EQ(last.name, "error");
    EXPECT_EQ(last.data, json(R"({"type": "error", "error": {"type": "api_error", "message": "not a number"},
                                  "request_id": "req_1"})"));
}

TEST(MessagesReply, AnErrorBeforeTheStreamHasAStatusOfItsOwn) {
    for (const bool streams : {false, true}) {
        auto writer = std::make_shared<KeepingWriter>();
        const auto reply = make_messages_reply(request_of(streams), "req_1", writer, nullptr);
        reply->on_error(0, Error(ErrorCode::overloaded, "the queue is full"));
        EXPECT_EQ(writer->response.status, 429);
        EXPECT_EQ(writer->starts, 0);
        EXPECT_EQ(writer->document()["error"]["type"], "rate_limit_error");
    }
}

}  // namespace
}  // namespace gemmatrace::server::messages_testing
