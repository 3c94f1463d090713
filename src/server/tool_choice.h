// Tools that a request offers, the choice it leaves, and the shape it wants its answer in.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/generation.h"
#include "server/request_fields.h"

namespace gemmatrace::server {

struct ToolUse {
    enum class Choice { automatic, none, required };
    nlohmann::ordered_json offered =
        nlohmann::ordered_json::array();  // as templates read them; empty with Choice::none
    Choice choice = Choice::automatic;
    std::vector<std::string> allowed;  // with Choice::required: one of these must be called
    bool allows_several = true;
};

// tools, tool_choice and parallel_tool_calls of the chat dialect. Throws Error(bad_request) naming the field.
ToolUse read_tool_use(const RequestFields& fields);

// The form that an answer must have.
struct ReplyFormat {
    enum class Kind { text, json_object, json_schema, regex };
    Kind kind = Kind::text;
    nlohmann::ordered_json schema;
    bool is_strict = true;  // a keyword that cannot be enforced is an error
    std::string pattern;
    std::string field;  // where the request says so
};

// response_format of the chat dialect: {"type": "text" | "json_object"}, {"type": "json_schema", "json_schema":
// {"schema", "strict"}}, and as an extension {"type": "regex", "pattern"}. Throws Error(bad_request) naming the field.
ReplyFormat read_response_format(const RequestFields& fields);

// Makes every choice of the job a reply of that form, with calls that fit the schemas of their tools. The prompt must
// be filled in. Throws Error(unsupported) or Error(bad_request) for a form that cannot be held.
void constrain_reply(const Service& service, const ToolUse& tools, const ReplyFormat& format, GenerationJob& job);

// The same with the form that response_format asks for.
void constrain_reply(const Service& service, const RequestFields& fields, const ToolUse& tools, GenerationJob& job);

}  // namespace gemmatrace::server
