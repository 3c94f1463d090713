// Tools and the choice among them in the Messages dialect.
#pragma once

#include "server/request_fields.h"
#include "server/tool_choice.h"

namespace gemmatrace::server {

// `tools` with input_schema, and `tool_choice` of type auto, any, tool or none, each with disable_parallel_tool_use.
// Tools that have a `type` other than custom (web_search_… and the like) run elsewhere or have no schema: they are left
// out as long as none of them has to be called. Throws Error(bad_request) naming the field, Error(unsupported) when
// such a tool is forced.
ToolUse read_messages_tools(const RequestFields& fields);

}  // namespace gemmatrace::server
