// Codes of ours to statuses, types and codes of theirs.
#include "server/api_error.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "base/json.h"

namespace gemmatrace::server {
namespace {

using nlohmann::ordered_json;

constexpr const char* kRetrySeconds = "1";

std::optional<std::string> context_of(const Error& error, const char* key) {
    for (const auto& [name, value] : error.context()) {
        if (name == key && !value.empty()) return value;
    }
    return std::nullopt;
}

const char* openai_type(int status) {
    if (status == 429) return "rate_limit_error";
    if (status == 401) return "invalid_request_error";
    return status < 500 ? "invalid_request_error" : "server_error";
}

const char* anthropic_type(int status) {
    switch (status) {
        case 401:
            return "authentication_error";
        case 403:
            return "permission_error";
        case 404:
            return "not_found_error";
        case 413:
            return "request_too_large";
        case 429:
            return "rate_limit_error";
        case 503:
            return "overloaded_error";
        default:
            return status < 500 ? "invalid_request_error" : "api_error";
    }
}

std::optional<std::string> openai_code(const Error& error) {
    if (auto code = context_of(error, "code")) return code;
    switch (error.code()) {
        case ErrorCode::too_long:
            return "context_length_exceeded";
        case ErrorCode::unsupported:
            return "unsupported";
        case ErrorCode::overloaded:
            return "overloaded";
        case ErrorCode::not_ready:
            return "not_ready";
        case ErrorCode::timeout:
            return "timeout";
        case ErrorCode::bad_request:
        case ErrorCode::not_found:
            return std::nullopt;
        default:
            return "internal_error";
    }
}

std::string message_of(const Error& error) {
    if (error.remedy().empty()) return error.message();
    return error.message() + "; " + error.remedy();
}

}  // namespace

Dialect dialect_of(std::string_view path, std::string_view anthropic_version) {
    const bool is_anthropic = path.starts_with("/v1/messages") || !anthropic_version.empty();
    return is_anthropic ? Dialect::anthropic : Dialect::openai;
}

int http_status(const Error& error) {
    if (const auto status = context_of(error, "status")) return std::stoi(*status);
    switch (error.code()) {
        case ErrorCode::bad_request:
        case ErrorCode::too_long:
        case ErrorCode::unsupported:
            return 400;
        case ErrorCode::not_found:
            return 404;
        case ErrorCode::overloaded:
            return 429;
        case ErrorCode::not_ready:
        case ErrorCode::resource:
            return 503;
        case ErrorCode::timeout:
            return 504;
        default:
            return 500;
    }
}

ordered_json error_body(const Error& error, Dialect dialect, const std::string& request_id) {
    const int status = http_status(error);
    ordered_json body;
    if (dialect == Dialect::anthropic) {
        body["type"] = "error";
        body["error"]["type"] = anthropic_type(status);
        body["error"]["message"] = message_of(error);
        if (const auto code = context_of(error, "error_code")) body["error"]["details"]["error_code"] = *code;
        body["request_id"] = request_id;
        return body;
    }
    ordered_json& inner = body["error"];
    inner["message"] = message_of(error);
    inner["type"] = openai_type(status);
    inner["param"] = nullptr;
    if (const auto field = context_of(error, "field")) inner["param"] = *field;
    inner["code"] = nullptr;
    if (const auto code = openai_code(error)) inner["code"] = *code;
    return body;
}

HttpResponse error_response(const Error& error, Dialect dialect, const std::string& request_id) {
    HttpResponse response;
    response.status = http_status(error);
    response.body = dump_json(error_body(error, dialect, request_id));
    if (dialect == Dialect::anthropic) response.headers.emplace_back("request-id", request_id);
    if (response.status == 429 || response.status == 503) response.headers.emplace_back("Retry-After", kRetrySeconds);
    return response;
}

}  // namespace gemmatrace::server
