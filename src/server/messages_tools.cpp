// Declarations with input_schema to those that templates read, and four kinds of choice.
#include "server/messages_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"

namespace gemmatrace::server {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMaxMessagesTools = 1024;

[[noreturn]] void refuse_forced_hosted(const std::string& path, const std::string& what) {
    throw Error(ErrorCode::unsupported, fmt::format("{}: {}", path, what), {{"field", path}},
                "offer tools with an input_schema of their own");
}

class MessagesToolReader {
  public:
    explicit MessagesToolReader(const RequestFields& fields) : fields_(fields) {}

    ToolUse read() {
        if (const ordered_json* tools = fields_.list("tools")) {
            if (tools->size() > kMaxMessagesTools) {
                fields_.refuse("tools", fmt::format("more than {} tools", kMaxMessagesTools));
            }
            for (size_t index = 0; index < tools->size(); ++index) {
                add(RequestFields((*tools)[index], fmt::format("tools[{}]", index)));
            }
        }
        if (const ordered_json* choice = fields_.object("tool_choice")) choose(RequestFields(*choice, "tool_choice"));
        if (use_.choice == ToolUse::Choice::none) use_.offered = ordered_json::array();
        return std::move(use_);
    }

  private:
    void add(const RequestFields& tool) {
        const std::string type = tool.text("type").value_or("custom");
        if (type != "custom") {
            hosted_.insert(tool.text("name").value_or(type));
            return;
        }
        ordered_json kept;
        kept["type"] = "function";
        const std::string name = tool.required_text("name");
        kept["function"]["name"] = name;
        kept["function"]["description"] = tool.text("description").value_or("");
        const ordered_json* schema = tool.object("input_schema");
        if (schema == nullptr) tool.refuse("input_schema", "is missing", "give a JSON schema of type object");
        kept["function"]["parameters"] = *schema;
        if (!names_.insert(name).second) fields_.refuse("tools", fmt::format("the name '{}' is there twice", name));
        use_.offered.push_back(std::move(kept));
    }

    void choose(const RequestFields& choice) {
        use_.allows_several = !choice.flag("disable_parallel_tool_use").value_or(false);
        const std::string type = choice.required_text("type");
        if (type == "none") {
            use_.choice = ToolUse::Choice::none;
        } else if (type == "any") {
            require_any();
        } else if (type == "tool") {
            require_named(choice);
        } else if (type != "auto") {
            choice.refuse("type", fmt::format("'{}' is unknown", type), "use auto, any, tool or none");
        }
    }

    void require_any() {
        if (names_.empty() && !hosted_.empty()) {
            refuse_forced_hosted("tool_choice", "a call is required, but this server has none of the offered tools");
        }
        if (names_.empty()) fields_.refuse("tool_choice", "a call is required but no tool is offered");
        use_.choice = ToolUse::Choice::required;
        use_.allowed.assign(names_.begin(), names_.end());
    }

    void require_named(const RequestFields& choice) {
        const std::string name = choice.required_text("name");
        if (!names_.contains(name)) {
            if (hosted_.contains(name)) {
                refuse_forced_hosted(choice.path_of("name"), fmt::format("this server has no tool '{}'", name));
            }
            choice.refuse("name", fmt::format("there is no tool '{}'", name), "name one of the tools");
        }
        use_.choice = ToolUse::Choice::required;
        use_.allowed.push_back(name);
    }

    const RequestFields& fields_;
    ToolUse use_;
    std::set<std::string> names_;
    std::set<std::string> hosted_;
};

}  // namespace

ToolUse read_messages_tools(const RequestFields& fields) { return MessagesToolReader(fields).read(); }

}  // namespace gemmatrace::server
