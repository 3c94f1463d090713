// The Messages routes' steps.
#include "server/messages_answers.h"

#include <nlohmann/json.hpp>

#include "server/messages_reply.h"
#include "server/messages_request.h"

namespace gemmatrace::server {

void answer_messages(const RouteContext& context) {
    MessagesRequest messages = parse_messages_request(context.service, context.body());
    const auto reply = make_messages_reply(messages, context.request.id, context.writer, context.on_outcome);
    run_generation(context, std::move(messages.job), reply);
}

void answer_count_tokens(const RouteContext& context) {
    nlohmann::ordered_json body;
    body["input_tokens"] = count_messages_tokens(context.service, context.body());
    context.send_json(body);
}

}  // namespace gemmatrace::server
