// Chat answers, whole and in chunks.
#include "server/chat_reply.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/json.h"
#include "server/api_error.h"
#include "server/generation_options.h"
#include "server/token_text.h"

namespace gemmatrace::server {
namespace {

using nlohmann::ordered_json;

int64_t seconds_since_1970() {
    return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

ordered_json tool_call_json(const text::ReplyPiece& piece) {
    ordered_json call;
    call["id"] = random_id("call_");
    call["type"] = "function";
    call["function"]["name"] = piece.name;
    call["function"]["arguments"] = piece.arguments;
    return call;
}

class ChatReplyBase : public DialectReply {
  public:
    ChatReplyBase(const Service& service, const ChatRequest& chat, std::string request_id,
                  std::shared_ptr<ResponseWriter> writer, OutcomeListener on_outcome)
        : DialectReply(std::move(writer), chat.job.choices, std::move(on_outcome)),
          service_(service),
          request_id_(std::move(request_id)),
          id_(random_id("chatcmpl-")),
          created_(seconds_since_1970()),
          model_(chat.model),
          shows_logprobs_(chat.shows_logprobs),
          includes_usage_(chat.includes_usage) {}

  protected:
    ordered_json head(const char* object) const {
        ordered_json body;
        body["id"] = id_;
        body["object"] = object;
        body["created"] = created_;
        body["model"] = model_;
        return body;
    }

    const Service& service_;
    std::string request_id_;
    std::string id_;
    int64_t created_;
    std::string model_;
    bool shows_logprobs_;
    bool includes_usage_;
};

class WholeChatReply : public ChatReplyBase {
  public:
    WholeChatReply(const Service& service, const ChatRequest& chat, std::string request_id,
                   std::shared_ptr<ResponseWriter> writer, OutcomeListener on_outcome)
        : ChatReplyBase(service, chat, std::move(request_id), std::move(writer), std::move(on_outcome)),
          choices_(static_cast<size_t>(chat.job.choices)) {}

  protected:
    struct Choice {
        std::string content;
        std::string reasoning;
        ordered_json tool_calls = ordered_json::array();
        ordered_json logprobs = ordered_json::array();
        std::string finish_reason;
    };

    void add_token(int32_t choice, const TokenText& token) override {
        if (token.role != text::TokenRole::content || token.token.is_end) return;
        at(choice).logprobs.push_back(chat_logprob(service_.tokenizer, token.token));
    }

    void add_piece(int32_t choice, const text::ReplyPiece& piece) override {
        switch (piece.kind) {
            case text::ReplyPiece::Kind::content:
                at(choice).content += piece.text;
                break;
            case text::ReplyPiece::Kind::reasoning:
                at(choice).reasoning += piece.text;
                break;
            case text::ReplyPiece::Kind::tool_call:
                at(choice).tool_calls.push_back(tool_call_json(piece));
                break;
        }
    }

    void add_end(int32_t choice, const ChoiceEnd& end) override {
        at(choice).finish_reason = finish_reason_name(end.reason);
    }

    void close() override {
        ordered_json body = head("chat.completion");
        ordered_json& list = body["choices"] = ordered_json::array();
        for (Choice& choice : choices_) {
            ordered_json entry;
            entry["index"] = list.size();
            ordered_json& message = entry["message"];
            message["role"] = "assistant";
            message["content"] = nullptr;
            if (!choice.content.empty() || choice.tool_calls.empty()) message["content"] = choice.content;
            message["refusal"] = nullptr;
            if (!choice.reasoning.empty()) message["reasoning_content"] = choice.reasoning;
            if (!choice.tool_calls.empty()) message["tool_calls"] = std::move(choice.tool_calls);
            entry["logprobs"] = nullptr;
            if (shows_logprobs_) {
                entry["logprobs"]["content"] = std::move(choice.logprobs);
                entry["logprobs"]["refusal"] = nullptr;
            }
            entry["finish_reason"] = choice.finish_reason;
            list.push_back(std::move(entry));
        }
        body["usage"] = usage_json(outcome());
        HttpResponse response;
        response.body = dump_json(body);
        writer().send(std::move(response));
    }

    void fail(const Error& error) override { writer().send(error_response(error, Dialect::openai, request_id_)); }

  private:
    Choice& at(int32_t choice) { return choices_[static_cast<size_t>(choice)]; }

    std::vector<Choice> choices_;
};

class StreamedChatReply : public ChatReplyBase {
  public:
    StreamedChatReply(const Service& service, const ChatRequest& chat, std::string request_id,
                      std::shared_ptr<ResponseWriter> writer, OutcomeListener on_outcome)
        : ChatReplyBase(service, chat, std::move(request_id), std::move(writer), std::move(on_outcome)),
          choices_(static_cast<size_t>(chat.job.choices)) {}

  protected:
    struct Choice {
        ordered_json logprobs = ordered_json::array();  // of tokens whose text has not been sent
        int32_t tool_calls = 0;
    };

    void open() override {
        HttpResponse response = event_stream_head();
        for (size_t choice = 0; choice < choices_.size(); ++choice) {
            ordered_json delta;
            delta["role"] = "assistant";
            delta["content"] = "";
            response.body += chunk(static_cast<int32_t>(choice), std::move(delta), nullptr);
        }
        writer().start(std::move(response));
    }

    void add_token(int32_t choice, const TokenText& token) override {
        if (token.role != text::TokenRole::content || token.token.is_end) return;
        at(choice).logprobs.push_back(chat_logprob(service_.tokenizer, token.token));
    }

    void add_piece(int32_t choice, const text::ReplyPiece& piece) override {
        ordered_json delta;
        switch (piece.kind) {
            case text::ReplyPiece::Kind::content:
                delta["content"] = piece.text;
                break;
            case text::ReplyPiece::Kind::reasoning:
                delta["reasoning_content"] = piece.text;
                break;
            case text::ReplyPiece::Kind::tool_call: {
                ordered_json call = tool_call_json(piece);
                ordered_json indexed;
                indexed["index"] = at(choice).tool_calls++;
                indexed.update(call);
                delta["tool_calls"] = ordered_json::array({std::move(indexed)});
                break;
            }
        }
        writer().write(chunk(choice, std::move(delta), nullptr));
    }

    void add_end(int32_t choice, const ChoiceEnd& end) override {
        writer().write(chunk(choice, ordered_json::object(), std::string(finish_reason_name(end.reason))));
    }

    void close() override {
        std::string last;
        if (includes_usage_) {
            ordered_json body = head("chat.completion.chunk");
            body["choices"] = ordered_json::array();
            body["usage"] = usage_json(outcome());
            last = event_text(body);
        }
        writer().write(last + "data: [DONE]\n\n");
        writer().end();
    }

    void fail(const Error& error) override {
        if (!is_open_) {
            writer().send(error_response(error, Dialect::openai, request_id_));
            return;
        }
        writer().write(event_text(error_body(error, Dialect::openai, request_id_)) + "data: [DONE]\n\n");
        writer().end();
    }

  private:
    Choice& at(int32_t choice) { return choices_[static_cast<size_t>(choice)]; }

    std::string chunk(int32_t choice, ordered_json delta, const ordered_json& finish_reason) {
        is_open_ = true;
        ordered_json entry;
        entry["index"] = choice;
        const bool is_content = delta.contains("content") || !finish_reason.is_null();
        entry["delta"] = std::move(delta);
        entry["logprobs"] = nullptr;
        if (shows_logprobs_ && is_content && !at(choice).logprobs.empty()) {
            entry["logprobs"]["content"] = std::exchange(at(choice).logprobs, ordered_json::array());
            entry["logprobs"]["refusal"] = nullptr;
        }
        entry["finish_reason"] = finish_reason;
        ordered_json body = head("chat.completion.chunk");
        body["choices"] = ordered_json::array({std::move(entry)});
        if (includes_usage_) body["usage"] = nullptr;
        return event_text(body);
    }

    std::vector<Choice> choices_;
    bool is_open_ = false;
};

}  // namespace

ordered_json usage_json(const RequestOutcome& outcome) {
    ordered_json usage;
    usage["prompt_tokens"] = outcome.prompt_tokens;
    usage["completion_tokens"] = outcome.completion_tokens;
    usage["total_tokens"] = outcome.prompt_tokens + outcome.completion_tokens;
    usage["prompt_tokens_details"]["cached_tokens"] = outcome.cached_tokens;
    usage["completion_tokens_details"]["reasoning_tokens"] = outcome.reasoning_tokens;
    return usage;
}

std::shared_ptr<DialectReply> make_chat_reply(const Service& service, const ChatRequest& chat,
                                              const std::string& request_id, std::shared_ptr<ResponseWriter> writer,
                                              OutcomeListener on_outcome) {
    if (chat.streams) {
        return std::make_shared<StreamedChatReply>(service, chat, request_id, std::move(writer), std::move(on_outcome));
    }
    return std::make_shared<WholeChatReply>(service, chat, request_id, std::move(writer), std::move(on_outcome));
}

}  // namespace gemmatrace::server
