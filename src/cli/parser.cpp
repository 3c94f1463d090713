// From commands as data to CLI11, whose header is large: no other file includes it.
#include "cli/parser.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <type_traits>

#include "base/error.h"
#include "cli/output.h"
#include "cli/settings.h"

namespace gemmatrace::cli {
namespace {

constexpr size_t kNameColumns = 30;

template <typename Value>
CLI::Option* add_value(CLI::App& app, const Option& option, Value& target) {
    const std::string names = option.short_name.empty() ? option.name : option.short_name + "," + option.name;
    CLI::Option* added = app.add_option(names, target, option.help);
    added->type_name(option.value_name);
    if constexpr (std::is_same_v<Value, std::vector<std::string>>) added->type_size(1)->allow_extra_args(false);
    if constexpr (std::is_same_v<Value, uint64_t> || std::is_same_v<Value, std::optional<uint64_t>>) {
        added->check(CLI::NonNegativeNumber);
    }
    return added;
}

CLI::Option* add_option(CLI::App& app, const Option& option) {
    CLI::Option* added = std::visit(
        [&](auto* target) -> CLI::Option* {
            if constexpr (std::is_same_v<decltype(target), bool*>) {
                return app.add_flag(option.name, *target, option.help);
            } else {
                return add_value(app, option, *target);
            }
        },
        option.target);
    if (option.is_argument() && !option.is_optional) added->required();
    if (option.shows_default) added->capture_default_str();
    if (!option.group.empty()) added->group(option.group);
    return added;
}

// The two options of every service that are about its settings.
struct ServiceOptions {
    std::string file;
    bool only_prints = false;
};

void add_command(CLI::App& app, const Command& command, ServiceOptions& service) {
    CLI::App* added = app.add_subcommand(command.name, command.help);
    added->group("Commands");
    std::map<std::string, CLI::Option*> by_name;
    for (const Option& option : command.options) {
        CLI::Option* described = by_name[option.name] = add_option(*added, option);
        if (command.is_service && !option.is_argument()) described->envname(environment_name(option.name));
    }
    for (const Option& option : command.options) {
        if (!option.needs.empty()) by_name.at(option.name)->needs(by_name.at(option.needs));
        for (const std::string& other : option.excludes) by_name.at(option.name)->excludes(by_name.at(other));
    }
    for (const std::string& name : command.required) by_name.at(name)->required();
    if (command.is_service) {
        added->add_option("--config", service.file, "settings from a JSON file; options and environment go before it")
            ->type_name("FILE")
            ->envname(environment_name("--config"));
        added->add_flag("--print-config", service.only_prints,
                        "print the settings as such a file, and do nothing else");
    }
    added->footer(command.examples);
}

}  // namespace

int run_command_line(const ProgramText& text, const std::vector<Command>& commands, int argc, char** argv) {
    CLI::App app(text.description, "gemmatrace");
    app.set_version_flag("--version", text.version);
    app.require_subcommand(1);
    app.footer(text.examples);
    app.get_formatter()->column_width(kNameColumns);
    app.get_formatter()->label("SUBCOMMAND", "COMMAND");
    app.get_formatter()->label("REQUIRED", "");
    ServiceOptions service;
    for (const Command& command : commands) add_command(app, command, service);

    const auto find = [&](const std::string& name) {
        return std::find_if(commands.begin(), commands.end(),
                            [&](const auto& command) { return command.name == name; });
    };
    if (argc > 1 && argv[1][0] != '-' && find(argv[1]) == commands.end()) {
        throw Error(ErrorCode::bad_request, std::string("there is no command '") + argv[1] + "'", {},
                    "'gemmatrace --help' lists the commands");
    }
    try {
        app.parse(argc, argv);
        const Command& chosen = *find(app.get_subcommands().front()->get_name());
        if (!service.file.empty()) {
            std::vector<std::string> arguments(argv + 1, argv + argc);
            for (std::string& more : arguments_of_file(chosen, service.file, arguments)) {
                arguments.push_back(std::move(more));
            }
            std::reverse(arguments.begin(), arguments.end());  // as this parser wants them
            app.parse(std::move(arguments));
        }
        if (service.only_prints) {
            write_out(settings_text(chosen));
            return 0;
        }
    } catch (const CLI::CallForHelp&) {
        write_out(app.help());  // of the command, if one was named
        return 0;
    } catch (const CLI::CallForVersion& version) {
        write_out(std::string(version.what()) + "\n");
        return 0;
    } catch (const CLI::ParseError& error) {
        const auto chosen = app.get_subcommands();
        const std::string command = chosen.empty() ? "gemmatrace" : "gemmatrace " + chosen.front()->get_name();
        throw Error(ErrorCode::bad_request, error.what(), {}, "see '" + command + " --help'");
    }
    return find(app.get_subcommands().front()->get_name())->run();
}

}  // namespace gemmatrace::cli
