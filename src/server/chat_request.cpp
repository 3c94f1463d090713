// Members of a chat request, checked one by one.
#include "server/chat_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/json.h"
#include "server/generation_options.h"
#include "server/request_fields.h"
#include "server/tool_choice.h"

namespace gemmatrace::server {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMaxMessages = 65536;

std::string indexed(const std::string& path, size_t index) { return fmt::format("{}[{}]", path, index); }

// A string as it is; a list of parts as a list of text parts.
ordered_json template_content(const RequestFields& message, std::string_view name) {
    const ordered_json* content = message.find(name);
    if (content == nullptr) return "";
    if (content->is_string()) return *content;
    if (!content->is_array()) message.refuse(name, "a string or a list of parts is expected");
    ordered_json parts = ordered_json::array();
    for (size_t index = 0; index < content->size(); ++index) {
        const RequestFields part((*content)[index], indexed(message.path_of(name), index));
        const std::string type = part.required_text("type");
        const bool is_text = type == "text" || type == "input_text" || type == "output_text" || type == "refusal";
        if (!is_text) {
            throw Error(
                ErrorCode::unsupported,
                fmt::format("{}: parts of type '{}' are not supported by this model", part.path_of("type"), type),
                {{"field", part.path_of("type")}}, "send text parts only");
        }
        ordered_json kept;
        kept["type"] = "text";
        kept["text"] = part.required_text(type == "refusal" ? "refusal" : "text");
        parts.push_back(std::move(kept));
    }
    return parts;
}

// Templates read arguments as an object; clients send its text.
ordered_json call_arguments(const RequestFields& function) {
    const ordered_json* arguments = function.find("arguments");
    if (arguments == nullptr) return ordered_json::object();
    if (arguments->is_object()) return *arguments;
    if (!arguments->is_string()) function.refuse("arguments", "the text of a JSON object is expected");
    const auto& text = arguments->get_ref<const std::string&>();
    if (text.find_first_not_of(" \t\r\n") == std::string::npos) return ordered_json::object();
    ordered_json parsed;
    try {
        parsed = parse_json(text, "arguments", ErrorCode::bad_request);
    } catch (const Error& error) {
        function.refuse("arguments", error.message(), "send the text of one JSON object");
    }
    if (!parsed.is_object()) function.refuse("arguments", "the text of a JSON object is expected");
    return parsed;
}

ordered_json template_calls(const RequestFields& message) {
    ordered_json calls = ordered_json::array();
    const ordered_json* list = message.list("tool_calls");
    if (list == nullptr) return calls;
    for (size_t index = 0; index < list->size(); ++index) {
        const RequestFields call((*list)[index], indexed(message.path_of("tool_calls"), index));
        const ordered_json* function = call.object("function");
        if (function == nullptr) call.refuse("function", "is missing", "give {\"name\": …, \"arguments\": …}");
        const RequestFields function_fields(*function, call.path_of("function"));
        ordered_json kept;
        kept["id"] = call.text("id").value_or("");
        kept["type"] = "function";
        kept["function"]["name"] = function_fields.required_text("name");
        kept["function"]["arguments"] = call_arguments(function_fields);
        calls.push_back(std::move(kept));
    }
    return calls;
}

ordered_json template_message(const RequestFields& message) {
    const std::string role = message.required_text("role");
    static constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant", "tool"};
    if (std::ranges::find(kRoles, role) == kRoles.end()) {
        message.refuse("role", fmt::format("'{}' is no role", role), "use system, developer, user, assistant or tool");
    }
    ordered_json kept;
    kept["role"] = role;
    if (message.find("content") == nullptr && role != "assistant") message.refuse("content", "is missing");
    kept["content"] = template_content(message, "content");
    if (role == "assistant") {
        ordered_json calls = template_calls(message);
        if (!calls.empty()) kept["tool_calls"] = std::move(calls);
        auto reasoning = message.text("reasoning_content");
        if (!reasoning) reasoning = message.text("reasoning");
        if (reasoning && !reasoning->empty()) kept["reasoning_content"] = *reasoning;
    }
    if (role == "tool") kept["tool_call_id"] = message.required_text("tool_call_id");
    if (const auto name = message.text("name")) kept["name"] = *name;
    return kept;
}

void refuse_unsupported(const RequestFields& fields) {
    for (const char* name : {"functions", "function_call"}) {
        if (fields.find(name) != nullptr) fields.refuse(name, "is not supported", "use tools and tool_choice");
    }
    if (const auto* modalities = fields.list("modalities")) {
        for (const auto& modality : *modalities) {
            if (modality != "text") fields.refuse("modalities", "only text is supported");
        }
    }
    if (fields.find("audio") != nullptr) fields.refuse("audio", "is not supported by this model", "ask for text");
}

}  // namespace

