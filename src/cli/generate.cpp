// `gemmatrace generate`: one prompt in, text or one JSON object out.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/loaded_model.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "engine/generator.h"
#include "engine/stop_matcher.h"
#include "text/reply_parser.h"

namespace gemmatrace::cli {
namespace {

constexpr int64_t kDefaultMaxTokens = 256;

constexpr const char* kGenerateExamples =
    "Examples:\n"
    "  gemmatrace generate models/demo --chat \"What is the capital of France?\"\n"
    "  gemmatrace generate models/demo --prompt \"The opposite of hot is\" --max-tokens 8 --temperature 0\n"
    "  gemmatrace generate models/demo < article.txt                 the whole input is the prompt\n"
    "  gemmatrace generate models/demo --ids 2,105,4368 --json --top-logits 5\n"
    "  gemmatrace generate models/demo --chat \"A story, please.\" --temperature 0.8 --seed 7 --stop \"The end\"\n"
    "\n"
    "The text goes to standard output as it comes, a line about the speed to standard error. Ctrl-C ends with 130.";

struct GenerateOptions {
    ModelOptions model;
    SamplingOptions sampling;
    std::optional<std::string> prompt;
    std::optional<std::string> chat;
    std::optional<std::string> ids;
    std::string system;
    bool is_thinking = false;
    std::optional<int64_t> max_tokens;
    bool ignores_eos = false;
    std::vector<std::string> stop_strings;
    int32_t top_logits = 0;
    bool keeps_control_tokens = false;
    bool is_json = false;
};

// What generated ids become: shown as they come, or collected for the JSON object.
class Reply {
  public:
    // prompts: null without a tokenizer; the ids themselves are shown then.
    Reply(const GenerateOptions& options, const PromptWriter* prompts, std::span<const int32_t> prompt_ids)
        : is_shown_(!options.is_json), stops_(options.stop_strings) {
        if (prompts == nullptr) return;
        if (options.chat && !options.keeps_control_tokens) {
            parser_.emplace(prompts->tokenizer(), prompt_ids);
        } else {
            plain_.emplace(prompts->tokenizer(), !options.keeps_control_tokens);
        }
        vocab_size_ = prompts->tokenizer().vocab_size();
    }

    // False when generation should end: a stop string was met, or nobody reads any more.
    bool push(int32_t id) {
        if (parser_) {
            parser_->push(id, pieces_);
            take_pieces();
        } else if (plain_) {
            if (id < vocab_size_) answer(stops_.push(plain_->push(id)));
        } else if (is_shown_) {
            show(fmt::format("{}{}", is_first_id_ ? "" : " ", id));
            is_first_id_ = false;
        }
        return !stops_.match() && !is_reader_gone_;
    }

    void finish() {
        if (parser_) {
            parser_->finish(pieces_);
            take_pieces();
        }
        if (plain_) answer(stops_.push(plain_->finish()));
        answer(stops_.finish());
        if (is_shown_ && !ends_with_newline_) show("\n");
    }

    bool has_text() const { return parser_ || plain_; }
    bool has_parts() const { return parser_.has_value(); }
    const std::string& text() const { return text_; }
    const std::string& thought() const { return thought_; }
    const nlohmann::ordered_json& tool_calls() const { return tool_calls_; }
    const std::optional<std::string>& stop_string() const { return stops_.match(); }
    bool is_reader_gone() const { return is_reader_gone_; }

  private:
    void take_pieces() {
        for (const text::ReplyPiece& piece : pieces_) {
            switch (piece.kind) {
                case text::ReplyPiece::Kind::content:
                    answer(stops_.push(piece.text));
                    break;
                case text::ReplyPiece::Kind::reasoning:
                    thought_ += piece.text;
                    break;
                case text::ReplyPiece::Kind::tool_call:
                    tool_calls_.push_back({{"name", piece.name}, {"arguments", piece.arguments}});
                    if (is_shown_) show(tool_call_line(piece));
                    break;
            }
        }
        pieces_.clear();
    }

    void answer(const std::string& text) {
        if (text.empty()) return;
        if (is_shown_) show(text);
        text_ += text;
    }

    void show(std::string_view text) {
        ends_with_newline_ = text.ends_with('\n');
        if (!is_reader_gone_) is_reader_gone_ = !write_out(text);
    }

