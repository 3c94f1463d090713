// Members of a Messages request, checked one by one.
#include "server/messages_request.h"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "server/generation_options.h"
#include "server/messages_conversation.h"
#include "server/messages_tools.h"
#include "server/prompt.h"
#include "server/request_fields.h"
#include "server/tool_choice.h"

namespace gemmatrace::server {
namespace {

using nlohmann::ordered_json;

struct MessagesThinking {
    std::optional<bool> is_on;  // nothing: as the template does by itself
    bool hides_thoughts = false;
};

// {"type": "enabled", "budget_tokens"}, {"type": "adaptive"} (the model decides whether to use what is on) or
// {"type": "disabled"}, the first two with "display". The model has no notion of a budget or an effort.
MessagesThinking read_thinking(const RequestFields& fields) {
    MessagesThinking thinking;
    if (const ordered_json* output = fields.object("output_config"))
        RequestFields(*output, "output_config").text("effort");
    const ordered_json* wanted = fields.object("thinking");
    if (wanted == nullptr) return thinking;
    const RequestFields members(*wanted, "thinking");
    const std::string type = members.required_text("type");
    if (type != "enabled" && type != "adaptive" && type != "disabled") {
        members.refuse("type", fmt::format("'{}' is unknown", type), "use enabled, adaptive or disabled");
    }
    members.whole("budget_tokens", 1, INT32_MAX);
    thinking.is_on = type != "disabled";
    thinking.hides_thoughts = members.text("display").value_or("") == "omitted";
    return thinking;
}

// output_config.format, earlier output_format: {"type": "json_schema", "schema"}.
ReplyFormat read_messages_format(const RequestFields& fields) {
    ReplyFormat read;
    const ordered_json* format = fields.object("output_format");
    std::string path = "output_format";
    if (const ordered_json* output = fields.object("output_config")) {
        const RequestFields members(*output, "output_config");
        if (const ordered_json* inner = members.object("format")) {
            format = inner;
            path = members.path_of("format");
        }
    }
    if (format == nullptr) return read;
    const RequestFields members(*format, path);
    const std::string type = members.required_text("type");
    if (type != "json_schema") members.refuse("type", fmt::format("'{}' is unknown", type), "use json_schema");
    const ordered_json* schema = members.object("schema");
    if (schema == nullptr) members.refuse("schema", "is missing", "give a JSON schema");
    read.kind = ReplyFormat::Kind::json_schema;
    read.schema = *schema;
    read.field = members.path_of("schema");
    return read;
}

struct MessagesPrompt {
    std::vector<int32_t> ids;
    ToolUse tools;
    MessagesThinking thinking;
    bool continues_last = false;
};

// What would change the conversation itself if it were not there. SDKs know the error_code and send the whole
// conversation instead.
void refuse_messages_elsewhere(const RequestFields& fields) {
    if (const ordered_json* servers = fields.list("mcp_servers"); servers != nullptr && !servers->empty()) {
        throw Error(ErrorCode::unsupported, "mcp_servers: this server calls no other servers",
                    {{"field", "mcp_servers"}}, "connect to them in the client and offer their tools");
    }
    if (fields.object("thread") != nullptr) {
        throw Error(ErrorCode::unsupported, "thread: this server keeps no conversations",
                    {{"field", "thread"}, {"error_code", "thread_unsupported_request"}},
                    "send all messages, without thread");
    }
}

MessagesPrompt make_messages_prompt(const Service& service, const RequestFields& fields) {
    refuse_messages_elsewhere(fields);
    MessagesPrompt made;
    made.tools = read_messages_tools(fields);
    made.thinking = read_thinking(fields);
    MessagesConversation conversation = read_messages_conversation(fields);
    made.continues_last = conversation.continues_last;
    ChatPrompt prompt;
    prompt.messages = std::move(conversation.messages);
    prompt.continues_last = conversation.continues_last;
    prompt.tools = made.tools.offered;
    prompt.template_options = ordered_json::object();
    if (made.thinking.is_on) prompt.template_options["enable_thinking"] = *made.thinking.is_on;
    made.ids = chat_ids(service, prompt);
    return made;
}

// In the words of the dialect's first server: from them clients read both numbers and what to shorten.
void check_messages_context(int64_t prompt_tokens, int64_t max_tokens, int64_t context_tokens) {
    if (prompt_tokens >= context_tokens) {
        throw Error(ErrorCode::too_long,
                    fmt::format("prompt is too long: {} tokens > {} maximum", prompt_tokens, context_tokens - 1),
                    {{"field", "messages"}}, "shorten the conversation");
    }
    if (max_tokens <= context_tokens - prompt_tokens) return;
    throw Error(ErrorCode::too_long,
                fmt::format("input length and `max_tokens` exceed context limit: {} + {} > {}", prompt_tokens,
                            max_tokens, context_tokens),
                {{"field", "max_tokens"}}, "decrease input length or `max_tokens` and try again");
}

std::string served_messages_model(const Service& service, const RequestFields& fields) {
    std::string model = fields.text("model").value_or(service.model_id);
    service.check_model(model);
    return model;
}

}  // namespace

MessagesRequest parse_messages_request(const Service& service, const ordered_json& body) {
    const RequestFields fields(body, "");
    MessagesRequest request;
    request.model = served_messages_model(service, fields);
    request.streams = fields.flag("stream").value_or(false);
    const auto max_tokens = fields.whole("max_tokens", 1, INT32_MAX);
    if (!max_tokens) fields.refuse("max_tokens", "is missing", "say how many tokens the reply may have");

    GenerationJob& job = request.job;
    job.request = generation_options(service, fields);
    job.request.max_tokens = *max_tokens;
    job.stop_strings = stop_strings(service, fields, "stop_sequences");

    MessagesPrompt prompt = make_messages_prompt(service, fields);
    check_messages_context(static_cast<int64_t>(prompt.ids.size()), *max_tokens, service.context_tokens());
    request.hides_thoughts = prompt.thinking.hides_thoughts;
    job.request.prompt_ids = std::move(prompt.ids);
    job.parses_tool_calls = !prompt.tools.offered.empty();
    job.is_single_call = !prompt.tools.allows_several;

    const ReplyFormat format = read_messages_format(fields);
    if (prompt.continues_last && format.kind != ReplyFormat::Kind::text) {
        fields.refuse("messages", "a reply that continues the last message cannot have a format of its own",
                      "end the conversation with a user message");
    }
    constrain_reply(service, prompt.tools, format, job);
    return request;
}

int64_t count_messages_tokens(const Service& service, const ordered_json& body) {
    const RequestFields fields(body, "");
    served_messages_model(service, fields);
    return static_cast<int64_t>(make_messages_prompt(service, fields).ids.size());
}

}  // namespace gemmatrace::server
