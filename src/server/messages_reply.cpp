// Messages, whole and as events.
#include "server/messages_reply.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "server/api_error.h"
#include "server/generation_options.h"
#include "server/messages_signature.h"

namespace gemmatrace::server {
namespace {

using nlohmann::ordered_json;
using PieceKind = text::ReplyPiece::Kind;

// Where clients of this dialect look for the id.
constexpr const char* kRequestIdHeader = "request-id";

ordered_json messages_usage(const RequestOutcome& outcome) {
    ordered_json usage;
    usage["input_tokens"] = outcome.prompt_tokens - outcome.cached_tokens;
    usage["cache_creation_input_tokens"] = 0;
    usage["cache_read_input_tokens"] = outcome.cached_tokens;
    usage["output_tokens"] = outcome.completion_tokens;
    return usage;
}

// stop_reason and stop_sequence; both null while the reply runs.
void set_stop_reason(ordered_json& body, const std::optional<ChoiceEnd>& end) {
    body["stop_reason"] = nullptr;
    body["stop_sequence"] = nullptr;
    if (!end) return;
    if (end->reason == ChoiceEnd::Reason::tool_calls) {
        body["stop_reason"] = "tool_use";
    } else if (end->reason == ChoiceEnd::Reason::length) {
        body["stop_reason"] = "max_tokens";
    } else if (end->stop_string) {
        body["stop_reason"] = "stop_sequence";
        body["stop_sequence"] = *end->stop_string;
    } else {
        body["stop_reason"] = "end_turn";
    }
}

// As it starts: without text, thought or input.
ordered_json empty_block(const text::ReplyPiece& piece) {
    ordered_json block;
    switch (piece.kind) {
        case PieceKind::content:
            block["type"] = "text";
            block["text"] = "";
            break;
        case PieceKind::reasoning:
            block["type"] = "thinking";
            block["thinking"] = "";
            block["signature"] = "";
            break;
        case PieceKind::tool_call:
            block["type"] = "tool_use";
            block["id"] = random_id("toolu_");
            block["name"] = piece.name;
            block["input"] = ordered_json::object();
            break;
    }
    return block;
}

// Knows which block is open; the forms write what starts, fills and stops one.
class MessagesReplyBase : public DialectReply {
  public:
    MessagesReplyBase(const MessagesRequest& request, std::string request_id, std::shared_ptr<ResponseWriter> writer,
                      OutcomeListener on_outcome)
        : DialectReply(std::move(writer), 1, std::move(on_outcome)),
          request_id_(std::move(request_id)),
          id_(random_id("msg_")),
          model_(request.model),
          hides_thoughts_(request.hides_thoughts) {}

  protected:
    virtual void start_block(ordered_json block) = 0;
    virtual void fill_block(const text::ReplyPiece& piece) = 0;
    virtual void stop_block(const std::string& signature) = 0;  // of a thinking block; otherwise empty
    virtual void finish() = 0;

    void add_piece(int32_t, const text::ReplyPiece& piece) override {
        if (open_kind_ != piece.kind) {
            stop_open_block();
            start_block(empty_block(piece));
            open_kind_ = piece.kind;
            has_blocks_ = true;
        }
        if (piece.kind == PieceKind::reasoning && hides_thoughts_) {
            hidden_thought_ += piece.text;
        } else {
            fill_block(piece);
        }
        if (piece.kind == PieceKind::tool_call) stop_open_block();  // it came whole
    }

    void add_end(int32_t, const ChoiceEnd& end) override {
        is_cancelled_ = end.reason == ChoiceEnd::Reason::cancelled;
        if (is_cancelled_) return;
        if (!has_blocks_) {
            start_block(empty_block({PieceKind::content, {}, {}, {}}));
            open_kind_ = PieceKind::content;
        }
        stop_open_block();
        end_ = end;
    }

    void close() override {
        if (!is_cancelled_) return finish();
        fail(Error(ErrorCode::not_ready, "the request was ended before its answer was whole", {},
                   "try again in a moment"));
    }

    ordered_json message_json(ordered_json content, ordered_json usage) const {
        ordered_json message;
        message["id"] = id_;
        message["type"] = "message";
        message["role"] = "assistant";
        message["model"] = model_;
        message["content"] = std::move(content);
        set_stop_reason(message, end_);
        message["usage"] = std::move(usage);
        return message;
    }

    const std::optional<ChoiceEnd>& end() const { return end_; }
    const std::string& request_id() const { return request_id_; }
    void send_error(const Error& error) { writer().send(error_response(error, Dialect::anthropic, request_id_)); }

  private:
    void stop_open_block() {
        if (!open_kind_) return;
        std::string signature;
        if (open_kind_ == PieceKind::reasoning) {
            signature = thinking_signature(std::exchange(hidden_thought_, {}), hides_thoughts_);
        }
        open_kind_.reset();
        stop_block(signature);
    }

