// What the store of responses keeps, finds and drops.
#include "server/responses_store.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace gemmatrace::server::responses_testing {
namespace {

StoredResponse stored_with_item(const std::string& item_id) {
    return {R"({"output":[{"id":")" + item_id + R"(","type":"message"}]})", "[]"};
}

TEST(ResponseStore, DropsWhatWasNotAskedForLongest) {
    ResponseStore store({.max_entries = 2, .max_bytes = 1000});
    store.put("a", {"{}", "[]"}, {});
    store.put("b", {"{}", "[]"}, {});
    EXPECT_NE(store.find("a"), nullptr);
    store.put("c", {"{}", "[]"}, {});
    EXPECT_NE(store.find("a"), nullptr);
    EXPECT_EQ(store.find("b"), nullptr);
    EXPECT_NE(store.find("c"), nullptr);
    EXPECT_EQ(store.entries(), 2U);
}

TEST(ResponseStore, HoldsNoMoreBytesThanItMay) {
    ResponseStore store({.max_entries = 100, .max_bytes = 100});
    for (const char* id : {"a", "b", "c", "d"}) {
        store.put(id, {std::string(20, 'x'), std::string(19, 'y')}, {});
        EXPECT_LE(store.bytes(), 100U);
    }
    EXPECT_EQ(store.entries(), 2U);
    EXPECT_EQ(store.bytes(), 80U);
    store.put("large", {std::string(200, 'x'), ""}, {});
    EXPECT_EQ(store.find("large"), nullptr);
    EXPECT_EQ(store.entries(), 2U);  // and nothing was dropped for what has no room
}

TEST(ResponseStore, FindsItemsOfTheResponsesThatAreThere) {
    ResponseStore store;
    store.put("a", stored_with_item("msg_1"), {"msg_1"});
    ASSERT_TRUE(store.find_item("msg_1").has_value());
    EXPECT_EQ(store.find_item("msg_1")->at("type"), "message");
    EXPECT_FALSE(store.find_item("msg_2").has_value());
    EXPECT_TRUE(store.erase("a"));
    EXPECT_FALSE(store.erase("a"));
    EXPECT_FALSE(store.find_item("msg_1").has_value());
    EXPECT_EQ(store.bytes(), 0U);
}

TEST(ResponseStore, LetsAReaderKeepWhatIsDropped) {
    ResponseStore store({.max_entries = 1, .max_bytes = 1000});
    store.put("a", {"first", "[]"}, {});
    const auto kept = store.find("a");
    store.put("b", {"second", "[]"}, {});
    EXPECT_EQ(store.find("a"), nullptr);
    EXPECT_EQ(kept->response, "first");
}

}  // namespace
}  // namespace gemmatrace::server::responses_testing
