// The table of routes, and what happens before and after each.
#include "server/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "server/answers.h"
#include "server/api_error.h"
#include "server/completions.h"
#include "server/invocations.h"
#include "server/messages_answers.h"
#include "server/responses_answers.h"

namespace gemmatrace::server {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::ordered_json;

constexpr JsonLimits kBodyLimits = {.max_bytes = size_t{64} << 20, .max_depth = 128};

Dialect request_dialect(const HttpRequest& request) {
    return dialect_of(request.path, request.header("anthropic-version"));
}

// Passes everything on, counts the answer and writes the line of the log when it ends.
class LoggedWriter : public ResponseWriter {
  public:
    LoggedWriter(std::shared_ptr<ResponseWriter> inner, const HttpRequest& request, std::string route, Metrics& metrics,
                 AccessLog& log)
        : inner_(std::move(inner)), route_(std::move(route)), metrics_(metrics), log_(log), begun_(Clock::now()) {
        entry_.request_id = request.id;
        entry_.client = request.client;
        entry_.method = request.method;
        entry_.path = request.path;
    }

    void send(HttpResponse response) override {
        if (has_started_) return end();  // a fault behind the head: no more can be said than that this is the end
        note_status(response.status);
        inner_->send(std::move(response));
        finish();
    }
    void start(HttpResponse response) override {
        has_started_ = true;
        note_status(response.status);
        inner_->start(std::move(response));
    }
    void write(std::string piece) override { inner_->write(std::move(piece)); }
    void end() override {
        inner_->end();
        finish();
    }
    void on_gone(std::function<void()> gone) override { inner_->on_gone(std::move(gone)); }

    void note(const RequestOutcome& outcome) {
        {
            const std::lock_guard lock(mutex_);
            entry_.has_outcome = true;
            entry_.outcome = outcome;
        }
        metrics_.count(outcome);
    }

  private:
    void note_status(int status) {
        const std::lock_guard lock(mutex_);
        entry_.status = status;
    }
    void finish() {
        LogEntry entry;
        {
            const std::lock_guard lock(mutex_);
            entry_.seconds = std::chrono::duration<double>(Clock::now() - begun_).count();
            entry = entry_;
        }
        metrics_.count_response(route_, entry.status);
        log_.write(entry);
    }

    std::shared_ptr<ResponseWriter> inner_;
    std::string route_;
    Metrics& metrics_;
    AccessLog& log_;
    Clock::time_point begun_;
    std::atomic<bool> has_started_ = false;
    std::mutex mutex_;
    LogEntry entry_;
};

// In a time that depends on the lengths alone.
bool is_same_key(std::string_view left, std::string_view right) {
    unsigned difference = left.size() == right.size() ? 0 : 1;
    for (size_t at = 0; at < left.size(); ++at) {
        const char other = right.empty() ? '\0' : right[at % right.size()];
        difference |= static_cast<unsigned>(static_cast<unsigned char>(left[at] ^ other));
    }
    return difference == 0;
}

std::string_view offered_key(const HttpRequest& request) {
    constexpr std::string_view kBearer = "bearer ";
    const std::string_view authorization = request.header("authorization");
    const auto same_letter = [](char left, char right) { return (left | 0x20) == right; };
    if (authorization.size() >= kBearer.size() &&
        std::equal(kBearer.begin(), kBearer.end() - 1, authorization.begin(),
                   [&](char wanted, char given) { return same_letter(given, wanted); })) {
        return authorization.substr(kBearer.size());
    }
    return request.header("x-api-key");
}

bool matches(std::string_view pattern, std::string_view path, std::string_view& argument) {
    if (!pattern.ends_with("/*")) return pattern == path;
    const std::string_view prefix = pattern.substr(0, pattern.size() - 1);
    if (!path.starts_with(prefix) || path.size() == prefix.size()) return false;
    argument = path.substr(prefix.size());
    return true;
}

Error http_error(int status, std::string message, const char* code, std::string remedy = {}) {
    return {ErrorCode::bad_request,
            std::move(message),
            {{"status", std::to_string(status)}, {"code", code}},
            std::move(remedy)};
}

}  // namespace

