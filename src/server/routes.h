// Paths to what answers them, behind keys, health and the log.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/access_log.h"
#include "server/health.h"
#include "server/http_message.h"
#include "server/metrics.h"
#include "server/reply_stream.h"
#include "server/service.h"

namespace gemmatrace::server {

struct RouteOptions {
    std::vector<std::string> api_keys;  // none: everybody may ask
    bool is_health_open = true;         // /health, /live, /ready, /ping and /metrics ask for no key
    bool is_page_open = true;           // nor does the page
};

// What a route has to answer one request with.
struct RouteContext {
    const Service& service;
    HttpRequest request;
    std::shared_ptr<ResponseWriter> writer;
    OutcomeListener on_outcome;  // told once by routes that generate

    nlohmann::ordered_json body() const;  // throws Error(bad_request)
    void send_json(const nlohmann::ordered_json& body, int status = 200) const;
};

// Starts the job and ties it to the client: what it says goes to `reply`, and it ends when the client leaves.
void run_generation(const RouteContext& context, GenerationJob job, const std::shared_ptr<DialectReply>& reply);

class Routes : public RequestHandler {
  public:
    Routes(const Service& service, const RouteOptions& options, Health& health, Metrics& metrics, AccessLog& log);
    void handle(HttpRequest request, std::shared_ptr<ResponseWriter> writer) override;

  private:
    struct Route {
        std::string_view method;
        std::string_view path;  // ends with "/*" where the rest is an argument
        bool needs_health;      // 503 until the canary has passed
        bool is_generating;
        void (*answer)(const Routes& routes, const RouteContext& context, std::string_view argument);
    };
    static const std::vector<Route>& table();
    static void health(const Routes& routes, const RouteContext& context, std::string_view argument);
    static void ready(const Routes& routes, const RouteContext& context, std::string_view argument);
    static void live(const Routes& routes, const RouteContext& context, std::string_view argument);
    static void metrics_page(const Routes& routes, const RouteContext& context, std::string_view argument);

    void dispatch(const RouteContext& context) const;
    void answer_options(const RouteContext& context) const;
    void check_key(const HttpRequest& request) const;

    const Service& service_;
    RouteOptions options_;
    Health& health_;
    Metrics& metrics_;
    AccessLog& log_;
};

}  // namespace gemmatrace::server
