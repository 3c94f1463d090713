// Tools of the Responses dialect: functions, named groups of functions, and those of other kinds, which are left out.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "server/request_fields.h"
#include "server/tool_choice.h"

namespace gemmatrace::server {

// How a function is called in the prompt, and how the client knows it.
struct ResponsesFunction {
    std::string prompt_name;  // `name`, or "namespace.name" where another function has that name already
    std::string name;
    std::string name_space;  // empty for a function outside of groups
};

struct ResponsesTools {
    ToolUse use;
    std::vector<ResponsesFunction> functions;

    // Null for a name that is not offered.
    const ResponsesFunction* of_prompt(std::string_view prompt_name) const;
    // A call in the history under the name that the prompt has for it; `name` where it is not offered any more.
    std::string prompt_name(std::string_view name_space, std::string_view name) const;
};

// tools, tool_choice and parallel_tool_calls. {"type": "function", "name", "description", "parameters", "strict"} and
// {"type": "namespace", "name", "description", "tools": [functions]}. Tools that run at the server or have a form of
// their own (web_search, mcp, custom …) cannot be called here; they are left out unless the choice demands them.
// Throws Error(bad_request) or Error(unsupported) naming the field.
ResponsesTools read_responses_tools(const RequestFields& fields);

}  // namespace gemmatrace::server
