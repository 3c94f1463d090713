// Conversations and texts to prompt ids, the same for every dialect.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "server/service.h"

namespace gemmatrace::server {

// A conversation in the form that templates read: messages with role (system, user, assistant, tool), content (text or
// a list of {"type": "text", "text"}), tool_calls with arguments as objects, tool_call_id, name, reasoning_content.
struct ChatPrompt {
    nlohmann::ordered_json messages;
    nlohmann::ordered_json tools;             // a list of {"type": "function", "function": {...}}, or null
    nlohmann::ordered_json template_options;  // more variables: enable_thinking and what chat_template_kwargs holds
    bool continues_last = false;              // the last message is the assistant's, and the reply goes on from it
};

// Through the checkpoint's template. Nothing in a message becomes a control token. Throws Error(unsupported) when the
// checkpoint has no template, Error(bad_request) with the template's words when it refuses.
std::vector<int32_t> chat_ids(const Service& service, const ChatPrompt& prompt);

// BOS and the text as the reference tokenises it; a text that begins with BOS gets no second one (fault F002).
std::vector<int32_t> raw_ids(const Service& service, std::string_view text);

// Tokens the reply may have: what the context leaves, or `wanted`. Throws Error(too_long) with both numbers when prompt
// and `wanted` (or one token) do not fit.
int64_t reply_tokens(const Service& service, size_t prompt_tokens, std::optional<int64_t> wanted);

}  // namespace gemmatrace::server
