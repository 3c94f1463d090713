// The program's entry: parses the command line, runs one command, and turns whatever it throws into an exit status.
#include <csignal>

#include <string>

#include "cli/command_body.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/report.h"

namespace gemmatrace::cli {
namespace {

constexpr const char* kDescription =
    "gemmatrace runs Gemma-4 checkpoints in Hugging Face's layout on this machine's CPU and decodes exactly the "
    "tokens\n"
    "that Transformers 5.13.0 decodes.";

constexpr const char* kExamples =
    "Examples:\n"
    "  gemmatrace chat models/demo                                  a conversation in the terminal\n"
    "  gemmatrace generate models/demo --chat \"What is 2+3?\"        one answer\n"
    "  gemmatrace generate models/demo --ids 2,105 --json           ids in, one JSON object out\n"
    "  gemmatrace inspect models/demo                               what the checkpoint holds\n"
    "\n"
    "'gemmatrace COMMAND --help' explains a command. Exit status: 0 done; 2 wrong input; 3 not found; 4 unsupported;\n"
    "5 damaged or contradictory files; 7 no memory or disk; 70 a fault of the program; 130 interrupted.";

int run_command_line(int argc, char** argv) {
    RunCommand run;
    CLI::App app(kDescription, "gemmatrace");
    app.set_version_flag("--version", "gemmatrace " GEMMATRACE_VERSION);
    app.require_subcommand(1);
    app.footer(kExamples);
    app.get_formatter()->column_width(30);
    app.get_formatter()->label("SUBCOMMAND", "COMMAND");
    app.get_formatter()->label("REQUIRED", "");
    add_chat_command(app, run);
    add_generate_command(app, run);
    add_tokenize_command(app, run);
    add_detokenize_command(app, run);
    add_render_command(app, run);
    add_inspect_command(app, run);
    add_synth_command(app, run);
    add_completion_command(app, run);
    for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) command->group("Commands");
    for (CLI::App* command : app.get_subcommands({})) command->group("Commands");
    const auto is_named = [&](const CLI::App* command) { return command->get_name() == argv[1]; };
    if (argc > 1 && argv[1][0] != '-' && app.get_subcommands(is_named).empty()) {
        throw Error(ErrorCode::bad_request, std::string("there is no command '") + argv[1] + "'", {},
                    "'gemmatrace --help' lists the commands");
    }
    try {
        app.parse(argc, argv);
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
    return run();
}

}  // namespace
}  // namespace gemmatrace::cli

int main(int argc, char** argv) {
    std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an answer of write, not a reason to die
    gemmatrace::cli::watch_interrupts();
    try {
        return gemmatrace::cli::run_command_line(argc, argv);
    } catch (...) {
        return gemmatrace::cli::report_current_exception();
    }
}
