// What the file of a command needs: the parser itself, and the step from options to what is run.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <utility>

#include "cli/command.h"

namespace gemmatrace::cli {

// Registers `body(options)` to be run when the command is chosen. Options live as long as the parser.
template <typename Options>
void set_body(CLI::App& command, RunCommand& run, std::shared_ptr<Options> options, int (*body)(const Options&)) {
    command.callback([&run, options, body] { run = [options, body] { return body(*options); }; });
}

}  // namespace gemmatrace::cli
