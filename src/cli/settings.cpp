// A JSON file as arguments, and options as a JSON file.
#include "cli/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "base/error.h"
#include "base/json.h"

namespace gemmatrace::cli {
namespace {

using nlohmann::ordered_json;

bool is_given(const std::string& option, const std::vector<std::string>& given) {
    return std::ranges::any_of(
        given, [&](const std::string& argument) { return argument == option || argument.starts_with(option + "="); });
}

[[noreturn]] void refuse_setting(const std::string& file, const std::string& name, const std::string& what) {
    throw Error(ErrorCode::bad_request, fmt::format("the setting '{}' {}", name, what), {{"file", file}},
                "'gemmatrace serve --help' lists the options; a setting is one without its dashes");
}

void add_value(std::vector<std::string>& arguments, const Option& option, const ordered_json& value,
               const std::string& file, const std::string& name) {
    if (option.is_flag()) {
        if (!value.is_boolean()) refuse_setting(file, name, "must be true or false");
        if (value.get<bool>()) arguments.push_back(option.name);
        return;
    }
    if (!value.is_string() && !value.is_number()) refuse_setting(file, name, "must be a text or a number");
    arguments.push_back(option.name + "=" + (value.is_string() ? value.get<std::string>() : value.dump()));
}

struct ShownValue {
    ordered_json operator()(const bool* value) const { return *value ? ordered_json(true) : ordered_json(); }
    ordered_json operator()(const std::filesystem::path* value) const { return value->string(); }
    ordered_json operator()(const std::string* value) const {
        return value->empty() ? ordered_json() : ordered_json(*value);
    }
    ordered_json operator()(const std::vector<std::string>* value) const {
        return value->empty() ? ordered_json() : ordered_json(*value);
    }
    template <typename Value>
    ordered_json operator()(const std::optional<Value>* value) const {
        return *value ? ordered_json(**value) : ordered_json();
    }
    template <typename Value>
    ordered_json operator()(const Value* value) const {
        return *value;
    }
};

}  // namespace

std::string environment_name(const std::string& option) {
    std::string name = "GEMMATRACE_";
    for (const char letter : option.substr(2)) {
        const bool is_lower = letter >= 'a' && letter <= 'z';
        name += letter == '-' ? '_' : is_lower ? static_cast<char>(letter - 'a' + 'A') : letter;
    }
    return name;
}

std::vector<std::string> arguments_of_file(const Command& command, const std::string& file,
                                           const std::vector<std::string>& given) {
    const ordered_json settings = read_json_file(file);
    if (!settings.is_object()) {
        throw Error(ErrorCode::corrupt, "the settings must be one JSON object", {{"file", file}},
                    "write {\"port\": 8080}");
    }
    std::vector<std::string> arguments;
    for (const auto& [name, value] : settings.items()) {
        const std::string option_name = "--" + name;
        const auto option = std::ranges::find(command.options, option_name, &Option::name);
        if (option == command.options.end()) refuse_setting(file, name, "is unknown");
        if (value.is_null() || is_given(option_name, given)) continue;
        if (std::getenv(environment_name(option_name).c_str()) != nullptr) continue;
        if (value.is_array()) {
            if (!std::holds_alternative<std::vector<std::string>*>(option->target)) {
                refuse_setting(file, name, "takes one value, not a list");
            }
            for (const auto& entry : value) add_value(arguments, *option, entry, file, name);
        } else {
            add_value(arguments, *option, value, file, name);
        }
    }
    return arguments;
}

std::string settings_text(const Command& command) {
    ordered_json settings = ordered_json::object();
    for (const Option& option : command.options) {
        if (option.is_argument()) continue;
        ordered_json value = std::visit(ShownValue(), option.target);
        if (value.is_null()) continue;
        if (option.name == "--api-key") value = ordered_json::array({"(not shown)"});
        settings[option.name.substr(2)] = std::move(value);
    }
    return dump_json(settings, 2) + "\n";
}

}  // namespace gemmatrace::cli
