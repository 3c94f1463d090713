// Settings of a service from where services get them: the command line, the environment, a file; and shown again.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace gemmatrace::cli {

// GEMMATRACE_MAX_QUEUE for --max-queue.
std::string environment_name(const std::string& option);

// Arguments for what the JSON file holds, e.g. {"port": 9000, "api-key": ["a", "b"], "no-prefix-reuse": true}, less
// what `given` (the command line) or the environment says. Throws Error(not_found), Error(corrupt), and
// Error(bad_request) for a name that is no option of the command or a value of another type.
std::vector<std::string> arguments_of_file(const Command& command, const std::string& file,
                                           const std::vector<std::string>& given);

// What the options hold, as such a file; empty ones are left out, and keys are not shown.
std::string settings_text(const Command& command);

}  // namespace gemmatrace::cli
