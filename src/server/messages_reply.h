// The answer of /v1/messages.
#pragma once

#include <memory>
#include <string>

#include "server/messages_request.h"
#include "server/reply_stream.h"

namespace gemmatrace::server {

// One message, or a stream from message_start to message_stop. Blocks come one after the other and never overlap; what
// ends a thinking block is its signature. A reply without anything has one empty text block.
//
// Usage: input_tokens leaves out what was taken from an earlier request, which is cache_read_input_tokens. That is
// known at the end, so message_start has the whole prompt as input_tokens, and message_delta the numbers that count.
std::shared_ptr<DialectReply> make_messages_reply(const MessagesRequest& request, const std::string& request_id,
                                                  std::shared_ptr<ResponseWriter> writer, OutcomeListener on_outcome);

}  // namespace gemmatrace::server
