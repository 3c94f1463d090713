// What the routes of the Messages dialect do with a request. Both throw the errors that the client is told.
#pragma once

#include "server/routes.h"

namespace gemmatrace::server {

// POST /v1/messages: a message, or its events.
void answer_messages(const RouteContext& context);
// POST /v1/messages/count_tokens: {"input_tokens"} of the same request, with or without max_tokens.
void answer_count_tokens(const RouteContext& context);

}  // namespace gemmatrace::server
