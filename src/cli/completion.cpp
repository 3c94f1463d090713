// `gemmatrace completion`: shell completion scripts, written from the very options that the parser knows.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/command.h"
#include "cli/output.h"

namespace gemmatrace::cli {
namespace {

constexpr const char* kCompletionExamples =
    "Examples:\n"
    "  gemmatrace completion bash > ~/.local/share/bash-completion/completions/gemmatrace\n"
    "  gemmatrace completion zsh > \"${fpath[1]}/_gemmatrace\"\n"
    "  gemmatrace completion fish > ~/.config/fish/completions/gemmatrace.fish";

struct CompletionOptions {
    const std::vector<Command>* commands = nullptr;
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

std::vector<OptionText> options_of(const Command& command) {
    std::vector<OptionText> options = {{"--help", "Print this help message and exit", false}};
    for (const Option& option : command.options) {
        if (!option.is_argument()) options.push_back({option.name, without_quotes(option.help), !option.is_flag()});
    }
    return options;
}

std::string names_of(const std::vector<OptionText>& options) {
    std::string names;
    for (const OptionText& option : options) names += (names.empty() ? "" : " ") + option.name;
    return names;
}

std::string bash_script(const std::vector<Command>& commands) {
    std::string names;
    std::string cases;
    for (const Command& command : commands) {
        names += (names.empty() ? "" : " ") + command.name;
        cases += fmt::format("        {}) words='{}' ;;\n", command.name, names_of(options_of(command)));
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
        names, "--help --version", cases);
}

std::string zsh_script(const std::vector<Command>& commands) {
    std::string names;
    std::string cases;
    for (const Command& command : commands) {
        names += fmt::format("        '{}:{}'\n", command.name, without_quotes(command.help));
        cases += fmt::format("        {})\n            _arguments", command.name);
        for (const OptionText& option : options_of(command)) {
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
        names, cases);
}

std::string fish_script(const std::vector<Command>& commands) {
    std::string script = "# fish completion for gemmatrace\n";
    for (const Command& command : commands) {
        script += fmt::format("complete -c gemmatrace -n __fish_use_subcommand -f -a {} -d '{}'\n", command.name,
                              without_quotes(command.help));
        for (const OptionText& option : options_of(command)) {
            script +=
                fmt::format("complete -c gemmatrace -n '__fish_seen_subcommand_from {}' -l {}{} -d '{}'\n",
                            command.name, option.name.substr(2), option.takes_value ? " -r" : "", option.description);
        }
    }
    return script;
}

int run_completion(const CompletionOptions& options) {
    if (options.shell == "bash") {
        write_out(bash_script(*options.commands));
    } else if (options.shell == "zsh") {
        write_out(zsh_script(*options.commands));
    } else if (options.shell == "fish") {
        write_out(fish_script(*options.commands));
    } else {
        throw Error(ErrorCode::bad_request, fmt::format("there is no completion for the shell '{}'", options.shell),
                    {{"field", "SHELL"}}, "use bash, zsh or fish");
    }
    return 0;
}

}  // namespace

Command completion_command(const std::vector<Command>& commands) {
    auto options = std::make_shared<CompletionOptions>();
    options->commands = &commands;
    Command command;
    command.name = "completion";
    command.help = "Print a completion script for a shell";
    command.examples = kCompletionExamples;
    command.options = {{"SHELL", &options->shell, "bash, zsh or fish"}};
    command.run = [options] { return run_completion(*options); };
    return command;
}

}  // namespace gemmatrace::cli
