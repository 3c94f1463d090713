// Legacy completions: several prompts, echo, and logprobs as four lists of equal length.
#include "server/completions.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "server/api_error.h"
#include "server/chat_reply.h"
#include "server/generation_options.h"
#include "server/prompt.h"
#include "server/request_fields.h"
#include "server/token_text.h"
#include "server/tool_choice.h"

namespace gemmatrace::server {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kDefaultCompletionTokens = 16;  // what the dialect's documentation says

struct CompletionRequest {
    std::vector<GenerationJob> jobs;        // one a prompt
    std::vector<std::string> prompt_texts;  // with echo
    std::string model;
    int32_t choices = 1;  // a prompt
    bool streams = false;
    bool includes_usage = false;
    bool echoes = false;
    bool shows_logprobs = false;
};

bool is_id_list(const ordered_json& value) {
    return value.is_array() && !value.empty() && value.front().is_number_integer();
}

std::vector<int32_t> read_ids(const RequestFields& fields, const ordered_json& list, int32_t vocab_size) {
    std::vector<int32_t> ids;
    for (const auto& value : list) {
        if (!value.is_number_integer()) fields.refuse("prompt", "a list mixes token ids with other values");
        const auto id = value.get<int64_t>();
        if (id < 0 || id >= vocab_size) fields.refuse("prompt", fmt::format("{} is no token id", id));
        ids.push_back(static_cast<int32_t>(id));
    }
    return ids;
}

std::vector<std::vector<int32_t>> read_prompts(const Service& service, const RequestFields& fields) {
    const ordered_json* prompt = fields.find("prompt");
    if (prompt == nullptr) fields.refuse("prompt", "is missing", "give a text or token ids");
    const int32_t vocab_size = service.engine->limits().vocab_size;
    std::vector<std::vector<int32_t>> prompts;
    const auto add = [&](const ordered_json& value) {
        if (value.is_string()) {
            prompts.push_back(raw_ids(service, value.get_ref<const std::string&>()));
        } else if (is_id_list(value)) {
            prompts.push_back(read_ids(fields, value, vocab_size));
        } else {
            fields.refuse("prompt", "a text, token ids, or a list of those is expected");
        }
        if (prompts.back().empty()) fields.refuse("prompt", "is empty", "give at least one token");
    };
    if (prompt->is_array() && !is_id_list(*prompt)) {
        const auto limit = static_cast<size_t>(service.limits.max_choices);
        if (prompt->empty()) fields.refuse("prompt", "the list is empty");
        if (prompt->size() > limit) fields.refuse("prompt", fmt::format("more than {} prompts", limit));
        for (const auto& value : *prompt) add(value);
    } else {
        add(*prompt);
    }
    return prompts;
}

CompletionRequest parse_completion_request(const Service& service, const ordered_json& body) {
    const RequestFields fields(body, "");
    CompletionRequest completion;
    completion.model = fields.text("model").value_or(service.model_id);
    service.check_model(completion.model);
    if (const auto suffix = fields.text("suffix"); suffix && !suffix->empty()) {
        throw Error(ErrorCode::unsupported, "suffix: the model cannot fill in the middle", {{"field", "suffix"}},
                    "leave it out");
    }
    completion.streams = fields.flag("stream").value_or(false);
    if (const auto* options = fields.object("stream_options")) {
        completion.includes_usage = RequestFields(*options, "stream_options").flag("include_usage").value_or(false);
    }
    completion.echoes = fields.flag("echo").value_or(false);
    completion.choices = static_cast<int32_t>(fields.whole("n", 1, service.limits.max_choices).value_or(1));
    const auto best_of = fields.whole("best_of", 1, service.limits.max_choices);
    if (best_of && *best_of != completion.choices) {
        throw Error(ErrorCode::unsupported, "best_of: choosing among more answers than n is not supported",
                    {{"field", "best_of"}}, "leave it out");
    }
    const auto logprobs = fields.whole("logprobs", 0, service.limits.max_top_logprobs);
    completion.shows_logprobs = logprobs.has_value();

    GenerationJob common;
    common.request = generation_options(service, fields);
    common.stop_strings = stop_strings(service, fields);
    common.choices = completion.choices;
    common.is_chat = false;
    if (logprobs) common.request.top_logprobs = static_cast<int32_t>(*logprobs);
    common.request.prompt_logprobs = completion.echoes && completion.shows_logprobs;
    const auto wanted = fields.whole("max_tokens", 0, INT32_MAX).value_or(kDefaultCompletionTokens);
    for (auto& ids : read_prompts(service, fields)) {
        GenerationJob job = common;
        job.request.max_tokens = reply_tokens(service, ids.size(), wanted);
        if (completion.echoes) completion.prompt_texts.push_back(service.tokenizer.decode(ids, true));
        job.request.prompt_ids = std::move(ids);
        constrain_reply(service, fields, {}, job);
        completion.jobs.push_back(std::move(job));
    }
    return completion;
}

// tokens, token_logprobs, top_logprobs and text_offset.
class LegacyLogprobs {
  public:
    void add(const text::Tokenizer& tokenizer, const engine::GeneratedToken& token, bool is_known) {
        std::string bytes = token_bytes(tokenizer, token.id);
        offsets_.push_back(offset_);
        for (const char byte : bytes) offset_ += (static_cast<unsigned char>(byte) & 0xc0) != 0x80 ? 1 : 0;
        tokens_.push_back(std::move(bytes));
        if (!is_known) {
            logprobs_.push_back(nullptr);
            top_.push_back(nullptr);
            return;
        }
        logprobs_.push_back(token.logprob);
        ordered_json top = ordered_json::object();
        for (const auto& other : token.top) {
            std::string text = token_bytes(tokenizer, other.id);
            // Two tokens of the same bytes are told apart, or one would hide the other.
            if (top.contains(text)) text = fmt::format("{} (id {})", text, other.id);
            top[text] = other.logprob;
        }
        top_.push_back(std::move(top));
    }

