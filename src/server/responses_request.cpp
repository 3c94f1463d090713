// Members of a Responses request, checked one by one.
#include "server/responses_request.h"

#include <fmt/format.h>

#include "base/error.h"
#include "server/chat_request.h"
#include "server/generation_options.h"
#include "server/prompt.h"
#include "server/request_fields.h"
#include "server/responses_items.h"

namespace gemmatrace::server {
namespace {

using nlohmann::ordered_json;

void refuse_what_is_not_here(const RequestFields& fields) {
    if (fields.flag("background").value_or(false)) {
        fields.refuse("background", "is not supported", "leave it out and wait for the answer, or stream it");
    }
    if (fields.text("truncation").value_or("disabled") != "disabled") {
        fields.refuse("truncation", "only 'disabled' is supported: nothing is cut from a conversation",
                      "shorten the conversation yourself");
    }
    for (const char* name : {"conversation", "prompt"}) {
        if (fields.find(name) == nullptr) continue;
        fields.refuse(name, "is not supported", "send the input itself, or previous_response_id");
    }
}

// What previous_response_id stands for: its input and its output. Nothing without one.
ordered_json earlier_items(const RequestFields& fields, ResponseStore& store) {
    const auto id = fields.text("previous_response_id");
    if (!id) return ordered_json::array();
    const auto stored = store.find(*id);
    if (stored == nullptr) {
        throw Error(ErrorCode::not_found,
                    fmt::format("previous_response_id: there is no response '{}'", id->substr(0, 100)),
                    {{"field", "previous_response_id"}, {"code", "previous_response_not_found"}},
                    "responses are kept in memory only, and not with store: false; send the whole conversation");
    }
    ordered_json items = parse_stored(stored->input);
    ordered_json response = parse_stored(stored->response);
    for (ordered_json& item : response.at("output")) items.push_back(std::move(item));
    return items;
}

ordered_json conversation_of(const RequestFields& fields, const ordered_json& items, size_t first_new,
                             const ResponsesTools& tools) {
    ordered_json messages = ordered_json::array();
    if (const auto instructions = fields.text("instructions"); instructions && !instructions->empty()) {
        ordered_json message;
        message["role"] = "system";
        message["content"] = *instructions;
        messages.push_back(std::move(message));
    }
    for (ordered_json& message : template_messages_of_items(items, first_new, tools)) {
        messages.push_back(std::move(message));
    }
    if (messages.empty()) fields.refuse("input", "holds no message", "give a text or a message");
    return messages;
}

ordered_json options_for_template(const RequestFields& fields) {
    ordered_json options = template_options(fields);
    const ordered_json* reasoning = fields.object("reasoning");
    if (reasoning == nullptr) return options;
    const auto effort = RequestFields(*reasoning, "reasoning").text("effort");
    if (effort && !options.contains("enable_thinking")) {
        options["enable_thinking"] = *effort != "none" && *effort != "minimal";
    }
    return options;
}

bool includes(const RequestFields& fields, std::string_view wanted) {
    const ordered_json* list = fields.list("include");
    if (list == nullptr) return false;
    bool is_there = false;
    for (const ordered_json& entry : *list) {
        if (!entry.is_string()) fields.refuse("include", "a list of strings is expected");
        is_there = is_there || entry.get_ref<const std::string&>() == wanted;
    }
    return is_there;
}

void read_logprobs(const Service& service, const RequestFields& fields, ResponsesRequest& request) {
    const auto top = fields.whole("top_logprobs", 0, service.limits.max_top_logprobs);
    request.shows_logprobs = includes(fields, "message.output_text.logprobs") || top.value_or(0) > 0;
    if (request.shows_logprobs) request.job.request.top_logprobs = static_cast<int32_t>(top.value_or(0));
}

// text.format: {"type": "text" | "json_object"}, or {"type": "json_schema", "name", "schema", "strict"}.
ReplyFormat reply_format(const RequestFields& fields) {
    ReplyFormat format;
    const ordered_json* text = fields.object("text");
    const ordered_json* wanted = text == nullptr ? nullptr : RequestFields(*text, "text").object("format");
    if (wanted == nullptr) return format;
    const RequestFields inner(*wanted, "text.format");
    format.field = "text.format";
    const std::string type = inner.required_text("type");
    if (type == "json_object") {
        format.kind = ReplyFormat::Kind::json_object;
    } else if (type == "json_schema") {
        format.kind = ReplyFormat::Kind::json_schema;
        const ordered_json* schema = inner.object("schema");
        if (schema == nullptr) inner.refuse("schema", "is missing", "give a JSON schema");
        format.schema = *schema;
        format.is_strict = inner.flag("strict").value_or(true);
        format.field = "text.format.schema";
    } else if (type != "text") {
        inner.refuse("type", fmt::format("'{}' is unknown", type), "use text, json_object or json_schema");
    }
    return format;
}

ordered_json or_null(const RequestFields& fields, const char* name) {
    const ordered_json* value = fields.find(name);
    return value == nullptr ? ordered_json() : *value;
}

ordered_json shown_text(const RequestFields& fields) {
    ordered_json shown = ordered_json::object();
    if (const ordered_json* text = fields.object("text")) shown = *text;
    if (!shown.contains("format") || shown["format"].is_null()) shown["format"]["type"] = "text";
    return shown;
}

ordered_json shown_reasoning(const RequestFields& fields) {
    ordered_json shown;
    shown["effort"] = nullptr;
    shown["summary"] = nullptr;
    if (const ordered_json* reasoning = fields.object("reasoning")) shown.update(*reasoning);
    return shown;
}

ordered_json shown_settings(const RequestFields& fields, const ResponsesRequest& request, const std::string& model) {
    const engine::SamplingParameters& sampling = request.job.request.sampling;
    ordered_json shown;
    shown["background"] = false;
    shown["instructions"] = or_null(fields, "instructions");
    shown["max_output_tokens"] = or_null(fields, "max_output_tokens");
    shown["max_tool_calls"] = or_null(fields, "max_tool_calls");
    shown["metadata"] = ordered_json::object();
    if (const ordered_json* metadata = fields.object("metadata")) shown["metadata"] = *metadata;
    shown["model"] = model;
    shown["parallel_tool_calls"] = request.tools.use.allows_several;
    shown["previous_response_id"] = or_null(fields, "previous_response_id");
    shown["prompt_cache_key"] = or_null(fields, "prompt_cache_key");
    shown["reasoning"] = shown_reasoning(fields);
    shown["safety_identifier"] = or_null(fields, "safety_identifier");
    shown["service_tier"] = "default";
    shown["store"] = request.is_stored;
    shown["temperature"] = sampling.temperature;
    shown["text"] = shown_text(fields);
    shown["tool_choice"] = "auto";
    if (const ordered_json* choice = fields.find("tool_choice")) shown["tool_choice"] = *choice;
    shown["tools"] = ordered_json::array();
    if (const ordered_json* tools = fields.list("tools")) shown["tools"] = *tools;
    shown["top_logprobs"] = request.job.request.top_logprobs.value_or(0);
    shown["top_p"] = sampling.top_p;
    shown["truncation"] = "disabled";
    shown["user"] = or_null(fields, "user");
    return shown;
}

}  // namespace

ResponsesRequest parse_responses_request(const Service& service, ResponseStore& store, const ordered_json& body) {
    const RequestFields fields(body, "");
    ResponsesRequest request;
    const std::string model = fields.text("model").value_or(service.model_id);
    service.check_model(model);
    refuse_what_is_not_here(fields);
    request.streams = fields.flag("stream").value_or(false);
    request.is_stored = fields.flag("store").value_or(true);
    request.carries_thoughts = includes(fields, "reasoning.encrypted_content");
    request.tools = read_responses_tools(fields);

    request.items = earlier_items(fields, store);
    const size_t first_new = request.items.size();
    if (const ordered_json* input = fields.find("input")) {
        for (ordered_json& item : input_items(*input, store)) request.items.push_back(std::move(item));
    } else if (first_new == 0) {
        fields.refuse("input", "is missing", "give a text or a list of items");
    }

    GenerationJob& job = request.job;
    job.request = generation_options(service, fields);
    job.stop_strings = stop_strings(service, fields);
    job.parses_tool_calls = !request.tools.use.offered.empty();
    job.is_single_call = !request.tools.use.allows_several;
    read_logprobs(service, fields, request);

    ChatPrompt prompt;
    prompt.messages = conversation_of(fields, request.items, first_new, request.tools);
    prompt.tools = request.tools.use.offered;
    prompt.template_options = options_for_template(fields);
    job.request.prompt_ids = chat_ids(service, prompt);
    job.request.max_tokens =
        reply_tokens(service, job.request.prompt_ids.size(), fields.whole("max_output_tokens", 1, INT32_MAX));
    constrain_reply(service, request.tools.use, reply_format(fields), job);
    request.settings = shown_settings(fields, request, model);
    return request;
}

}  // namespace gemmatrace::server
