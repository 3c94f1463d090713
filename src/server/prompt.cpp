// Rendering and tokenising.
#include "server/prompt.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "engine/generator.h"

namespace gemmatrace::server {
namespace {

// Stands for the end of a message that is to be continued; nobody writes it.
constexpr std::string_view kContinueMark = "\xEF\xB7\x90gemmatrace-continues-here\xEF\xB7\x91";

// The prompt up to the end of the last message: rendered with a mark behind it, and cut there.
text::MarkedText cut_at_mark(const text::MarkedText& rendered) {
    const size_t end = rendered.text().rfind(kContinueMark);
    if (end == std::string_view::npos) {
        throw Error(ErrorCode::unsupported, "this checkpoint's template drops the message that is to be continued", {},
                    "end the conversation with a user message");
    }
    return rendered.slice(0, end);
}

}  // namespace

std::vector<int32_t> chat_ids(const Service& service, const ChatPrompt& prompt) {
    if (!service.chat_template) {
        throw Error(ErrorCode::unsupported, "this checkpoint has no chat template", {{"field", "messages"}},
                    "use /v1/completions with a raw prompt");
    }
    nlohmann::ordered_json variables;
    if (prompt.template_options.is_object()) variables = prompt.template_options;
    variables["messages"] = prompt.messages;
    variables["tools"] = nullptr;  // as the reference does: there, and none
    variables["documents"] = nullptr;
    variables["add_generation_prompt"] = !prompt.continues_last;
    if (prompt.tools.is_array() && !prompt.tools.empty()) variables["tools"] = prompt.tools;
    if (!prompt.continues_last) {
        return service.tokenizer.encode(service.chat_template->render(variables, service.special_tokens));
    }
    auto& content = variables["messages"].back()["content"];
    if (!content.is_string()) {
        throw Error(ErrorCode::unsupported, "only a message with text content can be continued",
                    {{"field", fmt::format("messages[{}]", prompt.messages.size() - 1)}},
                    "give its content as a string");
    }
    content = content.get<std::string>() + std::string(kContinueMark);
    return service.tokenizer.encode(cut_at_mark(service.chat_template->render(variables, service.special_tokens)));
}

std::vector<int32_t> raw_ids(const Service& service, std::string_view text) {
    std::vector<int32_t> ids = service.tokenizer.encode(text);
    if (service.bos_id && (ids.empty() || ids.front() != *service.bos_id)) ids.insert(ids.begin(), *service.bos_id);
    return ids;
}

int64_t reply_tokens(const Service& service, size_t prompt_tokens, std::optional<int64_t> wanted) {
    const auto prompt = static_cast<int64_t>(prompt_tokens);
    const int64_t context = service.context_tokens();
    engine::check_context(prompt, wanted.value_or(1), context);
    return wanted.value_or(context - prompt);
}

}  // namespace gemmatrace::server