    bool empty() const { return tokens_.empty(); }

    ordered_json take() {
        ordered_json result;
        result["tokens"] = std::exchange(tokens_, ordered_json::array());
        result["token_logprobs"] = std::exchange(logprobs_, ordered_json::array());
        result["top_logprobs"] = std::exchange(top_, ordered_json::array());
        result["text_offset"] = std::exchange(offsets_, ordered_json::array());
        return result;
    }

  private:
    ordered_json tokens_ = ordered_json::array();
    ordered_json logprobs_ = ordered_json::array();
    ordered_json top_ = ordered_json::array();
    ordered_json offsets_ = ordered_json::array();
    int64_t offset_ = 0;
};

class CompletionReply : public DialectReply {
  public:
    CompletionReply(const RouteContext& context, const CompletionRequest& request)
        : DialectReply(context.writer, static_cast<int32_t>(request.jobs.size()) * request.choices, context.on_outcome,
                       request.choices),
          service_(context.service),
          request_id_(context.request.id),
          id_(random_id("cmpl-")),
          created_(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())),
          model_(request.model),
          streams_(request.streams),
          includes_usage_(request.includes_usage),
          shows_logprobs_(request.shows_logprobs),
          choices_(request.jobs.size() * static_cast<size_t>(request.choices)) {
        if (!request.echoes) return;
        for (size_t choice = 0; choice < choices_.size(); ++choice) {
            choices_[choice].text = request.prompt_texts[choice / static_cast<size_t>(request.choices)];
        }
    }

  protected:
    struct Choice {
        std::string text;  // that has not been sent
        LegacyLogprobs logprobs;
        ordered_json finish_reason = nullptr;
    };

    void open() override {
        if (streams_) writer().start(event_stream_head());
        is_open_ = streams_;
    }

    void add_prompt(int32_t choice, const std::vector<engine::GeneratedToken>& tokens) override {
        for (size_t index = 0; index < tokens.size(); ++index) {
            at(choice).logprobs.add(service_.tokenizer, tokens[index], index > 0);
        }
    }

    void add_token(int32_t choice, const TokenText& token) override {
        if (!token.token.is_end) at(choice).logprobs.add(service_.tokenizer, token.token, true);
    }

    void add_piece(int32_t choice, const text::ReplyPiece& piece) override {
        at(choice).text += piece.text;
        if (streams_) send_chunk(choice);
    }

    void add_end(int32_t choice, const ChoiceEnd& end) override {
        at(choice).finish_reason = finish_reason_name(end.reason);
        if (streams_) send_chunk(choice);
    }

    void close() override {
        if (!streams_) {
            ordered_json body = head();
            for (size_t choice = 0; choice < choices_.size(); ++choice) {
                body["choices"].push_back(entry(static_cast<int32_t>(choice)));
            }
            body["usage"] = usage_json(outcome());
            HttpResponse response;
            response.body = dump_json(body);
            writer().send(std::move(response));
            return;
        }
        std::string last;
        if (includes_usage_) {
            ordered_json body = head();
            body["usage"] = usage_json(outcome());
            last = event_text(body);
        }
        writer().write(last + "data: [DONE]\n\n");
        writer().end();
    }

    void fail(const Error& error) override {
        if (!is_open_) return writer().send(error_response(error, Dialect::openai, request_id_));
        writer().write(event_text(error_body(error, Dialect::openai, request_id_)) + "data: [DONE]\n\n");
        writer().end();
    }

  private:
    Choice& at(int32_t choice) { return choices_[static_cast<size_t>(choice)]; }

    ordered_json head() const {
        ordered_json body;
        body["id"] = id_;
        body["object"] = "text_completion";
        body["created"] = created_;
        body["model"] = model_;
        body["choices"] = ordered_json::array();
        return body;
    }

    ordered_json entry(int32_t choice) {
        ordered_json result;
        result["text"] = std::exchange(at(choice).text, {});
        result["index"] = choice;
        result["logprobs"] = nullptr;
        if (shows_logprobs_) result["logprobs"] = at(choice).logprobs.take();
        result["finish_reason"] = at(choice).finish_reason;
        return result;
    }

    void send_chunk(int32_t choice) {
        ordered_json body = head();
        body["choices"].push_back(entry(choice));
        if (includes_usage_) body["usage"] = nullptr;
        writer().write(event_text(body));
    }

    const Service& service_;
    std::string request_id_;
    std::string id_;
    int64_t created_;
    std::string model_;
    bool streams_;
    bool includes_usage_;
    bool shows_logprobs_;
    bool is_open_ = false;
    std::vector<Choice> choices_;
};

}  // namespace

void answer_completions(const RouteContext& context, const ordered_json& body) {
    const CompletionRequest request = parse_completion_request(context.service, body);
    const auto reply = std::make_shared<CompletionReply>(context, request);
    const auto generation = Generation::start(context.service, request.jobs, reply);
    context.writer->on_gone([generation] { generation->cancel(); });
    reply->begin();
}

}  // namespace gemmatrace::server
