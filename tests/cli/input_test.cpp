// Lists of ids in every form that people and scripts write them, and what is no id refused.
#include "cli/input.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace gemmatrace::cli {
namespace {

using Ids = std::vector<int32_t>;

TEST(ParseIdsTest, numbers_lists_and_objects_are_the_same_ids) {
    for (const char* text : {"2,105,7", "2 105 7", "2\n105\n7\n", " 2 ,\t105,, 7 ", "[2, 105, 7]", " [2,105,7] \n",
                             R"({"tokens": ["a"], "ids": [2, 105, 7]})"}) {
        EXPECT_EQ(parse_ids(text, "a test"), (Ids{2, 105, 7})) << text;
    }
    EXPECT_EQ(parse_ids("2147483647", "a test"), (Ids{2147483647}));
}

TEST(ParseIdsTest, nothing_is_an_empty_list) {
    for (const char* text : {"", " \n\t,", "[]", R"({"ids": []})"}) EXPECT_EQ(parse_ids(text, "a test"), Ids{}) << text;
}

TEST(ParseIdsTest, what_is_no_id_is_refused) {
    for (const char* text : {"a", "1,b", "-1", "1.5", "1e3", "0x10", "2147483648", "99999999999999999999", "[1, -2]",
                             "[1.0]", "[\"1\"]", "[2147483648]", "[1", "{}", R"({"ids": 1})", R"({"ids": "1"})",
                             "[[1]]", "[true]", "[18446744073709551615]"}) {
        try {
            parse_ids(text, "a test");
            ADD_FAILURE() << text << " was taken";
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::bad_request) << text;
        }
    }
}

}  // namespace
}  // namespace gemmatrace::cli
