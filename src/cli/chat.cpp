// `gemmatrace chat`: a conversation in the terminal, or one question with --once.
#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "cli/chat_commands.h"
#include "cli/command.h"
#include "cli/conversation.h"
#include "cli/interrupt.h"
#include "cli/loaded_model.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/report.h"
#include "cli/terminal.h"

namespace gemmatrace::cli {
namespace {

constexpr const char* kChatExamples =
    "Examples:\n"
    "  gemmatrace chat models/demo\n"
    "  gemmatrace chat models/demo --system \"Answer in one word.\" --temperature 0\n"
    "  gemmatrace chat models/demo --once \"What is the capital of France?\"\n"
    "\n"
    "In the conversation: /help lists the commands, a backslash at the end of a line continues it, Ctrl-C stops an\n"
    "answer, Ctrl-D leaves. When standard input is not a terminal, each of its lines is one message.";

struct ChatOptions {
    ModelOptions model;
    SamplingOptions sampling;
    std::string system;
    bool is_thinking = false;
    int64_t max_tokens = 1024;
    std::optional<int64_t> context_tokens;
    std::optional<std::string> once;
};

ConversationSettings conversation_settings(const ChatOptions& options, const LoadedModel& model) {
    if (options.max_tokens < 1) {
        throw Error(ErrorCode::bad_request, fmt::format("answers of {} tokens were asked for", options.max_tokens),
                    {{"field", "--max-tokens"}}, "use 1 or more");
    }
    if (options.context_tokens && *options.context_tokens < 1) {
        throw Error(ErrorCode::bad_request,
                    fmt::format("a context of {} tokens was asked for", *options.context_tokens),
                    {{"field", "--context"}}, "use 1 or more");
    }
    return {.sampling = sampling_parameters(options.sampling, model.defaults),
            .system = options.system,
            .is_thinking = options.is_thinking,
            .max_tokens = options.max_tokens,
            .context_tokens = options.context_tokens.value_or(default_context_tokens(*model.source))};
}

// Asks one question and shows the reply. Answers false when nobody reads any more.
bool show_turn(Conversation& conversation, const std::string& question) {
    ReplyWriter writer;
    bool was_aside = false;
    const Turn turn = conversation.ask(question, [&](const text::ReplyPiece& piece) {
        const bool is_aside = piece.kind != text::ReplyPiece::Kind::content;
        if (was_aside && !is_aside) writer.end_line();
        was_aside = is_aside;
        if (piece.kind == text::ReplyPiece::Kind::tool_call) {
            writer.aside(tool_call_line(piece));
        } else if (is_aside) {
            writer.aside(piece.text);
        } else {
            writer.answer(piece.text);
        }
        return !writer.is_reader_gone();
    });
    writer.end_line();
    const auto& result = turn.result;
    if (result.finish_reason == engine::FinishReason::length) {
        writer.aside(fmt::format("[ended after {} tokens; --max-tokens allows more]\n", result.token_ids.size()));
    }
    if (result.finish_reason == engine::FinishReason::cancelled) writer.aside("[stopped]\n");
    if (is_terminal_out()) {
        writer.aside(fmt::format("({}{})\n",
                                 speed_line(turn.prompt_tokens - turn.reused_tokens, result.prefill_seconds,
                                            result.token_ids.size(), result.decode_seconds),
                                 turn.reused_tokens > 0 ? fmt::format(", {} remembered", turn.reused_tokens) : ""));
    }
    writer.end_line();
    return !writer.is_reader_gone();
}

enum class AfterLine { go_on, leave };

// A turn is a request of its own: what is wrong with it is shown, kept in `status`, and the conversation goes on.
AfterLine answer_line(Conversation& conversation, std::string line, int& status) {
    try {
        if (line.starts_with('/') && !line.starts_with("//")) {
            const ChatAction action = run_chat_command(line, conversation);
            if (action.kind == ChatAction::Kind::leave) return AfterLine::leave;
            const bool is_read =
                action.kind == ChatAction::Kind::ask ? show_turn(conversation, action.text) : write_out(action.text);
            return is_read ? AfterLine::go_on : AfterLine::leave;
        }
        if (line.starts_with("//")) line.erase(0, 1);
        return show_turn(conversation, line) ? AfterLine::go_on : AfterLine::leave;
    } catch (const Error& error) {
        if (error.code() == ErrorCode::internal || error.code() == ErrorCode::interrupted) throw;
        status = report_error(error);
        if (error.code() == ErrorCode::too_long) write_error("  /clear starts a new conversation\n");
        return AfterLine::go_on;
    }
}

int converse(Conversation& conversation, const ChatOptions& options) {
    const bool is_interactive = is_terminal_in() && is_terminal_out();
    if (is_interactive) {
        write_out(fmt::format("{}: up to {} tokens. /help lists the commands, Ctrl-D leaves.\n",
                              options.model.checkpoint.string(), conversation.context_tokens()));
    }
    MessageReader reader;
    std::string line;
    bool was_interrupted = false;
    int status_of_turns = 0;  // a person has seen what went wrong; a script is told by the exit status
    while (true) {
        const LineReader::Status status = reader.next(line);
        if (status == LineReader::Status::end) {
            if (is_interactive) write_out("\n");
            break;
        }
        if (status == LineReader::Status::interrupted) {
            if (was_interrupted || !is_interactive) throw_if_interrupted();
            was_interrupted = true;
            clear_interrupt();
            write_out("\n(Ctrl-C again or Ctrl-D leaves)\n");
            continue;
        }
        was_interrupted = false;
        if (line.find_first_not_of(" \t\r\n") == std::string::npos) continue;
        if (answer_line(conversation, line, status_of_turns) == AfterLine::leave) break;
        clear_interrupt();
    }
    return is_interactive ? 0 : status_of_turns;
}

// Only the answer goes to standard output.
int answer_once(Conversation& conversation, const std::string& question) {
    ReplyWriter writer;
    conversation.ask(question, [&](const text::ReplyPiece& piece) {
        if (piece.kind == text::ReplyPiece::Kind::content) writer.answer(piece.text);
        if (piece.kind == text::ReplyPiece::Kind::tool_call) writer.aside(tool_call_line(piece));
        return !writer.is_reader_gone();
    });
    writer.end_line();
    throw_if_interrupted();
    return 0;
}

int run_chat(const ChatOptions& options) {
    LoadedModel model = load_model(options.model, true);
    Conversation conversation(model, conversation_settings(options, model));
    return options.once ? answer_once(conversation, *options.once) : converse(conversation, options);
}

void describe(Command& command, ChatOptions& options) {
    add_model_options(command, options.model);
    command.add("The conversation", {{"--once", &options.once, "ask this, print only the answer, and leave", "TEXT"},
                                     {"--system", &options.system, "a system message", "TEXT"},
                                     {"--think", &options.is_thinking, "let the model think before it answers"},
                                     {"--max-tokens", &options.max_tokens, "at most N tokens an answer", "N", "", true},
                                     {"--context", &options.context_tokens,
                                      "tokens of the whole conversation [the model's, as memory allows]", "N"}});
    add_sampling_options(command, options.sampling);
}

}  // namespace

Command chat_command() {
    return make_command("chat", "A conversation in the terminal", kChatExamples, run_chat, describe);
}

}  // namespace gemmatrace::cli
