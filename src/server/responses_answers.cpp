// The Responses route's three steps, and its store over HTTP.
#include "server/responses_answers.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "server/responses_listing.h"
#include "server/responses_reply.h"
#include "server/responses_request.h"

namespace gemmatrace::server {
namespace {

Error no_response(std::string_view id) {
    return {ErrorCode::not_found,
            fmt::format("there is no response '{}'", id.substr(0, 100)),
            {{"field", "response_id"}, {"code", "response_not_found"}},
            "responses are kept in memory only, and not with store: false"};
}

void answer_input_items(const RouteContext& context, std::string_view id) {
    const auto stored = context.service.responses->find(std::string(id));
    if (stored == nullptr) throw no_response(id);
    context.send_json(listed_items(parse_stored(stored->input), id, context.request.query));
}

}  // namespace

void answer_responses(const RouteContext& context) {
    ResponseStore& store = *context.service.responses;
    ResponsesRequest request = parse_responses_request(context.service, store, context.body());
    GenerationJob job = std::move(request.job);
    const auto reply = make_responses_reply(context.service, store, std::move(request), context.request.id,
                                            context.writer, context.on_outcome);
    run_generation(context, std::move(job), reply);
}

void answer_stored_response(const RouteContext& context, std::string_view id) {
    constexpr std::string_view kInputItems = "/input_items";
    if (id.ends_with(kInputItems)) return answer_input_items(context, id.substr(0, id.size() - kInputItems.size()));
    if (context.request.query.find("stream=true") != std::string::npos) {
        throw Error(ErrorCode::unsupported, "stream: a stored response comes as one document", {{"field", "stream"}},
                    "ask for it without stream");
    }
    const auto stored = context.service.responses->find(std::string(id));
    if (stored == nullptr) throw no_response(id);
    HttpResponse response;
    response.body = stored->response;
    context.writer->send(std::move(response));
}

void answer_delete_response(const RouteContext& context, std::string_view id) {
    if (!context.service.responses->erase(std::string(id))) throw no_response(id);
    nlohmann::ordered_json body;
    body["id"] = id;
    body["object"] = "response";
    body["deleted"] = true;
    context.send_json(body);
}

}  // namespace gemmatrace::server
