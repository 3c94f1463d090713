// The slash commands of a conversation.
#pragma once

#include <string>
#include <string_view>

#include "cli/conversation.h"

namespace gemmatrace::cli {

// What the chat loop has to do after a command.
struct ChatAction {
    enum class Kind { go_on, leave, ask };

    Kind kind = Kind::go_on;
    std::string text;  // to show (go_on), or the question to ask again (ask)
};

// Carries out a line that begins with a slash. Throws Error for a command that fails; the conversation goes on.
ChatAction run_chat_command(std::string_view line, Conversation& conversation);

}  // namespace gemmatrace::cli
