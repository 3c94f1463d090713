// Which failures pass, what each becomes when it does not, and how long is waited.
#include "hub/retry.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/expect_error.h"

namespace gemmatrace::hub {
namespace {

using testing::expect_error;
using testing::thrown_error;
using Headers = std::map<std::string, std::string, std::less<>>;

TransferResult status(int code, Headers headers = {}) {
    return {.reply = {code, std::move(headers)}, .end = TransferEnd::complete, .detail = {}};
}

TransferResult broken(TransferEnd end) { return {.reply = {}, .end = end, .detail = "detail"}; }

Subject subject(const std::string& file = {}, bool has_token = false) {
    return {.endpoint = "https://hub", .repository = "a/b", .revision = "main", .file = file, .has_token = has_token};
}

void expect_becomes(const TransferResult& result, const Subject& about, ErrorCode code,
                    const std::vector<std::string>& fragments) {
    expect_error(code, fragments, [&] {
        if (auto error = transfer_error(result, about)) throw std::move(*error);
    });
}

TEST(HubErrors, EveryClassOfAnswerHasItsOwnCodeAndRemedy) {
    expect_becomes(status(404, {{"x-error-code", "RepoNotFound"}}), subject(), ErrorCode::not_found,
                   {"no repository 'a/b'"});
    expect_becomes(status(404, {{"x-error-code", "RevisionNotFound"}}), subject(), ErrorCode::not_found,
                   {"no revision 'main'"});
    expect_becomes(status(404, {{"x-error-code", "EntryNotFound"}}), subject("config.json"), ErrorCode::not_found,
                   {"config.json"});
    expect_becomes(status(401), subject(), ErrorCode::not_found, {"without a token", "HF_TOKEN"});
    expect_becomes(status(401), subject("", true), ErrorCode::bad_request, {"does not accept the access token"});
    expect_becomes(status(403, {{"x-error-code", "GatedRepo"}}), subject(), ErrorCode::bad_request,
                   {"gated", "accept the licence at https://hub/a/b", "HF_TOKEN"});
    expect_becomes(status(429), subject(), ErrorCode::overloaded, {"too many requests"});
    expect_becomes(status(500), subject(), ErrorCode::not_ready, {"status 500"});
    expect_becomes(status(503), subject(), ErrorCode::not_ready, {"status 503"});
    expect_becomes(status(504), subject(), ErrorCode::timeout, {"too long"});
    expect_becomes(status(302), subject(), ErrorCode::corrupt, {"status 302"});
    expect_becomes(broken(TransferEnd::dropped), subject(), ErrorCode::not_ready, {"lost", "detail"});
    expect_becomes(broken(TransferEnd::stalled), subject(), ErrorCode::timeout, {"HF_HUB_DOWNLOAD_TIMEOUT"});
    expect_becomes(broken(TransferEnd::unreachable), subject(), ErrorCode::not_ready, {"cannot be reached"});
    expect_becomes(broken(TransferEnd::refused), subject(), ErrorCode::not_ready, {"trusted"});
    for (const int good : {200, 206, 416}) EXPECT_FALSE(transfer_error(status(good), subject())) << good;
}

TEST(HubErrors, OnlyWhatMayPassIsTriedAgain) {
    for (const int code : {408, 429, 500, 502, 503, 504}) EXPECT_TRUE(may_pass(status(code))) << code;
    for (const int code : {400, 401, 403, 404, 416}) EXPECT_FALSE(may_pass(status(code))) << code;
    EXPECT_TRUE(may_pass(broken(TransferEnd::dropped)));
    EXPECT_TRUE(may_pass(broken(TransferEnd::stalled)));
    EXPECT_FALSE(may_pass(broken(TransferEnd::refused)));
    TransferResult expired = status(403);  // a signed address that grew old: the hub gives a new one
    expired.is_from_other_host = true;
    EXPECT_TRUE(may_pass(expired));
}

TEST(HubErrors, RetryAfterIsSecondsOrADate) {
    EXPECT_EQ(asked_wait_s({429, {{"retry-after", "7"}}}, 0), 7.0);
    // 1994-11-06 08:49:37, the example of RFC 9110, is 784111777 seconds after 1970.
    EXPECT_EQ(asked_wait_s({503, {{"retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"}}}, 784111767.0), 10.0);
    EXPECT_EQ(asked_wait_s({503, {{"retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"}}}, 784111999.0), 0.0);
    EXPECT_EQ(asked_wait_s({503, {{"retry-after", "Thu, 29 Feb 2024 00:00:00 GMT"}}}, 1709164800.0), 0.0);
    EXPECT_EQ(asked_wait_s({503, {{"retry-after", "Thu, 29 Feb 2024 00:00:00 GMT"}}}, 1709164799.0), 1.0);
    for (const char* nonsense : {"", "-1", "soon", "99999999999999999999", "1.5"}) {
        EXPECT_EQ(asked_wait_s({503, {{"retry-after", nonsense}}}, 0), std::nullopt) << nonsense;
    }
}

class HubPatience : public ::testing::Test {
  protected:
    HubPatience() {
        policy_.tries_more = 3;
        policy_.sleep = [this](double seconds) { waits_.push_back(seconds); };
    }
    RetryPolicy policy_;
    std::vector<double> waits_;
};

TEST_F(HubPatience, WaitsGrowAndEndWithTheLastFailuresError) {
    Patience patience(policy_, subject());
    for (int failure = 0; failure < 3; ++failure) patience.wait_or_throw(status(500));
    EXPECT_EQ(waits_, (std::vector<double>{0.5, 1.0, 2.0}));
    expect_error(ErrorCode::overloaded, {}, [&] { patience.wait_or_throw(status(429)); });
}

TEST_F(HubPatience, ProgressBeginsTheCountAnew) {
    Patience patience(policy_, subject());
    for (int failure = 0; failure < 20; ++failure) {
        patience.wait_or_throw(broken(TransferEnd::dropped));
        patience.progressed();
    }
    EXPECT_EQ(waits_, std::vector<double>(20, 0.5));
}

TEST_F(HubPatience, WhatWillNotPassIsThrownAtOnce) {
    Patience patience(policy_, subject());
    expect_error(ErrorCode::not_found, {}, [&] { patience.wait_or_throw(status(404)); });
    EXPECT_TRUE(waits_.empty());
}

TEST_F(HubPatience, AServersWishIsHonouredUnlessItIsTooLong) {
    Patience patience(policy_, subject());
    patience.wait_or_throw(status(429, {{"retry-after", "7"}}));
    EXPECT_EQ(waits_, std::vector<double>{7.0});
    expect_error(ErrorCode::overloaded, {"retry_after=1 h 00 min"}, [&] {
        patience.wait_or_throw(status(429, {{"retry-after", "3600"}}));
    });
    EXPECT_EQ(waits_.size(), 1U);
}

}  // namespace
}  // namespace gemmatrace::hub
