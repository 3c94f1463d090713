// The answer of /v1/responses: items that open and close one after the other, streamed or whole.
#pragma once

#include <memory>
#include <string>

#include "server/reply_stream.h"
#include "server/responses_request.h"

namespace gemmatrace::server {

// One response object, or the events from response.created to response.completed, response.incomplete or
// response.failed. What has ended well or was cut by length is in the store before the client hears of its end.
std::shared_ptr<DialectReply> make_responses_reply(const Service& service, ResponseStore& store,
                                                   ResponsesRequest request, const std::string& request_id,
                                                   std::shared_ptr<ResponseWriter> writer, OutcomeListener on_outcome);

}  // namespace gemmatrace::server
