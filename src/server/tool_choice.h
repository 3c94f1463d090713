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

// Makes the reply one that response_format and tool_choice ask for. Throws Error(unsupported) for what cannot be held.
void constrain_reply(const Service& service, const RequestFields& fields, const ToolUse& tools, GenerationJob& job);

}  // namespace gemmatrace::server