ordered_json RouteContext::body() const {
    if (!request.header("content-encoding").empty() && request.header("content-encoding") != "identity") {
        throw http_error(415, "compressed bodies are not taken", "unsupported_encoding", "send the body as it is");
    }
    return parse_json(request.body, "the request's body", ErrorCode::bad_request, kBodyLimits);
}

void RouteContext::send_json(const ordered_json& body, int status) const {
    HttpResponse response;
    response.status = status;
    response.body = dump_json(body);
    writer->send(std::move(response));
}

void run_generation(const RouteContext& context, GenerationJob job, const std::shared_ptr<DialectReply>& reply) {
    std::vector<GenerationJob> jobs;
    jobs.push_back(std::move(job));
    const auto generation = Generation::start(context.service, jobs, reply);
    context.writer->on_gone([generation] { generation->cancel(); });
    reply->begin();
}

Routes::Routes(const Service& service, const RouteOptions& options, Health& health, Metrics& metrics, AccessLog& log)
    : service_(service), options_(options), health_(health), metrics_(metrics), log_(log) {}

const std::vector<Routes::Route>& Routes::table() {
    const auto plain = [](auto answer) { return answer; };
    static const std::vector<Route> routes = {
        {"POST", "/v1/chat/completions", true, true,
         plain([](const Routes&, const RouteContext& context, std::string_view) {
             answer_chat(context, context.body());
         })},
        {"POST", "/v1/completions", true, true, plain([](const Routes&, const RouteContext& context, std::string_view) {
             answer_completions(context, context.body());
         })},
        {"POST", "/invocations", true, true,
         plain([](const Routes&, const RouteContext& context, std::string_view) { answer_invocation(context); })},
        {"POST", "/v1/messages", true, true,
         plain([](const Routes&, const RouteContext& context, std::string_view) { answer_messages(context); })},
        {"POST", "/v1/messages/count_tokens", false, false,
         plain([](const Routes&, const RouteContext& context, std::string_view) { answer_count_tokens(context); })},
        {"POST", "/v1/responses", true, true,
         plain([](const Routes&, const RouteContext& context, std::string_view) { answer_responses(context); })},
        {"GET", "/v1/responses/*", false, false,
         plain([](const Routes&, const RouteContext& context, std::string_view id) {
             answer_stored_response(context, id);
         })},
        {"DELETE", "/v1/responses/*", false, false,
         plain([](const Routes&, const RouteContext& context, std::string_view id) {
             answer_delete_response(context, id);
         })},
        {"GET", "/v1/models", false, false,
         plain([](const Routes&, const RouteContext& context, std::string_view) { answer_models(context); })},
        {"GET", "/v1/models/*", false, false,
         plain([](const Routes&, const RouteContext& context, std::string_view id) { answer_model(context, id); })},
        {"POST", "/tokenize", false, false,
         plain([](const Routes&, const RouteContext& context, std::string_view) { answer_tokenize(context); })},
        {"POST", "/detokenize", false, false,
         plain([](const Routes&, const RouteContext& context, std::string_view) { answer_detokenize(context); })},
        {"GET", "/", false, false,
         plain([](const Routes&, const RouteContext& context, std::string_view) { answer_page(context); })},
        {"GET", "/health", false, false, health},
        {"GET", "/ready", false, false, ready},
        {"GET", "/ping", false, false, ready},
        {"GET", "/live", false, false, live},
        {"GET", "/metrics", false, false, metrics_page},
    };
    return routes;
}

void Routes::check_key(const HttpRequest& request) const {
    if (options_.api_keys.empty()) return;
    const std::string& path = request.path;
    static constexpr std::array<std::string_view, 5> kHealthPaths = {"/health", "/ready", "/ping", "/live", "/metrics"};
    const bool is_health = std::ranges::find(kHealthPaths, path) != kHealthPaths.end();
    if ((is_health && options_.is_health_open) || (path == "/" && options_.is_page_open)) return;
    const std::string_view key = offered_key(request);
    bool is_known = false;
    for (const std::string& known : options_.api_keys) is_known = is_same_key(key, known) || is_known;
    if (is_known) return;
    throw http_error(401, key.empty() ? "an API key is needed" : "this API key is not known", "invalid_api_key",
                     "send it as 'Authorization: Bearer KEY' or 'x-api-key: KEY'");
}