    bool is_shown_;
    engine::StopMatcher stops_;
    std::optional<text::ReplyParser> parser_;          // chat: thinking and calls apart from the answer
    std::optional<text::StreamingDetokenizer> plain_;  // everything is text
    int32_t vocab_size_ = 0;
    std::string text_;
    std::string thought_;
    nlohmann::ordered_json tool_calls_ = nlohmann::ordered_json::array();
    std::vector<text::ReplyPiece> pieces_;  // just read
    bool is_first_id_ = true;
    bool ends_with_newline_ = false;
    bool is_reader_gone_ = false;
};

std::vector<int32_t> prompt_ids(const GenerateOptions& options, LoadedModel& model) {
    if (options.ids) return parse_ids(*options.ids, "--ids");
    if (options.chat) {
        auto messages = nlohmann::ordered_json::array();
        if (!options.system.empty()) messages.push_back({{"role", "system"}, {"content", options.system}});
        messages.push_back({{"role", "user"}, {"content", *options.chat}});
        return model.prompts->chat(messages, options.is_thinking);
    }
    if (options.prompt) return model.prompts->raw(*options.prompt);
    const std::string text = read_standard_input(
        "give a prompt with --prompt TEXT, --chat TEXT or --ids LIST, or pipe one in: echo text | gemmatrace generate "
        "…");
    if (text.empty()) {
        throw Error(ErrorCode::bad_request, "standard input is empty", {{"field", "prompt"}},
                    "pipe the prompt in; for an empty one say --prompt \"\"");
    }
    return model.prompts->raw(text);
}

// The default asks for what is left when that is less; a number the user gave is never cut.
int64_t tokens_to_generate(const GenerateOptions& options, int64_t prompt_tokens, int64_t context_tokens) {
    const int64_t wanted =
        options.max_tokens.value_or(std::clamp<int64_t>(context_tokens - prompt_tokens, 1, kDefaultMaxTokens));
    if (wanted >= 0) engine::check_context(prompt_tokens, wanted, context_tokens);
    return wanted;
}

// Nine digits read every bit of a float back. JSON has no infinity: null stands for it.
std::string top_logits_json(const engine::GenerationResult& result) {
    std::string json = "[";
    for (const auto& step : result.top_logits) {
        json += json.size() > 1 ? ",[" : "[";
        for (size_t rank = 0; rank < step.size(); ++rank) {
            const auto& [id, logit] = step[rank];
            json += fmt::format("{}[{},{}]", rank == 0 ? "" : ",", id,
                                std::isfinite(logit) ? fmt::format("{:.9g}", logit) : "null");
        }
        json += "]";
    }
    return json + "]";
}

nlohmann::ordered_json stop_reason(const engine::GenerationResult& result, const Reply& reply,
                                   const LoadedModel& model) {
    if (reply.stop_string()) return {{"type", "string"}, {"text", *reply.stop_string()}};
    if (!result.stop_id) return nullptr;
    nlohmann::ordered_json reason = {{"type", "token"}, {"id", *result.stop_id}};
    if (model.prompts && *result.stop_id < model.prompts->tokenizer().vocab_size()) {
        reason["token"] = model.prompts->tokenizer().token(*result.stop_id);
    }
    return reason;
}

std::string result_json(const GenerateOptions& options, const LoadedModel& model,
                        const engine::GenerationRequest& request, const engine::GenerationResult& result,
                        const Reply& reply, const engine::Backend& backend) {
    const engine::BackendFacts facts = backend.facts();
    const bool is_stopped = result.stop_id || reply.stop_string();
    nlohmann::ordered_json json;
    json["prompt_ids"] = request.prompt_ids;
    json["token_ids"] = result.token_ids;
    json["text"] = reply.has_text() ? nlohmann::ordered_json(reply.text()) : nlohmann::ordered_json(nullptr);
    if (reply.has_parts()) {
        json["thinking"] = reply.thought();
        json["tool_calls"] = reply.tool_calls();
    }
    json["finish_reason"] = is_stopped ? "stop" : "length";
    json["stop_reason"] = stop_reason(result, reply, model);
    const bool is_sampled = request.sampling.temperature > 0.0;
    if (is_sampled) {
        json["sampling"]["temperature"] = request.sampling.temperature;
        json["sampling"]["top_k"] = request.sampling.top_k;
        json["sampling"]["top_p"] = request.sampling.top_p;
        json["sampling"]["min_p"] = request.sampling.min_p;
    } else {
        json["sampling"] = "greedy";
    }
    json["seed"] = is_sampled || options.sampling.seed ? nlohmann::ordered_json(request.sampling.seed)
                                                       : nlohmann::ordered_json(nullptr);
    json["precision"] = model::precision_name(backend.limits().precision);
    json["device"] = facts.device;
    if (facts.device == "cpu") {
        json["isa"] = facts.isa;
        json["threads"] = facts.threads;
    } else {
        json["ranks"] = facts.ranks;
    }
    json["timings"] = {{"load_s", model.load_seconds},
                       {"prefill_s", result.prefill_seconds},
                       {"decode_s", result.decode_seconds},
                       {"first_token_s", model.load_seconds + result.prefill_seconds},
                       {"prompt_tokens_per_s", rate(request.prompt_ids.size(), result.prefill_seconds)},
                       {"decode_tokens_per_s", rate(result.token_ids.size(), result.decode_seconds)}};
    json["memory"] = memory_report(backend);
    std::string text = dump_json(json);
    if (options.top_logits > 0) {
        text.pop_back();  // the closing brace: the library would print floats as doubles
        text += fmt::format(",\"top_logits\":{}}}", top_logits_json(result));
    }
    return text + "\n";
}

std::string how_it_ended(const engine::GenerationResult& result, const Reply& reply, const LoadedModel& model) {
    if (reply.stop_string()) return "ended by --stop";
    if (result.stop_id) {
        const auto reason = stop_reason(result, reply, model);
        return reason.contains("token") ? "ended by " + reason["token"].get<std::string>()
                                        : fmt::format("ended by token {}", *result.stop_id);
    }
    return "ended by --max-tokens";
}

int run_generate(const GenerateOptions& options) {
    const bool needs_text = !options.ids || !options.stop_strings.empty();
    LoadedModel model = load_model(options.model, needs_text);

    engine::GenerationRequest request;
    request.sampling = sampling_parameters(options.sampling, model.defaults);
    request.prompt_ids = prompt_ids(options, model);
    if (!options.ignores_eos) request.stop_ids = model.defaults.eos_token_ids;
    request.suppress_ids = model.defaults.suppress_tokens;
    request.top_logits = options.top_logits;
    request.should_stop = is_interrupted;
    const auto prompt_tokens = static_cast<int64_t>(request.prompt_ids.size());
    request.max_tokens = tokens_to_generate(options, prompt_tokens, model.source->most_context_tokens());

    const int64_t capacity = prompt_tokens + std::max<int64_t>(request.max_tokens, 0);
    const auto backend = model.source->make(1, std::max<int64_t>(capacity, 1));
    Reply reply(options, model.prompts ? &*model.prompts : nullptr, request.prompt_ids);
    const engine::GenerationResult result =
        engine::generate(*backend, 0, request, [&](int32_t id) { return reply.push(id); });
    reply.finish();
    throw_if_interrupted();
    if (reply.is_reader_gone()) return 0;
    if (options.is_json) {
        write_out(result_json(options, model, request, result, reply, *backend));
    } else {
        write_error(fmt::format("{}, {}\n",
                                speed_line(request.prompt_ids.size(), result.prefill_seconds, result.token_ids.size(),
                                           result.decode_seconds),
                                how_it_ended(result, reply, model)));
    }
    return 0;
}

void describe(Command& command, GenerateOptions& options) {
    add_model_options(command, options.model);
    command.add(
        "The prompt (one of them; without any, standard input as --prompt)",
        {{"--prompt", &options.prompt, "raw text, after the BOS token", "TEXT", "", false, "", {"--chat", "--ids"}},
         {"--chat", &options.chat, "a user's message, through the chat template", "TEXT", "", false, "", {"--ids"}},
         {"--ids", &options.ids, "token ids, e.g. 2,105; needs no tokenizer", "LIST"},
         {"--system", &options.system, "a system message before --chat", "TEXT", "", false, "--chat"},
         {"--think", &options.is_thinking, "let the model think before it answers --chat", "", "", false, "--chat"}});
    add_sampling_options(command, options.sampling);
    command.add("Where to end",
                {{"--max-tokens", &options.max_tokens, "at most N new tokens [256, or what the context leaves]", "N"},
                 {"--stop", &options.stop_strings, "end before this text; may be given several times", "TEXT"},
                 {"--ignore-eos", &options.ignores_eos, "end-of-text tokens do not end the text"}});
    command.add("What to print",
                {{"--json", &options.is_json, "one JSON object and nothing else on standard output"},
                 {"--top-logits", &options.top_logits, "with --json: the K best logits of each step, uncapped", "K", "",
                  false, "--json"},
                 {"--raw", &options.keeps_control_tokens, "show control tokens and thinking as they come"}});
}

}  // namespace

Command generate_command() {
    return make_command("generate", "One prompt in, the model's text out", kGenerateExamples, run_generate, describe);
}

}  // namespace gemmatrace::cli
