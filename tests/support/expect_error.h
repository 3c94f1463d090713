// Expecting an Error by its code and by what its one line tells the user.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace gemmatrace::testing {

// Runs `action` and returns the Error it throws, or nothing.
template <typename Action>
std::optional<Error> thrown_error(Action action) {
    try {
        action();
    } catch (const Error& error) {
        return error;
    }
    return std::nullopt;
}

// `action` must throw an Error of this code with a remedy, whose text holds all fragments.
template <typename Action>
void expect_error(ErrorCode code, const std::vector<std::string>& fragments, Action action) {
    const auto error = thrown_error(action);
    ASSERT_TRUE(error.has_value()) << "no Error was thrown";
    EXPECT_EQ(error_code_name(error->code()), error_code_name(code)) << error->what();
    EXPECT_FALSE(error->remedy().empty()) << error->what();
    for (const std::string& fragment : fragments) EXPECT_THAT(error->what(), ::testing::HasSubstr(fragment));
}

}  // namespace gemmatrace::testing