void Routes::answer_options(const RouteContext& context) const {
    HttpResponse response;
    response.status = 204;
    response.content_type.clear();
    response.headers = {{"Allow", "GET, HEAD, POST, DELETE, OPTIONS"},
                        {"Access-Control-Allow-Methods", "GET, HEAD, POST, DELETE, OPTIONS"},
                        {"Access-Control-Max-Age", "600"}};
    const std::string_view wanted = context.request.header("access-control-request-headers");
    response.headers.emplace_back("Access-Control-Allow-Headers", wanted.empty() ? "*" : std::string(wanted));
    context.writer->send(std::move(response));
}

void Routes::dispatch(const RouteContext& context) const {
    const HttpRequest& request = context.request;
    if (request.method == "OPTIONS") return answer_options(context);
    check_key(request);
    std::string allowed;
    const std::string_view method = request.method == "HEAD" ? "GET" : std::string_view(request.method);
    for (const Route& route : table()) {
        std::string_view argument;
        if (!matches(route.path, request.path, argument)) continue;
        if (route.method != method) {
            allowed +=
                fmt::format("{}{}", allowed.empty() ? "" : ", ", route.method == "GET" ? "GET, HEAD" : route.method);
            continue;
        }
        if (route.needs_health && health_.state() != Health::State::ready) {
            throw Error(ErrorCode::not_ready, health_.reason(), {}, "see /health, and try again in a moment");
        }
        return route.answer(*this, context, argument);
    }
    if (allowed.empty()) {
        throw http_error(404, fmt::format("there is no {}", request.path.substr(0, 200)), "not_found",
                         "see the documentation for the routes");
    }
    const Error error = http_error(405, fmt::format("{} does not take {}", request.path, request.method),
                                   "method_not_allowed", "use " + allowed);
    HttpResponse response = error_response(error, request_dialect(request), request.id);
    response.headers.emplace_back("Allow", allowed);
    context.writer->send(std::move(response));
}

void Routes::handle(HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
    const auto known = std::ranges::find_if(table(), [&](const Route& route) {
        std::string_view argument;
        return matches(route.path, request.path, argument);
    });
    const std::string route = known == table().end() ? "other" : std::string(known->path);
    auto logged = std::make_shared<LoggedWriter>(std::move(writer), request, route, metrics_, log_);
    const Dialect dialect = request_dialect(request);
    const std::string id = request.id;
    try {
        dispatch({service_, std::move(request), logged, [weak = std::weak_ptr(logged)](const RequestOutcome& outcome) {
                      if (const auto target = weak.lock()) target->note(outcome);
                  }});
    } catch (const Error& error) {
        logged->send(error_response(error, dialect, id));
    } catch (const std::exception& fault) {
        logged->send(error_response(Error(ErrorCode::internal, fault.what()), dialect, id));
    }
}

void Routes::health(const Routes& routes, const RouteContext& context, std::string_view) {
    const auto state = routes.health_.state();
    ordered_json body;
    body["status"] = state == Health::State::ready ? "ok" : "unavailable";
    if (state != Health::State::ready) body["reason"] = routes.health_.reason();
    body["model"] = routes.service_.model_id;
    context.send_json(body, state == Health::State::ready ? 200 : 503);
}

void Routes::ready(const Routes& routes, const RouteContext& context, std::string_view argument) {
    health(routes, context, argument);
}

// The process answers; whether it is of use is another question.
void Routes::live(const Routes&, const RouteContext& context, std::string_view) {
    ordered_json body;
    body["status"] = "ok";
    context.send_json(body);
}

void Routes::metrics_page(const Routes& routes, const RouteContext& context, std::string_view) {
    HttpResponse response;
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    response.body = routes.metrics_.text(routes.service_.engine->statistics());
    context.writer->send(std::move(response));
}

}  // namespace gemmatrace::server
