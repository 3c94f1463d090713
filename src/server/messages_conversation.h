// Conversations as the Messages dialect has them, in the form that templates read.
#pragma once

#include <nlohmann/json.hpp>

#include "server/request_fields.h"

namespace gemmatrace::server {

struct MessagesConversation {
    nlohmann::ordered_json messages;  // as ChatPrompt has them
    bool continues_last = false;      // the conversation ends with the assistant's words, and the reply goes on there
};

// `system` (a string or text blocks) and `messages`: roles user, assistant and system, content a string or blocks.
// - A tool_result becomes a tool message directly behind the call that it answers, whatever stands beside it; the text
//   of its turn follows. With is_error it begins with "Error: ".
// - What an assistant says in a message that calls tools becomes a message of its own before the calls, because
//   templates write results directly behind calls and would put the words behind both (fault F072).
// - thinking becomes reasoning_content; redacted_thinking holds nothing that can be read and is accepted.
// Throws Error(bad_request) naming the field, also for a result without a call and for a conversation that ends with a
// call, and Error(unsupported) for blocks of other types, such as images.
MessagesConversation read_messages_conversation(const RequestFields& fields);

}  // namespace gemmatrace::server
