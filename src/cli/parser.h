// The command line of the program, parsed.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace gemmatrace::cli {

struct ProgramText {
    std::string description;
    std::string examples;
    std::string version;
};

// Finds the command, fills its options and runs it; or writes the help or the version. Answers the exit status.
// Throws Error(bad_request) for a command line that is wrong.
int run_command_line(const ProgramText& text, const std::vector<Command>& commands, int argc, char** argv);

}  // namespace gemmatrace::cli
