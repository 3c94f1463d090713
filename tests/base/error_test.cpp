// The error family: names, exit codes of the table in the style page, and the one line that users read.
#include "base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

namespace gemmatrace {
namespace {

TEST(Error, EveryCodeHasItsNameAndExitStatus) {
    const std::vector<std::tuple<ErrorCode, std::string, int>> table{
        {ErrorCode::bad_request, "bad_request", 2}, {ErrorCode::too_long, "too_long", 2},
        {ErrorCode::not_found, "not_found", 3},     {ErrorCode::unsupported, "unsupported", 4},
        {ErrorCode::mismatch, "mismatch", 5},       {ErrorCode::corrupt, "corrupt", 5},
        {ErrorCode::overloaded, "overloaded", 6},   {ErrorCode::not_ready, "not_ready", 6},
        {ErrorCode::resource, "resource", 7},       {ErrorCode::device, "device", 8},
        {ErrorCode::timeout, "timeout", 9},         {ErrorCode::interrupted, "interrupted", 130},
        {ErrorCode::internal, "internal", 70},
    };
    for (const auto& [code, name, status] : table) {
        EXPECT_EQ(error_code_name(code), name);
        EXPECT_EQ(exit_status(code), status) << name;
    }
}

TEST(Error, TheLineHoldsMessageContextAndRemedy) {
    EXPECT_STREQ(Error(ErrorCode::corrupt, "the file ends early").what(), "corrupt: the file ends early");
    EXPECT_STREQ(Error(ErrorCode::corrupt, "it ends early", {{"file", "a"}, {"tensor", "b"}}, "fetch it again").what(),
                 "corrupt: it ends early [file=a, tensor=b] Remedy: fetch it again");
}

TEST(Error, ContextAddedOnTheWayUpKeepsWhatIsNearerToTheFault) {
    Error error(ErrorCode::mismatch, "shapes differ", {{"tensor", "inner"}});
    error.add_context("tensor", "outer").add_context("folder", "x");
    EXPECT_STREQ(error.what(), "mismatch: shapes differ [tensor=inner, folder=x]");
    EXPECT_EQ(error.context().size(), 2U);
}

TEST(Error, CanBeCaughtAsAStandardException) {
    try {
        throw Error(ErrorCode::timeout, "too slow");
    } catch (const std::exception& error) {
        EXPECT_STREQ(error.what(), "timeout: too slow");
    }
}

TEST(Require, NamesThePlaceAndTheAssumption) {
    EXPECT_NO_THROW(require(true, "unused"));
    try {
        require(false, "rows divide");
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::internal);
        EXPECT_THAT(error.what(), ::testing::HasSubstr("rows divide"));
        EXPECT_THAT(error.what(), ::testing::HasSubstr("error_test.cpp:"));
    }
}

}  // namespace
}  // namespace gemmatrace
