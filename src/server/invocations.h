// POST /invocations: the one generating route that SageMaker calls, for the dialects of other routes.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "server/routes.h"

namespace gemmatrace::server {

// True for a body with `messages`, which is a chat completion; false for one with `prompt`, a completion. A member that
// is null counts as absent. Throws Error(bad_request) when there is neither or both.
bool is_chat_invocation(const nlohmann::ordered_json& body);

// Answers as /v1/chat/completions or /v1/completions would.
void answer_invocation(const RouteContext& context);

}  // namespace gemmatrace::server
