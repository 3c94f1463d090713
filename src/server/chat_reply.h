// The answer of /v1/chat/completions.
#pragma once

#include <memory>
#include <string>

#include "server/chat_request.h"
#include "server/reply_stream.h"

namespace gemmatrace::server {

// One JSON document, or a stream of chat.completion.chunk events that ends with [DONE].
std::shared_ptr<DialectReply> make_chat_reply(const Service& service, const ChatRequest& chat,
                                              const std::string& request_id, std::shared_ptr<ResponseWriter> writer,
                                              OutcomeListener on_outcome);

// {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details", "completion_tokens_details"}
nlohmann::ordered_json usage_json(const RequestOutcome& outcome);

}  // namespace gemmatrace::server
