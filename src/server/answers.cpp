// The short routes, and the chat route's three steps.
#include "server/answers.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "server/chat_reply.h"
#include "server/chat_request.h"
#include "server/page.h"
#include "server/prompt.h"
#include "server/request_fields.h"
#include "server/tool_choice.h"

namespace gemmatrace::server {
namespace {

using nlohmann::ordered_json;

// Both dialects' members: OpenAI's first, and Anthropic's type, display_name, created_at and max_input_tokens.
ordered_json model_json(const Service& service) {
    ordered_json model;
    model["id"] = service.model_id;
    model["object"] = "model";
    model["type"] = "model";
    model["created"] = service.created;
    model["owned_by"] = "gemmatrace";
    model["max_model_len"] = service.context_tokens();
    model["display_name"] = service.model_id;
    model["created_at"] = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(service.created)));
    model["max_input_tokens"] = service.context_tokens();
    return model;
}

// A conversation as the chat route would render it, or a text.
std::vector<int32_t> ids_to_count(const Service& service, const RequestFields& fields) {
    if (fields.find("messages") != nullptr) {
        ChatPrompt prompt;
        prompt.messages = template_messages(fields.required_list("messages"), "messages");
        prompt.template_options = template_options(fields);
        prompt.tools = read_tool_use(fields).offered;
        return chat_ids(service, prompt);
    }
    auto text = fields.text("content");
    if (!text) text = fields.text("prompt");
    if (!text) fields.refuse("content", "is missing", "give a text, or messages");
    auto adds_special = fields.flag("add_special");
    if (!adds_special) adds_special = fields.flag("add_special_tokens");
    return adds_special.value_or(false) ? raw_ids(service, *text) : service.tokenizer.encode(*text);
}

}  // namespace

void answer_chat(const RouteContext& context, const ordered_json& body) {
    ChatRequest chat = parse_chat_request(context.service, body);
    const auto reply = make_chat_reply(context.service, chat, context.request.id, context.writer, context.on_outcome);
    run_generation(context, std::move(chat.job), reply);
}

void answer_page(const RouteContext& context) {
    HttpResponse response;
    response.content_type = "text/html; charset=utf-8";
    response.headers = {{"Content-Security-Policy", std::string(page_content_security_policy())},
                        {"X-Content-Type-Options", "nosniff"},
                        {"Referrer-Policy", "no-referrer"},
                        {"Cache-Control", "no-cache"}};
    response.body = page_html();
    context.writer->send(std::move(response));
}

void answer_models(const RouteContext& context) {
    ordered_json body;
    body["object"] = "list";
    body["data"] = ordered_json::array();
    body["data"].push_back(model_json(context.service));
    body["first_id"] = context.service.model_id;
    body["last_id"] = context.service.model_id;
    body["has_more"] = false;
    context.send_json(body);
}

void answer_model(const RouteContext& context, std::string_view id) {
    context.service.check_model(std::string(id));
    context.send_json(model_json(context.service));
}

void answer_tokenize(const RouteContext& context) {
    const ordered_json request = context.body();
    const RequestFields fields(request, "");
    const std::vector<int32_t> ids = ids_to_count(context.service, fields);
    ordered_json body;
    body["tokens"] = ids;
    body["count"] = ids.size();
    body["max_model_len"] = context.service.context_tokens();
    if (fields.flag("with_pieces").value_or(false) || fields.flag("return_token_strs").value_or(false)) {
        ordered_json& pieces = body["token_strs"] = ordered_json::array();
        for (const int32_t id : ids) pieces.push_back(context.service.tokenizer.token(id));
    }
    context.send_json(body);
}

void answer_detokenize(const RouteContext& context) {
    const ordered_json request = context.body();
    const RequestFields fields(request, "");
    const ordered_json& tokens = fields.required_list("tokens");
    std::vector<int32_t> ids;
    ids.reserve(tokens.size());
    for (const auto& token : tokens) {
        if (!token.is_number_integer()) fields.refuse("tokens", "a list of token ids is expected");
        const auto id = token.get<int64_t>();
        if (id < 0 || id >= context.service.tokenizer.vocab_size()) {
            fields.refuse("tokens", fmt::format("{} is no token id", id));
        }
        ids.push_back(static_cast<int32_t>(id));
    }
    ordered_json body;
    body["content"] = context.service.tokenizer.decode(ids, false);
    body["prompt"] = body["content"];
    context.send_json(body);
}

}  // namespace gemmatrace::server
