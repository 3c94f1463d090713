// One turn: render, reuse what the slot already holds, generate, remember.
#include "cli/conversation.h"

#include <algorithm>

#include "base/error.h"
#include "base/host_memory.h"
#include "cli/interrupt.h"

namespace gemmatrace::cli {
namespace {

constexpr int64_t kMinContextTokens = 2048;

nlohmann::ordered_json message(const char* role, const std::string& content) {
    return {{"role", role}, {"content", content}};
}

}  // namespace

int64_t default_context_tokens(const engine::BackendSource& source) {
    int64_t tokens = source.most_context_tokens();
    const size_t budget = available_memory_bytes() / 4;
    while (tokens > kMinContextTokens && source.slot_bytes(tokens) > budget) tokens /= 2;
    return tokens;
}

Conversation::Conversation(LoadedModel& model, const ConversationSettings& settings)
    : model_(model), settings_(settings), backend_(model.source->make(1, settings.context_tokens)) {}

nlohmann::ordered_json Conversation::messages() const {
    auto all = nlohmann::ordered_json::array();
    if (!settings_.system.empty()) all.push_back(message("system", settings_.system));
    all.insert(all.end(), turns_.begin(), turns_.end());
    return all;
}

// Keeps the slot when the prompt goes on from it, clears it otherwise. Returns the ids that are still to be run.
std::span<const int32_t> Conversation::prepare_slot(std::span<const int32_t> prompt_ids) {
    // The lengths differ after a turn that failed on its way.
    const bool goes_on = slot_ids_.size() < prompt_ids.size() &&
                         static_cast<int64_t>(slot_ids_.size()) == backend_->length(kOnlySlot) &&
                         std::equal(slot_ids_.begin(), slot_ids_.end(), prompt_ids.begin());
    if (!goes_on) {
        backend_->trim(kOnlySlot, 0);
        slot_ids_.clear();
    }
    return prompt_ids.subspan(slot_ids_.size());
}

Turn Conversation::ask(const std::string& question, const std::function<bool(const text::ReplyPiece&)>& sink) {
    auto asked_messages = messages();
    asked_messages.push_back(message("user", question));
    const std::vector<int32_t> prompt_ids = model_.prompts->chat(asked_messages, settings_.is_thinking);
    const auto prompt_tokens = static_cast<int64_t>(prompt_ids.size());
    engine::check_context(prompt_tokens, 1, settings_.context_tokens);

    Turn turn;
    turn.prompt_tokens = prompt_ids.size();
    engine::GenerationRequest request;
    const auto new_ids = prepare_slot(prompt_ids);
    turn.reused_tokens = slot_ids_.size();
    request.prompt_ids.assign(new_ids.begin(), new_ids.end());
    request.max_tokens = std::min(settings_.max_tokens, settings_.context_tokens - prompt_tokens);
    request.sampling = settings_.sampling;
    request.sampling.seed += asked_++;  // so that asking again may bring another answer
    request.stop_ids = model_.defaults.eos_token_ids;
    request.suppress_ids = model_.defaults.suppress_tokens;
    request.should_stop = is_interrupted;

    std::string answer;
    bool is_wanted = true;
    text::ReplyParser parser(model_.prompts->tokenizer(), prompt_ids);
    std::vector<text::ReplyPiece> pieces;
    const auto show_pieces = [&] {
        for (const text::ReplyPiece& piece : pieces) {
            if (piece.kind == text::ReplyPiece::Kind::content) answer += piece.text;
            is_wanted = sink(piece) && is_wanted;
        }
        pieces.clear();
    };
    turn.result = engine::generate(*backend_, kOnlySlot, request, [&](int32_t id) {
        parser.push(id, pieces);
        show_pieces();
        return is_wanted;
    });
    parser.finish(pieces);
    show_pieces();

    // The slot holds the prompt and most of the reply: exactly as many ids as it says.
    slot_ids_ = prompt_ids;
    slot_ids_.insert(slot_ids_.end(), turn.result.token_ids.begin(), turn.result.token_ids.end());
    slot_ids_.resize(static_cast<size_t>(backend_->length(kOnlySlot)));
    if (!answer.empty()) {
        turns_.push_back(message("user", question));
        turns_.push_back(message("assistant", answer));
    }
    return turn;
}

std::string Conversation::take_back() {
    if (turns_.size() < 2) return {};
    auto question = turns_[turns_.size() - 2]["content"].get<std::string>();
    turns_.erase(turns_.size() - 1);
    turns_.erase(turns_.size() - 1);
    return question;
}

void Conversation::clear() { turns_.clear(); }

}  // namespace gemmatrace::cli
