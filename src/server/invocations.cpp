// SageMaker has one path for everything, so the body says which route is meant.
#include "server/invocations.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "server/answers.h"
#include "server/completions.h"
#include "server/request_fields.h"

namespace gemmatrace::server {
namespace {

using nlohmann::ordered_json;

constexpr const char* kRemedy =
    "send the body of a chat completion, with messages, or of a completion, with prompt; other dialects have their own "
    "routes below /v1";

}  // namespace

bool is_chat_invocation(const ordered_json& body) {
    const RequestFields fields(body, "");
    const bool has_messages = fields.find("messages") != nullptr;
    const bool has_prompt = fields.find("prompt") != nullptr;
    if (has_messages && has_prompt) fields.refuse("prompt", "there are messages as well", kRemedy);
    if (!has_messages && !has_prompt) fields.refuse("messages", "are missing, and there is no prompt", kRemedy);
    return has_messages;
}

void answer_invocation(const RouteContext& context) {
    const ordered_json body = context.body();
    if (is_chat_invocation(body)) return answer_chat(context, body);
    answer_completions(context, body);
}

}  // namespace gemmatrace::server
