// The program's entry: has the command line parsed and one command run, and turns whatever it throws into an exit
// status.
#include <csignal>

#include <vector>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/parser.h"
#include "cli/report.h"

namespace gemmatrace::cli {
namespace {

constexpr const char* kDescription =
    "gemmatrace runs Gemma-4 checkpoints in Hugging Face's layout on this machine's CPU and decodes exactly the "
    "tokens\n"
    "that Transformers 5.13.0 decodes.";

constexpr const char* kExamples =
    "Examples:\n"
    "  gemmatrace serve models/demo                                 an OpenAI-compatible endpoint\n"
    "  gemmatrace chat models/demo                                  a conversation in the terminal\n"
    "  gemmatrace generate models/demo --chat \"What is 2+3?\"        one answer\n"
    "  gemmatrace generate models/demo --ids 2,105 --json           ids in, one JSON object out\n"
    "  gemmatrace inspect models/demo                               what the checkpoint holds\n"
    "\n"
    "'gemmatrace COMMAND --help' explains a command. Exit status: 0 done; 1 doctor found a fault; 2 wrong input; 3 not "
    "found; 4 unsupported;\n"
    "5 damaged or contradictory files; 6 the hub is not ready; 7 no memory or disk; 8 the accelerator failed; 9 too "
    "slow;\n"
    "70 a fault of the program; 76 ended because a core hung or failed, start again; 130 interrupted.";

int run_program(int argc, char** argv) {
    std::vector<Command> commands;
    for (const auto make :
         {serve_command, chat_command, generate_command, tokenize_command, detokenize_command, render_command,
          inspect_command, synth_command, compile_command, pull_command, doctor_command}) {
        commands.push_back(make());
    }
    commands.push_back(completion_command(commands));
    return run_command_line({kDescription, kExamples, "gemmatrace " GEMMATRACE_VERSION}, commands, argc, argv);
}

}  // namespace
}  // namespace gemmatrace::cli

int main(int argc, char** argv) {
    std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an answer of write, not a reason to die
    gemmatrace::cli::watch_interrupts();
    try {
        return gemmatrace::cli::run_program(argc, argv);
    } catch (...) {
        return gemmatrace::cli::report_current_exception();
    }
}
