// Tools flattened into functions for the prompt, and the choice among them.
#include "server/responses_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"

namespace gemmatrace::server {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMaxResponsesTools = 1024;

// Dated and "preview" variants begin with these.
constexpr std::array<std::string_view, 13> kOtherToolTypes = {
    "web_search", "file_search", "code_interpreter", "computer", "image_generation",          "mcp",   "local_shell",
    "shell",      "apply_patch", "custom",           "tool_",    "programmatic_tool_calling", "memory"};

bool is_other_tool(std::string_view type) {
    return std::ranges::any_of(kOtherToolTypes, [&](std::string_view known) { return type.starts_with(known); });
}

// Collects functions; names in the prompt stay unique.
class FunctionList {
  public:
    explicit FunctionList(ResponsesTools& tools) : tools_(tools) {}

    // note: what is said of the group, before the first of its functions.
    void add(const RequestFields& tool, const std::string& name_space, const std::string& note) {
        ResponsesFunction function;
        function.name = tool.required_text("name");
        function.name_space = name_space;
        if (function.name.empty()) tool.refuse("name", "is empty");
        function.prompt_name = function.name;
        if (!name_space.empty() && tools_.of_prompt(function.prompt_name) != nullptr) {
            function.prompt_name = fmt::format("{}.{}", name_space, function.name);
        }
        if (tools_.of_prompt(function.prompt_name) != nullptr) {
            tool.refuse("name", fmt::format("'{}' is there twice", function.name), "give every function its own name");
        }
        if (tools_.functions.size() >= kMaxResponsesTools) {
            tool.refuse("name", fmt::format("more than {} functions", kMaxResponsesTools), "offer fewer");
        }
        ordered_json kept;
        kept["type"] = "function";
        kept["function"]["name"] = function.prompt_name;
        const std::string description = tool.text("description").value_or("");
        kept["function"]["description"] = note.empty() ? description : fmt::format("{}\n{}", note, description);
        if (const auto* parameters = tool.object("parameters")) kept["function"]["parameters"] = *parameters;
        tools_.use.offered.push_back(std::move(kept));
        tools_.functions.push_back(std::move(function));
    }

    void add_group(const RequestFields& group) {
        const std::string name = group.required_text("name");
        std::string note = group.text("description").value_or("");
        const ordered_json& members = group.required_list("tools");
        for (size_t index = 0; index < members.size(); ++index) {
            const RequestFields member(members[index], fmt::format("{}[{}]", group.path_of("tools"), index));
            if (!is_function(member)) continue;
            add(member, name, std::exchange(note, {}));
        }
    }

    // false for a tool of another kind; throws for a kind that nobody knows.
    static bool is_function(const RequestFields& tool) {
        const std::string type = tool.required_text("type");
        if (type == "function") return true;
        if (is_other_tool(type)) return false;
        tool.refuse("type", fmt::format("'{}' is no kind of tool", type), "offer functions");
    }

  private:
    ResponsesTools& tools_;
};

[[noreturn]] void refuse_choice(const std::string& message) {
    throw Error(ErrorCode::bad_request, "tool_choice: " + message, {{"field", "tool_choice"}},
                "use none, auto, required, or a function that is offered");
}

// The name in the prompt of a function that a choice names.
std::string chosen_name(const RequestFields& choice, const ResponsesTools& tools) {
    const std::string type = choice.required_text("type");
    if (type != "function") {
        throw Error(ErrorCode::unsupported, fmt::format("tool_choice: a tool of type '{}' cannot be forced here", type),
                    {{"field", "tool_choice"}}, "force a function, or leave the choice to the model");
    }
    const std::string name = choice.required_text("name");
    const std::string name_space = choice.text("namespace").value_or("");
    for (const ResponsesFunction& function : tools.functions) {
        if (function.name == name && (name_space.empty() || function.name_space == name_space)) {
            return function.prompt_name;
        }
    }
    refuse_choice(fmt::format("there is no tool '{}'", name));
}

void require_one_of(std::vector<std::string> names, ToolUse& use) {
    if (names.empty()) refuse_choice("a call is required but no function is offered");
    use.choice = ToolUse::Choice::required;
    use.allowed = std::move(names);
}

void choose_allowed_tools(const RequestFields& choice, ResponsesTools& tools) {
    const std::string mode = choice.text("mode").value_or("auto");
    if (mode != "auto" && mode != "required") choice.refuse("mode", fmt::format("'{}' is unknown", mode));
    const ordered_json& list = choice.required_list("tools");
    std::vector<std::string> names;
    for (size_t index = 0; index < list.size(); ++index) {
        const RequestFields entry(list[index], fmt::format("{}[{}]", choice.path_of("tools"), index));
        if (FunctionList::is_function(entry)) names.push_back(chosen_name(entry, tools));
    }
    const auto is_left_out = [&](std::string_view name) { return std::ranges::find(names, name) == names.end(); };
    std::erase_if(tools.use.offered.get_ref<ordered_json::array_t&>(), [&](const ordered_json& tool) {
        return is_left_out(tool["function"]["name"].get_ref<const std::string&>());
    });
    if (mode == "required") require_one_of(std::move(names), tools.use);
}

void read_tool_choice(const RequestFields& fields, ResponsesTools& tools) {
    const ordered_json* choice = fields.find("tool_choice");
    if (choice == nullptr) return;
    if (choice->is_string()) {
        const auto& word = choice->get_ref<const std::string&>();
        if (word == "none") {
            tools.use.choice = ToolUse::Choice::none;
        } else if (word == "required") {
            std::vector<std::string> names;
            for (const ResponsesFunction& function : tools.functions) names.push_back(function.prompt_name);
            require_one_of(std::move(names), tools.use);
        } else if (word != "auto") {
            refuse_choice(fmt::format("'{}' is unknown", word));
        }
        return;
    }
    const RequestFields inner(*choice, "tool_choice");
    if (inner.required_text("type") == "allowed_tools") {
        choose_allowed_tools(inner, tools);
    } else {
        require_one_of({chosen_name(inner, tools)}, tools.use);
    }
}

}  // namespace

const ResponsesFunction* ResponsesTools::of_prompt(std::string_view prompt_name) const {
    const auto found = std::ranges::find(functions, prompt_name, &ResponsesFunction::prompt_name);
    return found == functions.end() ? nullptr : &*found;
}

std::string ResponsesTools::prompt_name(std::string_view name_space, std::string_view name) const {
    for (const ResponsesFunction& function : functions) {
        if (function.name == name && function.name_space == name_space) return function.prompt_name;
    }
    return std::string(name);
}

ResponsesTools read_responses_tools(const RequestFields& fields) {
    ResponsesTools tools;
    FunctionList functions(tools);
    if (const ordered_json* list = fields.list("tools")) {
        for (size_t index = 0; index < list->size(); ++index) {
            const RequestFields tool((*list)[index], fmt::format("tools[{}]", index));
            if (tool.required_text("type") == "namespace") {
                functions.add_group(tool);
            } else if (FunctionList::is_function(tool)) {
                functions.add(tool, {}, {});
            }
        }
    }
    read_tool_choice(fields, tools);
    tools.use.allows_several = fields.flag("parallel_tool_calls").value_or(true);
    if (tools.use.choice == ToolUse::Choice::none) tools.use.offered = ordered_json::array();
    return tools;
}

}  // namespace gemmatrace::server
