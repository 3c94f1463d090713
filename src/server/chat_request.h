// POST /v1/chat/completions, read: the conversation, the tools and what the reply must be.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/generation.h"
#include "server/prompt.h"
#include "server/request_fields.h"
#include "server/service.h"

namespace gemmatrace::server {

struct ChatRequest {
    GenerationJob job;  // its prompt is filled in
    std::string model;  // as the client named it
    bool streams = false;
    bool includes_usage = false;  // a stream ends with a usage chunk
    bool shows_logprobs = false;
};

// Throws Error(bad_request), Error(unsupported), Error(too_long), Error(not_found) naming the field at fault.
ChatRequest parse_chat_request(const Service& service, const nlohmann::ordered_json& body);

// Messages as OpenAI's dialect has them to those of a template: parts joined or kept, arguments as objects. `path`
// names the list in errors. Throws Error(bad_request), or Error(unsupported) for media.
nlohmann::ordered_json template_messages(const nlohmann::ordered_json& messages, const std::string& path);

// Sets enable_thinking from reasoning_effort, enable_thinking and chat_template_kwargs, the later one winning; the
// other members of chat_template_kwargs are kept.
nlohmann::ordered_json template_options(const RequestFields& fields);

}  // namespace gemmatrace::server
