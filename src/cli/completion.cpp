// `gemmatrace completion`: shell completion scripts, written from the very options that the parser knows.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/command_body.h"
#include "cli/output.h"

namespace gemmatrace::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  gemmatrace completion bash > ~/.local/share/bash-completion/completions/gemmatrace\n"
    "  gemmatrace completion zsh > \"${fpath[1]}/_gemmatrace\"\n"
    "  gemmatrace completion fish > ~/.config/fish/completions/gemmatrace.fish";

struct CompletionOptions {
    const CLI::App* app = nullptr;
    std::string shell;
};

struct OptionText {
    std::string name;         // "--max-tokens"
    std::string description;  // one line without quotes
    bool takes_value = false;
};

std::string without_quotes(std::string text) {
    for (char& letter : text) {
        if (letter == '\'' || letter == '"' || letter == '[' || letter == ']' || letter == ':') letter = ' ';
    }
    return text;
}

std::vector<OptionText> options_of(const CLI::App& app) {
    std::vector<OptionText> options;
    for (const CLI::Option* option : app.get_options()) {
        if (option->get_lnames().empty()) continue;
        options.push_back({"--" + option->get_lnames().front(), without_quotes(option->get_description()),
                           option->get_items_expected_max() > 0});
    }
    return options;
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
    return app.get_subcommands([](const CLI::App*) { return true; });
}

std::string names_of(const std::vector<OptionText>& options) {
    std::string names;
    for (const OptionText& option : options) names += (names.empty() ? "" : " ") + option.name;
    return names;
}

std::string bash_script(const CLI::App& app) {
    std::string commands;
    std::string cases;
    for (const CLI::App* command : commands_of(app)) {
        commands += (commands.empty() ? "" : " ") + command->get_name();
        cases += fmt::format("        {}) words='{}' ;;\n", command->get_name(), names_of(options_of(*command)));
    }
    return fmt::format(
        "# bash completion for gemmatrace\n"
        "_gemmatrace() {{\n"
        "    local current=${{COMP_WORDS[COMP_CWORD]}} words=''\n"
        "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
        "        mapfile -t COMPREPLY < <(compgen -W '{} {}' -- \"$current\")\n"
        "        return\n"
        "    fi\n"
        "    case ${{COMP_WORDS[1]}} in\n"
        "{}"
        "    esac\n"
        "    case $current in\n"
        "        -*) mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\") ;;\n"
        "        *) mapfile -t COMPREPLY < <(compgen -f -- \"$current\") ;;\n"
        "    esac\n"
        "}}\n"
        "complete -o filenames -F _gemmatrace gemmatrace\n",
        commands, names_of(options_of(app)), cases);
}

std::string zsh_script(const CLI::App& app) {
    std::string commands;
    std::string cases;
    for (const CLI::App* command : commands_of(app)) {
        commands += fmt::format("        '{}:{}'\n", command->get_name(), without_quotes(command->get_description()));
        cases += fmt::format("        {})\n            _arguments", command->get_name());
        for (const OptionText& option : options_of(*command)) {
            cases += fmt::format(" \\\n                '{}[{}]{}'", option.name, option.description,
                                 option.takes_value ? ":value:_files" : "");
        }
        cases += " \\\n                '*:file:_files' ;;\n";
    }
    return fmt::format(
        "#compdef gemmatrace\n"
        "_gemmatrace() {{\n"
        "    local -a commands=(\n"
        "{}"
        "    )\n"
        "    if (( CURRENT == 2 )); then\n"
        "        _describe command commands\n"
        "        return\n"
        "    fi\n"
        "    local command=$words[2]\n"
        "    shift words\n"
        "    (( CURRENT-- ))\n"
        "    case $command in\n"
        "{}"
        "    esac\n"
        "}}\n"
        "_gemmatrace \"$@\"\n",
        commands, cases);
}

std::string fish_script(const CLI::App& app) {
    std::string script = "# fish completion for gemmatrace\n";
    for (const CLI::App* command : commands_of(app)) {
        script += fmt::format("complete -c gemmatrace -n __fish_use_subcommand -f -a {} -d '{}'\n", command->get_name(),
                              without_quotes(command->get_description()));
        for (const OptionText& option : options_of(*command)) {
            script += fmt::format("complete -c gemmatrace -n '__fish_seen_subcommand_from {}' -l {}{} -d '{}'\n",
                                  command->get_name(), option.name.substr(2), option.takes_value ? " -r" : "",
                                  option.description);
        }
    }
    return script;
}

int run_completion(const CompletionOptions& options) {
    if (options.shell == "bash") {
        write_out(bash_script(*options.app));
    } else if (options.shell == "zsh") {
        write_out(zsh_script(*options.app));
    } else if (options.shell == "fish") {
        write_out(fish_script(*options.app));
    } else {
        throw Error(ErrorCode::bad_request, fmt::format("there is no completion for the shell '{}'", options.shell),
                    {{"field", "SHELL"}}, "use bash, zsh or fish");
    }
    return 0;
}

}  // namespace

void add_completion_command(CLI::App& app, RunCommand& run) {
    auto options = std::make_shared<CompletionOptions>();
    options->app = &app;
    CLI::App* command = app.add_subcommand("completion", "Print a completion script for a shell");
    command->add_option("SHELL", options->shell, "bash, zsh or fish")->required()->type_name("");
    command->footer(kExamples);
    set_body(*command, run, options, run_completion);
}

}  // namespace gemmatrace::cli
