// What the routes of the Responses dialect do with a request. All throw the errors that the client is told.
#pragma once

#include <string_view>

#include "server/routes.h"

namespace gemmatrace::server {

// POST /v1/responses
void answer_responses(const RouteContext& context);
// GET /v1/responses/{id}: the response as it was sent. Throws Error(not_found) for what is not in the store.
void answer_stored_response(const RouteContext& context, std::string_view id);
// DELETE /v1/responses/{id}
void answer_delete_response(const RouteContext& context, std::string_view id);

}  // namespace gemmatrace::server