ordered_json template_messages(const ordered_json& messages, const std::string& path) {
    if (messages.empty() || messages.size() > kMaxMessages) {
        throw Error(ErrorCode::bad_request, fmt::format("{} holds {} messages", path, messages.size()),
                    {{"field", path}}, fmt::format("send 1 to {}", kMaxMessages));
    }
    ordered_json kept = ordered_json::array();
    for (size_t index = 0; index < messages.size(); ++index) {
        kept.push_back(template_message(RequestFields(messages[index], indexed(path, index))));
    }
    return kept;
}

ordered_json template_options(const RequestFields& fields) {
    ordered_json options = ordered_json::object();
    if (const auto effort = fields.text("reasoning_effort")) {
        options["enable_thinking"] = *effort != "none" && *effort != "minimal";
    }
    if (const auto enabled = fields.flag("enable_thinking")) options["enable_thinking"] = *enabled;
    if (const auto* more = fields.object("chat_template_kwargs")) {
        for (const auto& [name, value] : more->items()) {
            if (name == "messages" || name == "tools") fields.refuse("chat_template_kwargs", "may not hold " + name);
            options[name] = value;
        }
    }
    return options;
}

ChatRequest parse_chat_request(const Service& service, const ordered_json& body) {
    const RequestFields fields(body, "");
    ChatRequest chat;
    chat.model = fields.text("model").value_or(service.model_id);
    service.check_model(chat.model);
    refuse_unsupported(fields);
    chat.streams = fields.flag("stream").value_or(false);
    if (const auto* options = fields.object("stream_options")) {
        chat.includes_usage = RequestFields(*options, "stream_options").flag("include_usage").value_or(false);
    }

    ChatPrompt prompt;
    prompt.messages = template_messages(fields.required_list("messages"), "messages");
    prompt.template_options = template_options(fields);
    prompt.continues_last = fields.flag("continue_final_message").value_or(false);
    if (prompt.continues_last && prompt.messages.back()["role"] != "assistant") {
        fields.refuse("continue_final_message", "the last message is not the assistant's");
    }

    GenerationJob& job = chat.job;
    job.request = generation_options(service, fields);
    job.stop_strings = stop_strings(service, fields);
    job.choices = static_cast<int32_t>(fields.whole("n", 1, service.limits.max_choices).value_or(1));
    chat.shows_logprobs = fields.flag("logprobs").value_or(false);
    const auto top = fields.whole("top_logprobs", 0, service.limits.max_top_logprobs);
    if (top && !chat.shows_logprobs) fields.refuse("top_logprobs", "needs logprobs to be true");
    if (chat.shows_logprobs) job.request.top_logprobs = static_cast<int32_t>(top.value_or(0));

    const ToolUse tools = read_tool_use(fields);
    prompt.tools = tools.offered;
    job.parses_tool_calls = !tools.offered.empty();
    job.is_single_call = !tools.allows_several;
    job.request.prompt_ids = chat_ids(service, prompt);

    auto wanted = fields.whole("max_completion_tokens", 1, INT32_MAX);
    if (!wanted) wanted = fields.whole("max_tokens", 1, INT32_MAX);
    job.request.max_tokens = reply_tokens(service, job.request.prompt_ids.size(), wanted);
    constrain_reply(service, fields, tools, job);
    return chat;
}

}  // namespace gemmatrace::server
