// Items read one after the other into a growing list of messages.
#include "server/responses_items.h"

#include <fmt/format.h>

#include <map>

#include "base/error.h"
#include "base/json.h"

namespace gemmatrace::server {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMaxItems = 65536;

// A text as it is, a list of parts as a list of text parts.
ordered_json text_content(const RequestFields& item, std::string_view name) {
    const ordered_json* content = item.find(name);
    if (content == nullptr) item.refuse(name, "is missing", "give a text or a list of parts");
    if (content->is_string()) return *content;
    if (!content->is_array()) item.refuse(name, "a string or a list of parts is expected");
    ordered_json parts = ordered_json::array();
    for (size_t index = 0; index < content->size(); ++index) {
        const RequestFields part((*content)[index], fmt::format("{}[{}]", item.path_of(name), index));
        const std::string type = part.required_text("type");
        if (type != "input_text" && type != "output_text" && type != "text" && type != "refusal") {
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

// The texts of a reasoning item's `content` or `summary`, a line each.
std::string joined_texts(const RequestFields& item, std::string_view name) {
    std::string joined;
    const ordered_json* list = item.list(name);
    if (list == nullptr) return joined;
    for (size_t index = 0; index < list->size(); ++index) {
        const RequestFields part((*list)[index], fmt::format("{}[{}]", item.path_of(name), index));
        if (!joined.empty()) joined += '\n';
        joined += part.required_text("text");
    }
    return joined;
}

// What a reasoning item holds: the thought itself, or what this server hid for its own use, or at least the summary.
// What another server encrypted cannot be read and is no part of the prompt.
std::string reasoning_of_item(const RequestFields& item) {
    std::string thought = joined_texts(item, "content");
    if (!thought.empty()) return thought;
    const std::string carried = item.text("encrypted_content").value_or("");
    if (carried.starts_with(kCarriedThought)) return carried.substr(kCarriedThought.size());
    return joined_texts(item, "summary");
}

ordered_json parsed_arguments(const RequestFields& item) {
    const std::string text = item.text("arguments").value_or("");
    if (text.find_first_not_of(" \t\r\n") == std::string::npos) return ordered_json::object();
    ordered_json parsed;
    try {
        parsed = parse_json(text, "the call's arguments", ErrorCode::bad_request);
    } catch (const Error& error) {
        item.refuse("arguments", error.message(), "send the text of one JSON object");
    }
    if (!parsed.is_object()) item.refuse("arguments", "the text of a JSON object is expected");
    return parsed;
}

class MessageBuilder {
  public:
    explicit MessageBuilder(const ResponsesTools& tools) : tools_(tools) {}

    void add(const RequestFields& item) {
        const std::string type =
            item.find("type") == nullptr && item.find("role") != nullptr ? "message" : item.required_text("type");
        if (type == "message") return add_message(item);
        if (type == "reasoning") return add_reasoning(item);
        if (type == "function_call") return add_call(item);
        if (type == "function_call_output") return add_output(item);
        throw Error(ErrorCode::unsupported,
                    fmt::format("{}: items of type '{}' are not supported", item.path_of("type"), type),
                    {{"field", item.path_of("type")}}, "send messages, reasoning, function calls and their outputs");
    }

    ordered_json take() {
        show_thought();
        ordered_json all = ordered_json::array();
        for (Turn& turn : turns_) {
            all.push_back(std::move(turn.message));
            for (ordered_json& output : turn.outputs) all.push_back(std::move(output));
        }
        return all;
    }

  private:
    struct Turn {
        ordered_json message;
        std::vector<ordered_json> outputs;  // of the message's calls
    };
    struct Call {
        size_t turn = 0;
        std::string prompt_name;
        bool is_answered = false;
    };

    void add_message(const RequestFields& item) {
        const std::string role = item.required_text("role");
        if (role != "user" && role != "assistant" && role != "system" && role != "developer") {
            item.refuse("role", fmt::format("'{}' is no role", role), "use system, developer, user or assistant");
        }
        if (role != "assistant") show_thought();
        ordered_json message;
        message["role"] = role;
        message["content"] = text_content(item, "content");
        push(std::move(message));
    }

    void add_reasoning(const RequestFields& item) {
        const std::string thought = reasoning_of_item(item);
        if (thought.empty()) return;
        if (!thought_.empty()) thought_ += '\n';
        thought_ += thought;
    }

    void add_call(const RequestFields& item) {
        const std::string id = item.required_text("call_id");
        const std::string name = item.required_text("name");
        if (calls_.contains(id)) item.refuse("call_id", fmt::format("there is a call '{}' already", id.substr(0, 100)));
        ordered_json call;
        call["id"] = id;
        call["type"] = "function";
        const std::string prompt_name = tools_.prompt_name(item.text("namespace").value_or(""), name);
        call["function"]["name"] = prompt_name;
        call["function"]["arguments"] = parsed_arguments(item);
        const bool joins = thought_.empty() && !turns_.empty() && turns_.back().message.contains("tool_calls") &&
                           turns_.back().outputs.empty();
        if (!joins) {
            ordered_json message;
            message["role"] = "assistant";
            message["content"] = "";
            message["tool_calls"] = ordered_json::array();
            push(std::move(message));
        }
        turns_.back().message["tool_calls"].push_back(std::move(call));
        calls_[id] = {turns_.size() - 1, prompt_name, false};
    }

    void add_output(const RequestFields& item) {
        const std::string id = item.required_text("call_id");
        const auto call = calls_.find(id);
        if (call == calls_.end()) {
            item.refuse("call_id", fmt::format("no function call '{}' comes before this output", id.substr(0, 100)),
                        "send the function_call item too, or previous_response_id");
        }
        if (call->second.is_answered) {
            item.refuse("call_id", fmt::format("the call '{}' has an output already", id.substr(0, 100)));
        }
        call->second.is_answered = true;
        ordered_json message;
        message["role"] = "tool";
        message["tool_call_id"] = id;
        message["name"] = call->second.prompt_name;
        message["content"] = text_content(item, "output");
        turns_[call->second.turn].outputs.push_back(std::move(message));
    }

    void push(ordered_json message) {
        if (!thought_.empty() && message["role"] == "assistant") {
            message["reasoning_content"] = std::exchange(thought_, {});
        }
        turns_.push_back({std::move(message), {}});
    }

    // A thought that nothing followed, because the reply was cut in it.
    void show_thought() {
        if (thought_.empty()) return;
        ordered_json message;
        message["role"] = "assistant";
        message["content"] = "";
        push(std::move(message));
    }

    const ResponsesTools& tools_;
    std::vector<Turn> turns_;
    std::map<std::string, Call> calls_;
    std::string thought_;  // that waits for what follows it
};

}  // namespace

ordered_json input_items(const ordered_json& input, ResponseStore& store) {
    ordered_json items = ordered_json::array();
    if (input.is_string()) {
        ordered_json message;
        message["type"] = "message";
        message["role"] = "user";
        message["content"] = input;
        items.push_back(std::move(message));
        return items;
    }
    if (!input.is_array()) {
        throw Error(ErrorCode::bad_request, "input: a string or a list of items is expected", {{"field", "input"}},
                    "give a text, or a list of items");
    }
    if (input.size() > kMaxItems) {
        throw Error(ErrorCode::bad_request, fmt::format("input: {} items are more than the limit", input.size()),
                    {{"field", "input"}}, fmt::format("send at most {}", kMaxItems));
    }
    for (size_t index = 0; index < input.size(); ++index) {
        const RequestFields item(input[index], fmt::format("input[{}]", index));
        if (item.find("type") == nullptr || *item.find("type") != "item_reference") {
            items.push_back(input[index]);
            continue;
        }
        const std::string id = item.required_text("id");
        auto meant = store.find_item(id);
        if (!meant) item.refuse("id", fmt::format("there is no item '{}'", id.substr(0, 100)), "send the item itself");
        items.push_back(*std::move(meant));
    }
    return items;
}

ordered_json template_messages_of_items(const ordered_json& items, size_t first_new, const ResponsesTools& tools) {
    MessageBuilder builder(tools);
    for (size_t index = 0; index < items.size(); ++index) {
        builder.add(RequestFields(items[index], index < first_new ? fmt::format("previous_response_id.items[{}]", index)
                                                                  : fmt::format("input[{}]", index - first_new)));
    }
    return builder.take();
}

}  // namespace gemmatrace::server
