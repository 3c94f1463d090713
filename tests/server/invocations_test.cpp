// What SageMaker asks of a container: /ping says whether it may be used, /invocations takes two kinds of bodies.
#include "server/invocations.h"

#include <gtest/gtest.h>

#include "server/messages_fixture.h"
#include "support/expect_error.h"

namespace gemmatrace::server::messages_testing {
namespace {

using gemmatrace::testing::expect_error;

TEST(Invocations, TheBodySaysWhichRouteIsMeant) {
    EXPECT_TRUE(is_chat_invocation(json(R"({"messages": []})")));
    EXPECT_TRUE(is_chat_invocation(json(R"({"messages": 1, "prompt": null, "stream": true})")));
    EXPECT_FALSE(is_chat_invocation(json(R"({"prompt": "x", "messages": null})")));
    EXPECT_FALSE(is_chat_invocation(json(R"({"prompt": [1, 2]})")));
    for (const char* body : {"{}", R"({"input": "x"})", R"({"inputs": "x", "prompt": null})"}) {
        expect_error(ErrorCode::bad_request, {"messages: are missing", "prompt"},
                     [&] { is_chat_invocation(json(body)); });
    }
    expect_error(ErrorCode::bad_request, {"prompt: there are messages"},
                 [] { is_chat_invocation(json(R"({"messages": [], "prompt": "x"})")); });
    for (const char* body : {"[]", "1", "null"}) {
        const auto error = gemmatrace::testing::thrown_error([&] { is_chat_invocation(json(body)); });
        ASSERT_TRUE(error) << body;
        EXPECT_EQ(error->code(), ErrorCode::bad_request);
    }
}

// Routes of a server whose canary has not passed.
class InvocationRoutes : public ::testing::Test {
  protected:
    HttpResponse ask(std::string method, std::string path, Headers headers = {}, std::string body = {}) {
        HttpRequest request;
        request.method = std::move(method);
        request.path = std::move(path);
        request.headers = std::move(headers);
        request.body = std::move(body);
        const auto writer = std::make_shared<KeepingWriter>();
        Routes(demo_service(), options_, health_, metrics_, log_).handle(std::move(request), writer);
        EXPECT_EQ(writer->ends, 1);
        return writer->response;
    }

    RouteOptions options_ = {.api_keys = {"key"}};
    Health health_;
    Metrics metrics_{"demo"};
    AccessLog log_{"off"};
};

TEST_F(InvocationRoutes, AreNotReadyUntilTheModelIs) {
    const HttpResponse ping = ask("GET", "/ping");
    EXPECT_EQ(ping.status, 503);
    EXPECT_EQ(json(ping.body)["reason"], health_.reason());
    EXPECT_EQ(ping.body, ask("GET", "/ready").body);
    const Headers key = {{"x-api-key", "key"}};
    EXPECT_EQ(ask("POST", "/invocations", key, R"({"prompt": "x"})").status, 503);
    EXPECT_EQ(ask("GET", "/invocations", key).status, 405);
    EXPECT_EQ(ask("POST", "/ping", key).status, 405);
}

TEST_F(InvocationRoutes, AskForKeysAsTheRoutesThatTheyStandFor) {
    EXPECT_EQ(ask("POST", "/invocations", {}, R"({"prompt": "x"})").status, 401);
    options_.is_health_open = false;
    EXPECT_EQ(ask("GET", "/ping").status, 401);
    EXPECT_EQ(ask("GET", "/ping", {{"authorization", "Bearer key"}}).status, 503);
}

}  // namespace
}  // namespace gemmatrace::server::messages_testing
