// Blocks to messages: results to their calls, words before calls, thoughts beside them.
#include "server/messages_conversation.h"

#include <fmt/format.h>

#include <deque>
#include <map>
#include <string>
#include <utility>

#include "base/error.h"
#include "server/messages_signature.h"

namespace gemmatrace::server {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMaxMessagesTurns = 65536;

// A tool_result on its way to the call that it answers.
struct WaitingResult {
    size_t turn = 0;  // the message that brought it
    std::string text;
    std::string id_path;
};

[[noreturn]] void refuse_block(const RequestFields& block, const std::string& type) {
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: blocks of type '{}' are not supported here", block.path_of("type"), type),
                {{"field", block.path_of("type")}}, "send text");
}

// Calls read(block, type) for each block of a list.
template <typename Read>
void read_blocks(const RequestFields& owner, std::string_view name, Read read) {
    const ordered_json* blocks = owner.find(name);
    if (blocks == nullptr) owner.refuse(name, "is missing", "give a string or a list of blocks");
    if (!blocks->is_array()) owner.refuse(name, "a string or a list of blocks is expected");
    for (size_t index = 0; index < blocks->size(); ++index) {
        const RequestFields block((*blocks)[index], fmt::format("{}[{}]", owner.path_of(name), index));
        read(block, block.required_text("type"));
    }
}

bool has_plain_text(const RequestFields& owner, std::string_view name) {
    const ordered_json* value = owner.find(name);
    return value != nullptr && value->is_string();
}

ordered_json block_text_part(std::string text) {
    ordered_json part;
    part["type"] = "text";
    part["text"] = std::move(text);
    return part;
}

ordered_json turn_message(const char* role, ordered_json content) {
    ordered_json message;
    message["role"] = role;
    message["content"] = std::move(content);
    return message;
}

// A string, or a list of text parts: how parts are joined is the template's business.
ordered_json block_content(const RequestFields& owner, std::string_view name) {
    if (has_plain_text(owner, name)) return *owner.find(name);
    ordered_json parts = ordered_json::array();
    read_blocks(owner, name, [&](const RequestFields& block, const std::string& type) {
        if (type != "text") refuse_block(block, type);
        parts.push_back(block_text_part(block.required_text("text")));
    });
    return parts;
}

// Of a tool_result: a string, blocks on lines of their own, or nothing.
std::string tool_result_text(const RequestFields& result) {
    std::string text = result.flag("is_error").value_or(false) ? "Error: " : "";
    if (result.find("content") == nullptr) return text;
    if (has_plain_text(result, "content")) return text + result.required_text("content");
    bool is_first = true;
    read_blocks(result, "content", [&](const RequestFields& block, const std::string& type) {
        if (type != "text") refuse_block(block, type);
        if (!std::exchange(is_first, false)) text += '\n';
        text += block.required_text("text");
    });
    return text;
}

class MessagesConversationReader {
  public:
    explicit MessagesConversationReader(const ordered_json& messages) : messages_(messages) {}

    void read(MessagesConversation& conversation) {
        for (size_t turn = 0; turn < messages_.size(); ++turn) collect_results(turn);
        for (size_t turn = 0; turn < messages_.size(); ++turn) {
            const RequestFields message = message_at(turn);
            const std::string role = message.required_text("role");
            if (role == "user") {
                add_user(message);
            } else if (role == "assistant") {
                add_assistant(message, turn);
            } else if (role == "system") {
                kept_.push_back(turn_message("system", block_content(message, "content")));
            } else {
                message.refuse("role", fmt::format("'{}' is no role", role), "use user, assistant or system");
            }
        }
        for (const auto& [id, waiting] : results_) {
            if (!waiting.empty()) refuse_result(id, waiting.front().id_path);
        }
        conversation.continues_last = message_at(messages_.size() - 1).required_text("role") == "assistant";
        for (ordered_json& message : kept_) conversation.messages.push_back(std::move(message));
    }

  private:
    RequestFields message_at(size_t turn) const { return {messages_[turn], fmt::format("messages[{}]", turn)}; }

    [[noreturn]] static void refuse_result(const std::string& id, const std::string& path) {
        throw Error(ErrorCode::bad_request, fmt::format("{}: no tool_use before it has the id '{}'", path, id),
                    {{"field", path}}, "send each result after its call, once");
    }

