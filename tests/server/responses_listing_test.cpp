// The list of a response's input: forms of items, order, pages and wrong parameters.
#include "server/responses_listing.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/expect_error.h"

namespace gemmatrace::server::responses_testing {
namespace {

using Json = nlohmann::ordered_json;

Json messages(int count) {
    Json items = Json::array();
    for (int index = 0; index < count; ++index) {
        items.push_back({{"role", "user"}, {"content", std::to_string(index)}});
    }
    return items;
}

TEST(ResponsesListing, EveryItemHasATypeAnIdAndParts) {
    const Json items = Json::parse(R"([
        {"role": "user", "content": "Hi"},
        {"id": "msg_1", "type": "message", "role": "assistant", "content": "Hello", "status": "incomplete"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}])");
    const Json page = listed_items(items, "resp_1", "order=asc");
    EXPECT_EQ(page, Json::parse(R"({"object": "list", "data": [
        {"role": "user", "content": [{"type": "input_text", "text": "Hi"}], "type": "message", "id": "item_resp_1_0",
         "status": "completed"},
        {"id": "msg_1", "type": "message", "role": "assistant",
         "content": [{"type": "output_text", "text": "Hello", "annotations": []}], "status": "incomplete"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "id": "item_resp_1_2"}],
        "first_id": "item_resp_1_0", "last_id": "item_resp_1_2", "has_more": false})"));
}

TEST(ResponsesListing, PagesFollowEachOtherUntilAllWasShown) {
    const Json items = messages(45);
    std::string seen;
    std::string expected;
    for (int index = 44; index >= 0; --index) expected += std::to_string(index) + " ";
    std::string query;
    for (const size_t size : {20, 20, 5}) {
        const Json page = listed_items(items, "r", query);
        EXPECT_EQ(page["data"].size(), size);
        EXPECT_EQ(page["has_more"], size == 20);
        for (const Json& item : page["data"]) seen += item["content"][0]["text"].get<std::string>() + " ";
        query = "after=" + page["last_id"].get<std::string>();
    }
    EXPECT_EQ(seen, expected);
    EXPECT_EQ(listed_items(items, "r", query)["data"], Json::array());
    EXPECT_EQ(listed_items(items, "r", "limit=100&order=asc")["data"].size(), 45U);
}

TEST(ResponsesListing, PagesEndThoughAClientGaveOneIdToAllItems) {
    Json items = messages(5);
    for (Json& item : items) item["id"] = "same";
    EXPECT_EQ(listed_items(items, "r", "limit=2&after=same")["data"], Json::array());
}

TEST(ResponsesListing, WrongParametersAreNamed) {
    for (const char* query : {"limit=0", "limit=101", "limit=ten", "order=up", "after=nothing"}) {
        gemmatrace::testing::expect_error(ErrorCode::bad_request, {std::string(query).substr(0, 5)},
                                          [&] { listed_items(messages(3), "r", query); });
    }
}

}  // namespace
}  // namespace gemmatrace::server::responses_testing
