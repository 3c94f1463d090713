// Errors as clients of either dialect know them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "server/http_message.h"

namespace gemmatrace::server {

enum class Dialect { openai, anthropic };

// Of a request's path and its header anthropic-version, which clients of that dialect send everywhere.
Dialect dialect_of(std::string_view path, std::string_view anthropic_version);

// 400 for what the client can mend, 404, 429, 503, 504; 500 only for our own faults.
int http_status(const Error& error);

// {"error": {"message", "type", "param", "code"}}, all four keys present; or
// {"type": "error", "error": {"type", "message"}, "request_id"}. `param` is the error's context "field", `code` its
// context "code" or what the status stands for; "error_code" becomes the other form's error.details.
nlohmann::ordered_json error_body(const Error& error, Dialect dialect, const std::string& request_id);

// The whole response, with Retry-After where trying again helps, and with the header request-id for those who look
// there.
HttpResponse error_response(const Error& error, Dialect dialect, const std::string& request_id);

}  // namespace gemmatrace::server
