// Pieces to items and events.
#include "server/responses_reply.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/json.h"
#include "server/api_error.h"
#include "server/generation_options.h"
#include "server/responses_items.h"
#include "server/token_text.h"

namespace gemmatrace::server {
namespace {

using nlohmann::ordered_json;

int64_t unix_seconds() {
    return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

ordered_json responses_usage(const RequestOutcome& outcome) {
    ordered_json usage;
    usage["input_tokens"] = outcome.prompt_tokens;
    usage["input_tokens_details"]["cached_tokens"] = outcome.cached_tokens;
    usage["input_tokens_details"]["cache_write_tokens"] = 0;
    usage["output_tokens"] = outcome.completion_tokens;
    usage["output_tokens_details"]["reasoning_tokens"] = outcome.reasoning_tokens;
    usage["total_tokens"] = outcome.prompt_tokens + outcome.completion_tokens;
    return usage;
}

// Of the few words that the published types have for the error of a failed response.
const char* failure_code(int status) {
    if (status == 429) return "rate_limit_exceeded";
    return status < 500 ? "invalid_prompt" : "server_error";
}

class ResponsesReply : public DialectReply {
  public:
    ResponsesReply(const Service& service, ResponseStore& store, ResponsesRequest request, std::string request_id,
                   std::shared_ptr<ResponseWriter> writer, OutcomeListener on_outcome)
        : DialectReply(std::move(writer), 1, std::move(on_outcome)),
          service_(service),
          store_(store),
          request_(std::move(request)),
          request_id_(std::move(request_id)),
          id_(random_id("resp_")),
          created_at_(unix_seconds()) {}

  protected:
    void open() override {
        if (!request_.streams) return;
        HttpResponse head = event_stream_head();
        is_started_ = true;
        for (const char* name : {"response.created", "response.in_progress"}) {
            ordered_json event;
            event["response"] = response("in_progress");
            head.body += numbered(name, std::move(event));
        }
        writer().start(std::move(head));
    }

    void add_token(int32_t, const TokenText& token) override {
        if (token.role != text::TokenRole::content || token.token.is_end) return;
        if (request_.shows_logprobs) logprobs_.push_back(chat_logprob(service_.tokenizer, token.token));
    }

    void add_piece(int32_t, const text::ReplyPiece& piece) override {
        switch (piece.kind) {
            case text::ReplyPiece::Kind::content:
                if (open_ != Open::message) open_message();
                add_text(piece.text);
                break;
            case text::ReplyPiece::Kind::reasoning:
                if (open_ != Open::reasoning) open_reasoning();
                add_thought(piece.text);
                break;
            case text::ReplyPiece::Kind::tool_call:
                add_call(piece);
                break;
        }
    }

    void add_end(int32_t, const ChoiceEnd& end) override {
        end_ = end.reason;
        if (end_ == ChoiceEnd::Reason::cancelled) return;
        // A client finds a message, a call or the reason for neither.
        const bool is_cut = end_ == ChoiceEnd::Reason::length;
        if (output_.empty() || (!is_cut && !has_answer_)) open_message();
        close_item(is_cut ? "incomplete" : "completed");
    }

    void close() override {
        if (end_ == ChoiceEnd::Reason::cancelled) {
            fail(Error(ErrorCode::not_ready, "the request was ended before its answer was whole", {},
                       "try again in a moment"));
            return;
        }
        const bool is_cut = end_ == ChoiceEnd::Reason::length;
        ordered_json whole = response(is_cut ? "incomplete" : "completed");
        if (request_.is_stored) keep(whole);
        if (!request_.streams) {
            HttpResponse answer;
            answer.body = dump_json(whole);
            writer().send(std::move(answer));
            return;
        }
        ordered_json event;
        event["response"] = std::move(whole);
        emit(is_cut ? "response.incomplete" : "response.completed", std::move(event));
        writer().end();
    }

    // Both SDKs raise the first event as an API error; the second ends the response as the dialect has it.
    void fail(const Error& error) override {
        if (!is_started_) {
            writer().send(error_response(error, Dialect::openai, request_id_));
            return;
        }
        const ordered_json inner = error_body(error, Dialect::openai, request_id_)["error"];
        ordered_json event = inner;
        event.erase("type");
        event["error"] = inner;
        emit("error", std::move(event));
        close_item("incomplete");
        ordered_json failed = response("failed");
        failed["error"]["code"] = failure_code(http_status(error));
        failed["error"]["message"] = inner["message"];
        ordered_json last;
        last["response"] = std::move(failed);
        emit("response.failed", std::move(last));
        writer().end();
    }

  private:
    enum class Open { nothing, message, reasoning };

    std::string numbered(const char* name, ordered_json data) {
        ordered_json event;
        event["type"] = name;
        event["sequence_number"] = sequence_number_++;
        event.update(data);
        return event_text(event, name);
    }

    void emit(const char* name, ordered_json data) {
        if (is_started_) writer().write(numbered(name, std::move(data)));
    }

    // About the item that is the last one.
    void emit_of_item(const char* name, const char* key, ordered_json value, bool is_of_part) {
        if (!is_started_) return;
        ordered_json data;
        data["item_id"] = output_.back()["id"];
        data["output_index"] = output_.size() - 1;
        if (is_of_part) data["content_index"] = 0;
        data[key] = std::move(value);
        emit(name, std::move(data));
    }

    void emit_item(const char* name, const ordered_json& item) {
        if (!is_started_) return;
        ordered_json data;
        data["output_index"] = output_.size() - 1;
        data["item"] = item;
        emit(name, std::move(data));
    }

    ordered_json response(const char* status) const {
        const bool is_running = std::string_view(status) == "in_progress";
        ordered_json body;
        body["id"] = id_;
        body["object"] = "response";
        body["created_at"] = created_at_;
        body["status"] = status;
        body["completed_at"] = nullptr;
        if (std::string_view(status) == "completed") body["completed_at"] = unix_seconds();
        body["error"] = nullptr;
        body["incomplete_details"] = nullptr;
        if (std::string_view(status) == "incomplete") body["incomplete_details"]["reason"] = "max_output_tokens";
        body.update(request_.settings);
        body["output"] = output_;
        body["usage"] = nullptr;
        if (!is_running) body["usage"] = responses_usage(outcome());
        return body;
    }

    void keep(const ordered_json& whole) {
        std::vector<std::string> item_ids;
        for (const ordered_json& item : output_) item_ids.push_back(item["id"].get<std::string>());
        store_.put(id_, {dump_json(whole), dump_json(request_.items)}, std::move(item_ids));
    }

    ordered_json text_part() const {
        ordered_json part;
        part["type"] = "output_text";
        part["text"] = text_;
        part["annotations"] = ordered_json::array();
        part["logprobs"] = shown_logprobs_;
        return part;
    }

    ordered_json thought_part() const {
        ordered_json part;
        part["type"] = "reasoning_text";
        part["text"] = text_;
        return part;
    }

    void open_message() {
        close_item("completed");
        open_ = Open::message;
        has_answer_ = true;
        shown_logprobs_ = ordered_json::array();
        ordered_json item;
        item["id"] = random_id("msg_");
        item["type"] = "message";
        item["status"] = "in_progress";
        item["role"] = "assistant";
        item["content"] = ordered_json::array();
        output_.push_back(item);
        emit_item("response.output_item.added", item);
        emit_of_item("response.content_part.added", "part", text_part(), true);
    }

    void add_text(const std::string& text) {
        text_ += text;
        ordered_json fresh = std::exchange(logprobs_, ordered_json::array());
        for (const ordered_json& entry : fresh) shown_logprobs_.push_back(entry);
        if (!is_started_) return;
        ordered_json data;
        data["item_id"] = output_.back()["id"];
        data["output_index"] = output_.size() - 1;
        data["content_index"] = 0;
        data["delta"] = text;
        data["logprobs"] = std::move(fresh);
        emit("response.output_text.delta", std::move(data));
    }

    void open_reasoning() {
        close_item("completed");
        open_ = Open::reasoning;
        ordered_json item;
        item["id"] = random_id("rs_");
        item["type"] = "reasoning";
        item["status"] = "in_progress";
        item["summary"] = ordered_json::array();
        item["content"] = ordered_json::array();
        output_.push_back(item);
        emit_item("response.output_item.added", item);
        emit_of_item("response.content_part.added", "part", thought_part(), true);
    }

    void add_thought(const std::string& text) {
        text_ += text;
        emit_of_item("response.reasoning_text.delta", "delta", text, true);
    }

    // Ends the message or the reasoning that is open, if one is.
    void close_item(const char* status) {
        if (open_ == Open::nothing) return;
        const bool is_message = open_ == Open::message;
        ordered_json part = is_message ? text_part() : thought_part();
        ordered_json& item = output_.back();
        item["status"] = status;
        item["content"].push_back(part);
        if (!is_message && request_.carries_thoughts) {
            item["encrypted_content"] = std::string(kCarriedThought) + text_;
        }
        if (is_message && is_started_) {
            ordered_json data;
            data["item_id"] = item["id"];
            data["output_index"] = output_.size() - 1;
            data["content_index"] = 0;
            data["text"] = text_;
            data["logprobs"] = shown_logprobs_;
            emit("response.output_text.done", std::move(data));
        } else {
            emit_of_item("response.reasoning_text.done", "text", text_, true);
        }
        emit_of_item("response.content_part.done", "part", std::move(part), true);
        emit_item("response.output_item.done", item);
        open_ = Open::nothing;
        text_.clear();
    }

    void add_call(const text::ReplyPiece& piece) {
        close_item("completed");
        has_answer_ = true;
        const ResponsesFunction* function = request_.tools.of_prompt(piece.name);
        ordered_json item;
        item["id"] = random_id("fc_");
        item["type"] = "function_call";
        item["status"] = "in_progress";
        item["call_id"] = random_id("call_");
        item["name"] = function == nullptr ? piece.name : function->name;
        if (function != nullptr && !function->name_space.empty()) item["namespace"] = function->name_space;
        item["arguments"] = "";
        output_.push_back(item);
        emit_item("response.output_item.added", item);
        emit_of_item("response.function_call_arguments.delta", "delta", piece.arguments, false);
        output_.back()["arguments"] = piece.arguments;
        output_.back()["status"] = "completed";
        if (is_started_) {
            ordered_json data;
            data["item_id"] = item["id"];
            data["output_index"] = output_.size() - 1;
            data["name"] = item["name"];
            data["arguments"] = piece.arguments;
            emit("response.function_call_arguments.done", std::move(data));
        }
        emit_item("response.output_item.done", output_.back());
    }

    const Service& service_;
    ResponseStore& store_;
    ResponsesRequest request_;
    std::string request_id_;
    std::string id_;
    int64_t created_at_;
    int64_t sequence_number_ = 0;
    bool is_started_ = false;  // as a stream
    ordered_json output_ = ordered_json::array();
    Open open_ = Open::nothing;                            // the last of `output_`, while it grows
    std::string text_;                                     // of the open item
    ordered_json logprobs_ = ordered_json::array();        // of tokens whose text has not been shown
    ordered_json shown_logprobs_ = ordered_json::array();  // of the open message
    bool has_answer_ = false;                              // a message or a call
    ChoiceEnd::Reason end_ = ChoiceEnd::Reason::stop;
};

}  // namespace

std::shared_ptr<DialectReply> make_responses_reply(const Service& service, ResponseStore& store,
                                                   ResponsesRequest request, const std::string& request_id,
                                                   std::shared_ptr<ResponseWriter> writer, OutcomeListener on_outcome) {
    return std::make_shared<ResponsesReply>(service, store, std::move(request), request_id, std::move(writer),
                                            std::move(on_outcome));
}

}  // namespace gemmatrace::server
