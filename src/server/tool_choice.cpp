// Tools and formats of the OpenAI dialect.
#include "server/tool_choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace gemmatrace::server {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMaxTools = 1024;

ordered_json read_tool(const RequestFields& tool) {
    const std::string type = tool.required_text("type");
    if (type != "function") {
        throw Error(ErrorCode::unsupported,
                    fmt::format("{}: tools of type '{}' are not supported", tool.path_of("type"), type),
                    {{"field", tool.path_of("type")}}, "offer functions");
    }
    const ordered_json* function = tool.object("function");
    if (function == nullptr) tool.refuse("function", "is missing");
    const RequestFields fields(*function, tool.path_of("function"));
    ordered_json kept;
    kept["type"] = "function";
    kept["function"]["name"] = fields.required_text("name");
    kept["function"]["description"] = fields.text("description").value_or("");
    if (const auto* parameters = fields.object("parameters")) kept["function"]["parameters"] = *parameters;
    return kept;
}

const std::string& name_of(const ordered_json& tool) { return tool["function"]["name"].get_ref<const std::string&>(); }

bool is_offered(const ordered_json& tools, const std::string& name) {
    return std::ranges::any_of(tools, [&](const ordered_json& tool) { return name_of(tool) == name; });
}

void choose_named(const RequestFields& fields, const std::string& name, ToolUse& use) {
    if (!is_offered(use.offered, name)) fields.refuse("tool_choice", fmt::format("there is no tool '{}'", name));
    use.choice = ToolUse::Choice::required;
    use.allowed.push_back(name);
}

// {"type": "allowed_tools", "allowed_tools": {"mode": "auto"|"required", "tools": [{"type": "function", "function":
// {"name"}}]}}
void choose_allowed(const RequestFields& fields, const RequestFields& choice, ToolUse& use) {
    const ordered_json* inner = choice.object("allowed_tools");
    if (inner == nullptr) choice.refuse("allowed_tools", "is missing");
    const RequestFields allowed(*inner, choice.path_of("allowed_tools"));
    std::vector<std::string> names;
    for (const auto& entry : allowed.required_list("tools")) {
        const RequestFields tool(entry, allowed.path_of("tools[]"));
        const ordered_json* function = tool.object("function");
        names.push_back(function != nullptr ? RequestFields(*function, tool.path_of("function")).required_text("name")
                                            : tool.required_text("name"));
        if (!is_offered(use.offered, names.back())) {
            fields.refuse("tool_choice", fmt::format("there is no tool '{}'", names.back()));
        }
    }
    std::erase_if(use.offered.get_ref<ordered_json::array_t&>(),
                  [&](const ordered_json& tool) { return std::ranges::find(names, name_of(tool)) == names.end(); });
    if (allowed.text("mode").value_or("auto") == "required") {
        use.choice = ToolUse::Choice::required;
        use.allowed = names;
    }
}

void read_choice(const RequestFields& fields, ToolUse& use) {
    const ordered_json* choice = fields.find("tool_choice");
    if (choice == nullptr) return;
    if (choice->is_string()) {
        const auto& word = choice->get_ref<const std::string&>();
        if (word == "none") {
            use.choice = ToolUse::Choice::none;
        } else if (word == "required" || word == "any") {
            if (use.offered.empty()) fields.refuse("tool_choice", "a call is required but no tool is offered");
            use.choice = ToolUse::Choice::required;
            for (const ordered_json& tool : use.offered) use.allowed.push_back(name_of(tool));
        } else if (word != "auto") {
            fields.refuse("tool_choice", fmt::format("'{}' is unknown", word),
                          "use none, auto, required or a function");
        }
        return;
    }
    const RequestFields inner(*choice, "tool_choice");
    const std::string type = inner.required_text("type");
    if (type == "allowed_tools") {
        choose_allowed(fields, inner, use);
    } else if (type == "function") {
        const ordered_json* function = inner.object("function");
        choose_named(fields,
                     function != nullptr ? RequestFields(*function, "tool_choice.function").required_text("name")
                                         : inner.required_text("name"),
                     use);
    } else {
        fields.refuse("tool_choice", fmt::format("a choice of type '{}' is not supported", type));
    }
}

}  // namespace

ToolUse read_tool_use(const RequestFields& fields) {
    ToolUse use;
    if (const ordered_json* tools = fields.list("tools")) {
        if (tools->size() > kMaxTools) fields.refuse("tools", fmt::format("more than {} tools", kMaxTools));
        for (size_t index = 0; index < tools->size(); ++index) {
            ordered_json tool = read_tool(RequestFields((*tools)[index], fmt::format("tools[{}]", index)));
            if (is_offered(use.offered, name_of(tool))) {
                fields.refuse("tools", fmt::format("the name '{}' is there twice", name_of(tool)));
            }
            use.offered.push_back(std::move(tool));
        }
    }
    read_choice(fields, use);
    use.allows_several = fields.flag("parallel_tool_calls").value_or(true);
    if (use.choice == ToolUse::Choice::none) use.offered = ordered_json::array();
    return use;
}

void constrain_reply(const Service& service, const RequestFields& fields, const ToolUse& tools, GenerationJob& job) {
    (void)service;
    (void)job;
    if (tools.choice == ToolUse::Choice::required) fields.refuse("tool_choice", "a forced call is not supported yet");
    const ordered_json* format = fields.object("response_format");
    if (format == nullptr) return;
    const std::string type = RequestFields(*format, "response_format").required_text("type");
    if (type != "text") fields.refuse("response_format", fmt::format("'{}' is not supported yet", type));
}

}  // namespace gemmatrace::server
