// Loading of chat templates and the entry into the interpreter.
#include "text/chat_template.h"

#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file_mapping.h"
#include "base/json.h"
#include "text/jinja/globals.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/json.h"
#include "text/jinja/parser.h"

namespace gemmatrace::text {

namespace {

constexpr size_t kMaxTemplateBytes = size_t{1} << 20;
constexpr const char* kTemplateFile = "chat_template.jinja";
constexpr const char* kConfigFile = "tokenizer_config.json";
constexpr const char* kTokensFile = "special_tokens_map.json";

// The template among the named ones that plain chats use.
const nlohmann::ordered_json* find_default(const nlohmann::ordered_json& templates) {
    for (const auto& entry : templates) {
        if (!entry.is_object() || !entry.contains("name") || !entry.contains("template")) continue;
        if (entry["name"] == "default" && entry["template"].is_string()) return &entry["template"];
    }
    return nullptr;
}

[[noreturn]] void fail_missing(const std::filesystem::path& directory) {
    throw Error(ErrorCode::not_found, "the checkpoint has no chat template", {{"directory", directory.string()}},
                std::string("Add ") + kTemplateFile + ", or use the raw prompt.");
}

// The object in a file; an empty one when there is no such file or something else in it.
nlohmann::ordered_json read_object(const std::filesystem::path& file) {
    if (!std::filesystem::exists(file)) return nlohmann::ordered_json::object();
    nlohmann::ordered_json content = read_json_file(file);
    return content.is_object() ? content : nlohmann::ordered_json::object();
}

// Adds the tokens whose name ends so, given as text or as an object with the text in `content`; known ones stay.
void add_tokens(const nlohmann::ordered_json& named, std::string_view ending, nlohmann::ordered_json& tokens) {
    for (const auto& [name, value] : named.items()) {
        if (!name.ends_with(ending) || tokens.contains(name)) continue;
        const auto content = value.is_object() ? value.find("content") : value.end();
        const nlohmann::ordered_json& text = value.is_object() && content != value.end() ? *content : value;
        if (text.is_string()) tokens[name] = text;
    }
}

// What one name of the template means: the request's variable, a special token, one of our functions, or nothing.
jinja::Value variable(jinja::Runtime& runtime, const std::string& name, const nlohmann::ordered_json& variables,
                      const nlohmann::ordered_json& special_tokens) {
    if (const auto found = variables.find(name); found != variables.end()) {
        return jinja::from_json(runtime, *found, Origin::content);
    }
    if (const auto found = special_tokens.find(name); found != special_tokens.end()) {
        return jinja::from_json(runtime, *found, Origin::template_text);
    }
    return jinja::find_global(runtime, name);
}

}  // namespace

struct ChatTemplate::Data {
    std::string name;
    std::unique_ptr<jinja::Tree> tree;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Data> data) : data_(std::move(data)) {}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

ChatTemplate ChatTemplate::load(const std::filesystem::path& directory) {
    const std::filesystem::path file = directory / kTemplateFile;
    if (std::filesystem::exists(file)) return parse(read_file(file, kMaxTemplateBytes), file.string());
    const std::filesystem::path config_file = directory / kConfigFile;
    if (!std::filesystem::exists(config_file)) fail_missing(directory);
    const nlohmann::ordered_json config = read_json_file(config_file);
    if (!config.is_object() || !config.contains("chat_template")) fail_missing(directory);
    const nlohmann::ordered_json& entry = config["chat_template"];
    const nlohmann::ordered_json* source = entry.is_array() ? find_default(entry) : &entry;
    if (source == nullptr || source->is_null()) fail_missing(directory);
    if (!source->is_string()) {
        throw Error(ErrorCode::corrupt, "chat_template is neither a text nor a list of named texts",
                    {{"file", config_file.string()}, {"field", "chat_template"}}, "Repair the file.");
    }
    return parse(source->get_ref<const std::string&>(), config_file.string());
}

ChatTemplate ChatTemplate::parse(std::string_view source, const std::string& name) {
    auto data = std::make_unique<Data>();
    data->name = name;
    try {
        data->tree = jinja::parse_template(source);
    } catch (Error& error) {
        throw error.add_context("template", name);
    }
    return ChatTemplate(std::move(data));
}

LocalTime LocalTime::now() {
    const auto now = std::chrono::system_clock::now();
    const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
    std::tm parts{};
    localtime_r(&seconds, &parts);
    const auto fraction =
        std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count() % 1000000;
    return {parts.tm_year + 1900, parts.tm_mon + 1,          parts.tm_mday, parts.tm_hour, parts.tm_min,
            parts.tm_sec,         static_cast<int>(fraction)};
}

MarkedText ChatTemplate::render(const nlohmann::ordered_json& variables, const nlohmann::ordered_json& special_tokens,
                                const TemplateLimits& limits) const {
    return render(variables, special_tokens, limits, LocalTime::now());
}

MarkedText ChatTemplate::render(const nlohmann::ordered_json& variables, const nlohmann::ordered_json& special_tokens,
                                const TemplateLimits& limits, const LocalTime& now) const {
    jinja::Runtime runtime(limits, now);
    try {
        std::vector<jinja::Value> values;
        for (const std::string& name : data_->tree->variables) {
            values.push_back(variable(runtime, name, variables, special_tokens));
        }
        jinja::Interpreter interpreter(*data_->tree, runtime, std::move(values));
        runtime.callbacks = &interpreter;
        jinja::TextBuilder out(runtime.meter);
        interpreter.run(out);
        return out.marked();
    } catch (Error& error) {
        if (runtime.line > 0) error.add_context("line", std::to_string(runtime.line));
        throw error.add_context("template", data_->name);
    }
}

nlohmann::ordered_json special_token_variables(const std::filesystem::path& directory) {
    const nlohmann::ordered_json config = read_object(directory / kConfigFile);
    nlohmann::ordered_json tokens = nlohmann::ordered_json::object();
    add_tokens(config, "_token", tokens);
    for (const char* group : {"extra_special_tokens", "model_specific_special_tokens"}) {
        if (const auto named = config.find(group); named != config.end() && named->is_object())
            add_tokens(*named, "", tokens);
    }
    // Older exports keep the tokens in a file of their own, which Transformers reads only then.
    if (!config.contains("added_tokens_decoder")) add_tokens(read_object(directory / kTokensFile), "_token", tokens);
    return tokens;
}

}  // namespace gemmatrace::text
