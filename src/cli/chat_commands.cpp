// What /help and its siblings do.
#include "cli/chat_commands.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/json.h"

namespace gemmatrace::cli {
namespace {

constexpr std::string_view kHelp =
    "  /help            this list\n"
    "  /exit            leave (Ctrl-D does the same)\n"
    "  /clear           forget the conversation, keep the settings\n"
    "  /system TEXT     a system message for the conversation; alone: none\n"
    "  /think on|off    let the model think before it answers\n"
    "  /retry           ask the last question again\n"
    "  /save FILE       write the conversation as JSON\n"
    "  /info            settings and how much of the context is used\n"
    "A line that ends in \\ goes on in the next one; \"\"\" opens and closes a message of several lines.\n"
    "Ctrl-C stops an answer. A message that begins with a slash is written with two: //like this.\n";

std::string_view trimmed(std::string_view text) {
    const size_t first = text.find_first_not_of(" \t");
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

[[noreturn]] void fail_to_write(const std::filesystem::path& path, int failure) {
    throw Error(ErrorCode::resource, std::string("cannot write the conversation: ") + std::strerror(failure),
                {{"file", path.string()}}, "choose another place");
}

void save(const std::filesystem::path& path, const Conversation& conversation) {
    if (path.empty()) throw Error(ErrorCode::bad_request, "/save needs a file name", {}, "say /save talk.json");
    const std::string text = dump_json({{"messages", conversation.messages()}}, 2) + "\n";
    // "x": never over a file that is there.
    std::FILE* file = std::fopen(path.c_str(), "wx");
    if (file == nullptr) fail_to_write(path, errno);
    const bool is_written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    const int failure = errno;
    if (std::fclose(file) == 0 && is_written) return;
    std::remove(path.c_str());
    fail_to_write(path, failure);
}

std::string think(std::string_view argument, Conversation& conversation) {
    if (argument != "on" && argument != "off") {
        throw Error(ErrorCode::bad_request, "/think takes on or off", {}, "say /think on");
    }
    conversation.settings().is_thinking = argument == "on";
    return fmt::format("Thinking is {}.\n", argument);
}

std::string info(Conversation& conversation) {
    const ConversationSettings& settings = conversation.settings();
    const auto& sampling = settings.sampling;
    std::string text = fmt::format("{} of {} tokens of context used; thinking {}; ", conversation.used_tokens(),
                                   conversation.context_tokens(), settings.is_thinking ? "on" : "off");
    text += sampling.temperature == 0.0
                ? std::string("greedy")
                : fmt::format("temperature {:g}, top_k {}, top_p {:g}, min_p {:g}, seed {}", sampling.temperature,
                              sampling.top_k, sampling.top_p, sampling.min_p, sampling.seed);
    if (!settings.system.empty()) text += fmt::format("\nsystem: {}", settings.system);
    return text + "\n";
}

}  // namespace

ChatAction run_chat_command(std::string_view line, Conversation& conversation) {
    const size_t space = line.find_first_of(" \t\n");
    const std::string_view name = line.substr(0, space);
    const std::string_view argument = space == std::string_view::npos ? "" : trimmed(line.substr(space));
    using Kind = ChatAction::Kind;
    if (name == "/help" || name == "/?") return {Kind::go_on, std::string(kHelp)};
    if (name == "/exit" || name == "/quit" || name == "/bye") return {Kind::leave, {}};
    if (name == "/info") return {Kind::go_on, info(conversation)};
    if (name == "/think") return {Kind::go_on, think(argument, conversation)};
    if (name == "/clear") {
        conversation.clear();
        return {Kind::go_on, "The conversation is forgotten.\n"};
    }
    if (name == "/system") {
        conversation.settings().system = argument;
        return {Kind::go_on, argument.empty() ? "No system message.\n" : "The system message is set.\n"};
    }
    if (name == "/save") {
        save(std::filesystem::path(argument), conversation);
        return {Kind::go_on, fmt::format("Saved to {}.\n", argument)};
    }
    if (name == "/retry") {
        std::string question = conversation.take_back();
        if (question.empty()) throw Error(ErrorCode::bad_request, "there is no question to ask again");
        return {Kind::ask, std::move(question)};
    }
    throw Error(ErrorCode::bad_request, fmt::format("there is no command {}", name), {}, "/help lists the commands");
}

}  // namespace gemmatrace::cli
