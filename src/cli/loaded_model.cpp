// Opening a checkpoint and writing prompts for it.
#include "cli/loaded_model.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/checkpoint_source.h"
#include "cli/devices.h"

namespace gemmatrace::cli {
namespace {

bool has_tokenizer(const std::filesystem::path& checkpoint) {
    std::error_code failure;
    return std::filesystem::exists(checkpoint / "tokenizer.json", failure);
}

}  // namespace

double seconds_between(Clock::time_point start, Clock::time_point end) {
    return std::chrono::duration<double>(end - start).count();
}

PromptWriter::PromptWriter(const std::filesystem::path& checkpoint, const checkpoint::ModelConfig& config)
    : checkpoint_(checkpoint), tokenizer_(text::Tokenizer::load(checkpoint)), bos_id_(tokenizer_.bos_id()) {
    if (!bos_id_) bos_id_ = config.bos_token_id;
    if (tokenizer_.vocab_size() > config.vocab_size) {
        throw Error(
            ErrorCode::mismatch,
            fmt::format("the tokenizer has {} ids, the model only {}", tokenizer_.vocab_size(), config.vocab_size),
            {{"file", (checkpoint / "tokenizer.json").string()}, {"field", "vocab_size"}},
            "take tokenizer.json and config.json from the same checkpoint");
    }
}

std::vector<int32_t> PromptWriter::raw(std::string_view text) const {
    std::vector<int32_t> ids = tokenizer_.encode(text);
    const bool has_bos = bos_id_ && !ids.empty() && ids.front() == *bos_id_;
    if (bos_id_ && !has_bos) ids.insert(ids.begin(), *bos_id_);
    return ids;
}

std::vector<int32_t> PromptWriter::chat(const nlohmann::ordered_json& messages, bool is_thinking) {
    if (!template_) template_.emplace(text::ChatTemplate::load(checkpoint_));
    const nlohmann::ordered_json variables = {{"messages", messages},
                                              {"tools", nullptr},
                                              {"documents", nullptr},
                                              {"enable_thinking", is_thinking},
                                              {"add_generation_prompt", true}};
    return tokenizer_.encode(template_->render(variables, text::special_token_variables(checkpoint_)));
}

LoadedModel load_model(const ModelOptions& options, bool needs_tokenizer) {
    const std::filesystem::path checkpoint = find_checkpoint(options.checkpoint, options.may_pull);
    const auto start = Clock::now();  // fetching is not loading
    LoadedModel loaded;
    loaded.source = open_backend(options, checkpoint);
    const checkpoint::ModelConfig& config = loaded.source->config();
    loaded.defaults = checkpoint::load_generation_config(checkpoint, config);
    if (needs_tokenizer || has_tokenizer(checkpoint)) loaded.prompts.emplace(checkpoint, config);
    loaded.load_seconds = seconds_between(start, Clock::now());
    return loaded;
}

nlohmann::ordered_json memory_report(const engine::Backend& backend) {
    const engine::BackendFacts use = backend.facts();
    struct rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    return {{"mapped_weight_bytes", use.mapped_weight_bytes},
            {"converted_weight_bytes", use.converted_weight_bytes},
            {"workspace_bytes", use.workspace_bytes},
            {"kv_cache_bytes", backend.slot_bytes(backend.limits().context_tokens)},
            {"peak_resident_bytes", static_cast<int64_t>(usage.ru_maxrss) * 1024}};
}

double rate(size_t tokens, double seconds) { return seconds > 0.0 ? static_cast<double>(tokens) / seconds : 0.0; }

std::string speed_line(size_t prompt_tokens, double prefill_seconds, size_t new_tokens, double decode_seconds) {
    return fmt::format("{} prompt tokens in {:.2f} s ({:.0f}/s), {} tokens in {:.2f} s ({:.1f}/s)", prompt_tokens,
                       prefill_seconds, rate(prompt_tokens, prefill_seconds), new_tokens, decode_seconds,
                       rate(new_tokens, decode_seconds));
}

}  // namespace gemmatrace::cli
