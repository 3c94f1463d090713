// The listener that turns tokens into pieces.
#include "server/generation.h"

#include <utility>

#include "engine/stop_matcher.h"

namespace gemmatrace::server {
namespace {

class ChoiceListener : public engine::RequestListener {
  public:
    ChoiceListener(const Service& service, const GenerationJob& job, int32_t choice, std::shared_ptr<ReplySink> sink)
        : choice_(choice),
          sink_(std::move(sink)),
          wants_tokens_(job.request.top_logprobs.has_value()),
          shows_end_(job.shows_end),
          is_single_call_(job.is_single_call),
          stops_(job.stop_strings) {
        if (job.is_chat) {
            parser_.emplace(service.tokenizer, job.request.prompt_ids,
                            text::ReplyOptions{.parses_tool_calls = job.parses_tool_calls});
        } else {
            plain_.emplace(service.tokenizer, true);
        }
    }

    void on_placed(int64_t cached_tokens) override { sink_->on_placed(choice_, cached_tokens); }

    void on_prompt(const std::vector<engine::GeneratedToken>& tokens) override { sink_->on_prompt(choice_, tokens); }

    bool on_token(const engine::GeneratedToken& token) override {
        pieces_.clear();
        text::TokenRole role = text::TokenRole::control;
        if (!token.is_end || shows_end_) {
            if (parser_) {
                role = parser_->push(token.id, pieces_);
            } else {
                role = text::TokenRole::content;
                add_plain(plain_->push(token.id));
            }
        }
        if (role == text::TokenRole::reasoning) ++reasoning_tokens_;
        if (wants_tokens_) sink_->on_token(choice_, {token, role});
        show();
        return !stops_.match() && !(has_called_ && is_single_call_);
    }

    void on_finish(engine::FinishReason reason, const engine::RequestStatistics& statistics) override {
        if (!stops_.match()) {
            pieces_.clear();
            if (parser_) {
                parser_->finish(pieces_);
            } else {
                add_plain(plain_->finish());
            }
            show();
        }
        if (!stops_.match()) say(text::ReplyPiece::Kind::content, stops_.finish());
        ChoiceEnd end;
        end.stop_string = stops_.match();
        end.reasoning_tokens = reasoning_tokens_;
        end.statistics = statistics;
        if (reason == engine::FinishReason::cancelled) {
            end.reason = ChoiceEnd::Reason::cancelled;
        } else if (reason == engine::FinishReason::length && !end.stop_string) {
            end.reason = ChoiceEnd::Reason::length;
        } else {
            end.reason = has_called_ ? ChoiceEnd::Reason::tool_calls : ChoiceEnd::Reason::stop;
        }
        sink_->on_end(choice_, end);
    }

    void on_error(const Error& error, const engine::RequestStatistics&) override { sink_->on_error(choice_, error); }

  private:
    void add_plain(std::string text) {
        if (!text.empty()) pieces_.push_back({text::ReplyPiece::Kind::content, std::move(text), {}, {}});
    }

    void say(text::ReplyPiece::Kind kind, std::string text) {
        if (!text.empty()) sink_->on_piece(choice_, {kind, std::move(text), {}, {}});
    }

    // Stop strings are looked for in the content alone; what they hold back comes before anything of another kind.
    void show() {
        for (text::ReplyPiece& piece : pieces_) {
            if (stops_.match() || (has_called_ && is_single_call_)) return;
            if (piece.kind == text::ReplyPiece::Kind::content) {
                say(piece.kind, stops_.push(piece.text));
                continue;
            }
            if (piece.kind == text::ReplyPiece::Kind::tool_call) {
                say(text::ReplyPiece::Kind::content, stops_.finish());
                has_called_ = true;
            }
            sink_->on_piece(choice_, piece);
        }
    }

    int32_t choice_;
    std::shared_ptr<ReplySink> sink_;
    bool wants_tokens_;
    bool shows_end_;
    bool is_single_call_;
    engine::StopMatcher stops_;
    std::optional<text::ReplyParser> parser_;
    std::optional<text::StreamingDetokenizer> plain_;
    std::vector<text::ReplyPiece> pieces_;
    int64_t reasoning_tokens_ = 0;
    bool has_called_ = false;
};

}  // namespace

std::shared_ptr<Generation> Generation::start(const Service& service, const std::vector<GenerationJob>& jobs,
                                              const std::shared_ptr<ReplySink>& sink) {
    std::vector<engine::Engine::Submission> choices;
    for (const GenerationJob& job : jobs) {
        for (int32_t choice = 0; choice < job.choices; ++choice) {
            engine::Request request = job.request;
            request.sampling.seed += static_cast<uint64_t>(choice);
            if (job.make_filter) request.filter = job.make_filter(request.prompt_ids);
            const auto number = static_cast<int32_t>(choices.size());
            choices.push_back({std::move(request), std::make_shared<ChoiceListener>(service, job, number, sink)});
        }
    }
    std::shared_ptr<Generation> generation(new Generation(*service.engine));
    generation->ids_ = service.engine->submit(std::move(choices));
    return generation;
}

void Generation::cancel() {
    for (const engine::RequestId id : ids_) engine_.cancel(id);
}

}  // namespace gemmatrace::server
