// A conversation with a model: the messages so far, rendered anew each turn, and the slot that remembers their start.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/loaded_model.h"
#include "engine/generator.h"
#include "text/reply_parser.h"

namespace gemmatrace::cli {

struct ConversationSettings {
    engine::SamplingParameters sampling;
    std::string system;  // empty: no system message
    bool is_thinking = false;
    int64_t max_tokens = 0;      // of one answer
    int64_t context_tokens = 0;  // of the whole conversation
};

// What one turn brought, beside what the sink was given while it streamed.
struct Turn {
    engine::GenerationResult result;
    size_t prompt_tokens = 0;
    size_t reused_tokens = 0;  // of the prompt, found in the slot from the turn before
};

class Conversation {
  public:
    // The model must outlive the conversation.
    Conversation(LoadedModel& model, const ConversationSettings& settings);

    // Asks, streams the reply into `sink`, and keeps question and answer. `sink` answers false to stop. A turn that
    // fails or gives nothing leaves the conversation as it was. Throws Error(too_long) when the conversation no longer
    // fits, and whatever the template raises.
    Turn ask(const std::string& question, const std::function<bool(const text::ReplyPiece&)>& sink);

    // Takes back the last question with its answer and returns the question; empty when there is none.
    std::string take_back();
    void clear();

    ConversationSettings& settings() { return settings_; }
    // The system message, if any, and all questions and answers.
    nlohmann::ordered_json messages() const;
    int64_t used_tokens() const { return backend_->length(kOnlySlot); }
    int64_t context_tokens() const { return settings_.context_tokens; }

  private:
    static constexpr int32_t kOnlySlot = 0;

    std::span<const int32_t> prepare_slot(std::span<const int32_t> prompt_ids);

    LoadedModel& model_;
    ConversationSettings settings_;
    std::unique_ptr<engine::Backend> backend_;
    std::vector<int32_t> slot_ids_;  // what the slot holds
    nlohmann::ordered_json turns_ = nlohmann::ordered_json::array();
    uint64_t asked_ = 0;
};

// The context a conversation gets when the user names none: as much of the model's as its cache takes at most a quarter
// of the memory that is free now.
int64_t default_context_tokens(const engine::BackendSource& source);

}  // namespace gemmatrace::cli
