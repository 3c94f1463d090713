// How a command joins the program: it describes its options to the parser and leaves behind what is to be run.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>

namespace gemmatrace::cli {

// Does the command's work and answers the exit status. Errors leave it as exceptions; main.cpp is the boundary.
using RunCommand = std::function<int()>;

// Each adds one command to `app`. When the command is named on the command line, its callback sets `run`.
void add_generate_command(CLI::App& app, RunCommand& run);
void add_chat_command(CLI::App& app, RunCommand& run);
void add_tokenize_command(CLI::App& app, RunCommand& run);
void add_detokenize_command(CLI::App& app, RunCommand& run);
void add_render_command(CLI::App& app, RunCommand& run);
void add_inspect_command(CLI::App& app, RunCommand& run);
void add_synth_command(CLI::App& app, RunCommand& run);
// Reads the other commands from `app` when it runs, so it is added last.
void add_completion_command(CLI::App& app, RunCommand& run);

// Registers `body(options)` to be run when the command is chosen. Options live as long as the parser.
template <typename Options>
void set_body(CLI::App& command, RunCommand& run, std::shared_ptr<Options> options, int (*body)(const Options&)) {
    command.callback([&run, options, body] { run = [options, body] { return body(*options); }; });
}

}  // namespace gemmatrace::cli