    std::string request_id_;
    std::string id_;
    std::string model_;
    bool hides_thoughts_;
    std::optional<PieceKind> open_kind_;
    bool has_blocks_ = false;
    std::string hidden_thought_;
    std::optional<ChoiceEnd> end_;
    bool is_cancelled_ = false;
};

class WholeMessagesReply : public MessagesReplyBase {
  public:
    using MessagesReplyBase::MessagesReplyBase;

  protected:
    void start_block(ordered_json block) override { content_.push_back(std::move(block)); }

    void fill_block(const text::ReplyPiece& piece) override {
        ordered_json& block = content_.back();
        if (piece.kind == PieceKind::tool_call) {
            block["input"] = parse_json(piece.arguments, "the call's arguments", ErrorCode::internal);
        } else {
            const char* member = piece.kind == PieceKind::content ? "text" : "thinking";
            block[member].get_ref<std::string&>() += piece.text;
        }
    }

    void stop_block(const std::string& signature) override {
        if (!signature.empty()) content_.back()["signature"] = signature;
    }

    void finish() override {
        HttpResponse response;
        response.headers.emplace_back(kRequestIdHeader, request_id());
        response.body = dump_json(message_json(std::move(content_), messages_usage(outcome())));
        writer().send(std::move(response));
    }

    void fail(const Error& error) override { send_error(error); }

  private:
    ordered_json content_ = ordered_json::array();
};

class StreamedMessagesReply : public MessagesReplyBase {
  public:
    StreamedMessagesReply(const MessagesRequest& request, std::string request_id,
                          std::shared_ptr<ResponseWriter> writer, OutcomeListener on_outcome)
        : MessagesReplyBase(request, std::move(request_id), std::move(writer), std::move(on_outcome)),
          prompt_tokens_(static_cast<int64_t>(request.job.request.prompt_ids.size())) {}

  protected:
    void open() override {
        HttpResponse response = event_stream_head();
        response.headers.emplace_back(kRequestIdHeader, request_id());
        writer().start(std::move(response));
        is_open_ = true;
    }

    // The first event has to tell what was read from the cache, so it comes no earlier.
    void add_placed(int32_t, int64_t cached_tokens) override { start_message(cached_tokens); }

    void start_block(ordered_json block) override {
        start_message(0);
        ordered_json start = block_event("content_block_start");
        start["content_block"] = std::move(block);
        writer().write(named_text(start));
    }

    void fill_block(const text::ReplyPiece& piece) override {
        switch (piece.kind) {
            case PieceKind::content:
                return write_delta("text_delta", "text", piece.text);
            case PieceKind::reasoning:
                return write_delta("thinking_delta", "thinking", piece.text);
            case PieceKind::tool_call:
                return write_delta("input_json_delta", "partial_json", piece.arguments);
        }
    }

    void stop_block(const std::string& signature) override {
        if (!signature.empty()) write_delta("signature_delta", "signature", signature);
        writer().write(named_text(block_event("content_block_stop")));
        ++index_;
    }

    void finish() override {
        ordered_json delta = event("message_delta");
        set_stop_reason(delta["delta"], end());
        delta["usage"] = messages_usage(outcome());
        writer().write(named_text(delta) + named_text(event("message_stop")));
        writer().end();
    }

    void fail(const Error& error) override {
        if (!is_open_) return send_error(error);
        writer().write(named_text(error_body(error, Dialect::anthropic, request_id())));
        writer().end();
    }

  private:
    void start_message(int64_t cached_tokens) {
        if (has_started_) return;
        has_started_ = true;
        RequestOutcome so_far;
        so_far.prompt_tokens = prompt_tokens_;
        so_far.cached_tokens = cached_tokens;
        ordered_json start = event("message_start");
        start["message"] = message_json(ordered_json::array(), messages_usage(so_far));
        writer().write(named_text(start) + named_text(event("ping")));
    }

    static ordered_json event(const char* type) {
        ordered_json body;
        body["type"] = type;
        return body;
    }

    ordered_json block_event(const char* type) const {
        ordered_json body = event(type);
        body["index"] = index_;
        return body;
    }

    // Clients of this dialect go by the event's name, which is its type.
    static std::string named_text(const ordered_json& body) {
        return event_text(body, body["type"].get_ref<const std::string&>());
    }

    void write_delta(const char* type, const char* member, const std::string& text) {
        ordered_json body = block_event("content_block_delta");
        body["delta"]["type"] = type;
        body["delta"][member] = text;
        writer().write(named_text(body));
    }

    int64_t prompt_tokens_;
    int64_t index_ = 0;
    bool is_open_ = false;
    bool has_started_ = false;
};

}  // namespace

std::shared_ptr<DialectReply> make_messages_reply(const MessagesRequest& request, const std::string& request_id,
                                                  std::shared_ptr<ResponseWriter> writer, OutcomeListener on_outcome) {
    if (request.streams) {
        return std::make_shared<StreamedMessagesReply>(request, request_id, std::move(writer), std::move(on_outcome));
    }
    return std::make_shared<WholeMessagesReply>(request, request_id, std::move(writer), std::move(on_outcome));
}

}  // namespace gemmatrace::server
