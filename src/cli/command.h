// How a command joins the program: it describes its options to the parser and leaves behind what is to be run.
#pragma once

#include <functional>

namespace CLI {
class App;  // the parser's header is large, and few files need more than its name
}

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

}  // namespace gemmatrace::cli
