// A command as data: its options with their texts and where their values go, and what runs when it is chosen. Help,
// parsing and shell completions are all made from it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace gemmatrace::cli {

// Where the value of an option goes; its type is what the option takes. A bool is a flag; a vector takes the option
// several times; an optional stays empty when the option is not given.
using OptionTarget = std::variant<bool*, std::string*, std::filesystem::path*, int32_t*, int64_t*, uint64_t*, double*,
                                  std::optional<std::string>*, std::optional<int32_t>*, std::optional<int64_t>*,
                                  std::optional<uint64_t>*, std::optional<double>*, std::vector<std::string>*>;

struct Option {
    std::string name;  // "--max-tokens", or "CHECKPOINT" for an argument without a name
    OptionTarget target;
    std::string help;
    std::string value_name = {};             // what help shows for the value: "N", "bf16|fp32"
    std::string group = {};                  // heading in the help; empty: "Options"
    bool shows_default = false;              // help shows the value that the target holds
    std::string needs = {};                  // another option of the command that must be given too
    std::vector<std::string> excludes = {};  // others that must not
    std::string short_name = {};             // "-o"
    bool is_optional = false;                // of an argument: may be left out

    bool is_argument() const { return !name.starts_with("-"); }
    bool is_flag() const { return std::holds_alternative<bool*>(target); }
};

struct Command {
    std::string name;
    std::string help;  // one line
    std::string examples;
    std::vector<Option> options;
    std::vector<std::string> required;  // names of options; arguments are required unless they say otherwise
    bool is_service = false;  // options may come from the environment (GEMMATRACE_MAX_QUEUE) and from a file too
    // Does the command's work and answers the exit status. Errors leave it as exceptions; main.cpp is the boundary.
    std::function<int()> run;

    // Adds options that are shown under one heading.
    void add(const std::string& group, std::vector<Option> more) {
        for (Option& option : more) {
            option.group = group;
            options.push_back(std::move(option));
        }
    }
};

// A command whose options live in an `Options` of its own; `describe(command, options)` fills in the rest.
template <typename Options>
Command make_command(std::string name, std::string help, std::string examples, int (*run)(const Options&),
                     void (*describe)(Command&, Options&)) {
    Command command;
    command.name = std::move(name);
    command.help = std::move(help);
    command.examples = std::move(examples);
    auto options = std::make_shared<Options>();
    describe(command, *options);
    command.run = [options, run] { return run(*options); };
    return command;
}

Command serve_command();
Command chat_command();
Command generate_command();
Command tokenize_command();
Command detokenize_command();
Command render_command();
Command inspect_command();
Command synth_command();
Command compile_command();
Command pull_command();
Command doctor_command();
// Completes the commands in `commands`, which must outlive it.
Command completion_command(const std::vector<Command>& commands);

}  // namespace gemmatrace::cli