    void collect_results(size_t turn) {
        const RequestFields message = message_at(turn);
        if (message.required_text("role") != "user" || has_plain_text(message, "content")) return;
        read_blocks(message, "content", [&](const RequestFields& block, const std::string& type) {
            if (type != "tool_result") return;
            const std::string id = block.required_text("tool_use_id");
            results_[id].push_back({turn, tool_result_text(block), block.path_of("tool_use_id")});
        });
    }

    void add_user(const RequestFields& message) {
        if (has_plain_text(message, "content")) {
            kept_.push_back(turn_message("user", *message.find("content")));
            return;
        }
        ordered_json parts = ordered_json::array();
        bool has_results = false;
        read_blocks(message, "content", [&](const RequestFields& block, const std::string& type) {
            if (type == "tool_result") {
                has_results = true;
            } else if (type == "text") {
                parts.push_back(block_text_part(block.required_text("text")));
            } else {
                refuse_block(block, type);
            }
        });
        if (!parts.empty() || !has_results) kept_.push_back(turn_message("user", std::move(parts)));
    }

    void add_assistant(const RequestFields& message, size_t turn) {
        if (has_plain_text(message, "content")) {
            kept_.push_back(turn_message("assistant", *message.find("content")));
            return;
        }
        std::string text;
        std::string thoughts;
        ordered_json calls = ordered_json::array();
        read_blocks(message, "content", [&](const RequestFields& block, const std::string& type) {
            if (type == "text") {
                text += block.required_text("text");
            } else if (type == "thinking") {
                const std::string thought = thought_of(block);
                if (!thoughts.empty() && !thought.empty()) thoughts += '\n';
                thoughts += thought;
            } else if (type == "tool_use") {
                calls.push_back(template_call(block));
            } else if (type != "redacted_thinking") {
                refuse_block(block, type);
            }
        });
        const bool has_calls = !calls.empty();
        if (has_calls && turn + 1 == messages_.size()) {
            message.refuse("content", "the conversation ends with a call of a tool", "send its tool_result");
        }
        if (!has_calls || !text.empty()) {
            kept_.push_back(turn_message("assistant", std::move(text)));
            take_thoughts(thoughts);
        }
        if (!has_calls) return;
        kept_.push_back(turn_message("assistant", ""));
        take_thoughts(thoughts);
        kept_.back()["tool_calls"] = calls;
        for (const ordered_json& call : calls) add_result(call["id"].get_ref<const std::string&>(), turn);
    }

    void take_thoughts(std::string& thoughts) {
        if (!thoughts.empty()) kept_.back()["reasoning_content"] = std::exchange(thoughts, {});
    }

    static ordered_json template_call(const RequestFields& block) {
        ordered_json call;
        call["id"] = block.required_text("id");
        call["type"] = "function";
        call["function"]["name"] = block.required_text("name");
        call["function"]["arguments"] = ordered_json::object();
        if (const ordered_json* input = block.object("input")) call["function"]["arguments"] = *input;
        return call;
    }

    // The first result that waits for a call of this id; some clients use ids again.
    void add_result(const std::string& id, size_t turn) {
        const auto found = results_.find(id);
        if (found == results_.end() || found->second.empty()) return;
        WaitingResult result = std::move(found->second.front());
        if (result.turn < turn) refuse_result(id, result.id_path);
        found->second.pop_front();
        kept_.push_back(turn_message("tool", std::move(result.text)));
        kept_.back()["tool_call_id"] = id;
    }

    const ordered_json& messages_;
    std::map<std::string, std::deque<WaitingResult>> results_;
    std::vector<ordered_json> kept_;
};

}  // namespace

MessagesConversation read_messages_conversation(const RequestFields& fields) {
    MessagesConversation conversation;
    conversation.messages = ordered_json::array();
    if (fields.find("system") != nullptr) {
        ordered_json content = block_content(fields, "system");
        const bool is_nothing = content == "" || (content.is_array() && content.empty());
        if (!is_nothing) conversation.messages.push_back(turn_message("system", std::move(content)));
    }
    const ordered_json& messages = fields.required_list("messages");
    if (messages.empty() || messages.size() > kMaxMessagesTurns) {
        fields.refuse("messages", fmt::format("holds {} messages", messages.size()),
                      fmt::format("send 1 to {}", kMaxMessagesTurns));
    }
    MessagesConversationReader(messages).read(conversation);
    return conversation;
}

}  // namespace gemmatrace::server
