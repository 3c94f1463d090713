// Tools and formats of the OpenAI dialect.
#include "server/tool_choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "engine/constraint/tool_function.h"
#include "server/reply_filter.h"

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

template <typename Compile>
std::shared_ptr<engine::Constraint> constraint_of(const Service& service, const std::string& key,
                                                  const Compile& compile) {
    return service.constraints->get(service.tokenizer, service.engine->limits().vocab_size, key, compile);
}

std::shared_ptr<engine::Constraint> format_constraint(const Service& service, const ReplyFormat& format) {
    const auto limits = ConstraintStore::limits();
    try {
        switch (format.kind) {
            case ReplyFormat::Kind::text:
                return nullptr;
            case ReplyFormat::Kind::json_object:
                return constraint_of(service, "object", [&] { return engine::compile_json_object(limits); });
            case ReplyFormat::Kind::json_schema: {
                const auto strictness = format.is_strict ? engine::Strictness::strict : engine::Strictness::lenient;
                const std::string key = (format.is_strict ? "strict " : "lenient ") + dump_json(format.schema);
                return constraint_of(service, key,
                                     [&] { return engine::compile_json_schema(format.schema, limits, strictness); });
            }
            case ReplyFormat::Kind::regex:
                return constraint_of(service, "regex " + format.pattern,
                                     [&] { return engine::compile_regex(format.pattern, limits); });
        }
    } catch (Error& error) {
        throw error.add_context("field", format.field);
    }
    return nullptr;
}

std::shared_ptr<engine::Constraint> call_constraint(const Service& service, const ToolUse& tools,
                                                    const std::vector<std::string>& names, bool allows_several) {
    std::vector<engine::ToolFunction> functions;
    std::string key = allows_several ? "calls" : "call";
    for (const ordered_json& tool : tools.offered) {
        if (std::ranges::find(names, name_of(tool)) == names.end()) continue;
        const ordered_json& function = tool["function"];
        functions.push_back({name_of(tool), function.contains("parameters") ? function["parameters"] : ordered_json()});
        key += " " + dump_json(tool);
    }
    try {
        return constraint_of(service, key, [&] {
            return engine::compile_tool_calls(functions, allows_several, engine::ToolSyntax::of(service.tokenizer),
                                              ConstraintStore::limits());
        });
    } catch (Error& error) {
        throw error.add_context("field", "tools");
    }
}

// Calls that the model makes by itself are held to their schemas where that is possible, and free where it is not: a
// tool whose schema is beyond us is no reason to refuse a conversation.
std::shared_ptr<engine::Constraint> automatic_call_constraint(const Service& service, const ToolUse& tools) {
    std::vector<std::string> names;
    for (const ordered_json& tool : tools.offered) names.push_back(name_of(tool));
    try {
        return call_constraint(service, tools, names, false);
    } catch (const Error&) {
        return nullptr;
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

ReplyFormat read_response_format(const RequestFields& fields) {
    ReplyFormat format;
    const ordered_json* value = fields.object("response_format");
    if (value == nullptr) return format;
    const RequestFields inner(*value, "response_format");
    const std::string type = inner.required_text("type");
    format.field = "response_format";
    if (type == "json_object") {
        format.kind = ReplyFormat::Kind::json_object;
    } else if (type == "json_schema") {
        format.kind = ReplyFormat::Kind::json_schema;
        const ordered_json* named = inner.object("json_schema");
        if (named == nullptr) inner.refuse("json_schema", "is missing", "give {\"name\": …, \"schema\": …}");
        const RequestFields schema_fields(*named, "response_format.json_schema");
        const ordered_json* schema = schema_fields.object("schema");
        if (schema == nullptr) schema_fields.refuse("schema", "is missing", "give a JSON schema");
        format.schema = *schema;
        format.is_strict = schema_fields.flag("strict").value_or(true);
        format.field = "response_format.json_schema.schema";
    } else if (type == "regex") {
        format.kind = ReplyFormat::Kind::regex;
        format.pattern = inner.required_text("pattern");
    } else if (type != "text") {
        inner.refuse("type", fmt::format("'{}' is unknown", type), "use text, json_object, json_schema or regex");
    }
    return format;
}

void constrain_reply(const Service& service, const ToolUse& tools, const ReplyFormat& format, GenerationJob& job) {
    ReplyPlan plan;
    plan.end_ids = job.request.end_ids;
    const bool must_call = tools.choice == ToolUse::Choice::required;
    if (!must_call) {
        if (auto answer = format_constraint(service, format)) plan.answers.push_back(std::move(answer));
    }
    if (!tools.offered.empty()) {
        if (must_call) {
            plan.answers = {call_constraint(service, tools, tools.allowed, tools.allows_several)};
        } else if (auto call = automatic_call_constraint(service, tools)) {
            if (!plan.answers.empty()) plan.answers.push_back(call);
            plan.call = std::move(call);
        }
    }
    const int32_t vocab_size = service.engine->limits().vocab_size;
    job.make_filter = [plan, markers = ReplyMarkers::of(service.tokenizer),
                       vocab_size](std::span<const int32_t> prompt) {
        return make_reply_filter(plan, markers, vocab_size, prompt);
    };
}

void constrain_reply(const Service& service, const RequestFields& fields, const ToolUse& tools, GenerationJob& job) {
    constrain_reply(service, tools, read_response_format(fields), job);
}

}  // namespace gemmatrace::server
