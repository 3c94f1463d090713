// POST /v1/messages and /v1/messages/count_tokens, read: the conversation, the tools and what the reply must be.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "server/generation.h"
#include "server/service.h"

namespace gemmatrace::server {

struct MessagesRequest {
    GenerationJob job;  // its prompt is filled in
    std::string model;  // as the client named it
    bool streams = false;
    bool hides_thoughts = false;  // thinking.display is "omitted"
};

// Throws Error(bad_request), Error(unsupported), Error(not_found) naming the field at fault, and Error(too_long) in the
// words from which clients of this dialect learn that they should shorten the conversation or max_tokens.
MessagesRequest parse_messages_request(const Service& service, const nlohmann::ordered_json& body);

// Tokens of the prompt that parse_messages_request makes of the same body; max_tokens is not asked for. Throws the
// same.
int64_t count_messages_tokens(const Service& service, const nlohmann::ordered_json& body);

}  // namespace gemmatrace::server
