// A checkpoint opened to generate from: the model, the tokenizer, the template and the checkpoint's own defaults.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "cli/options.h"
#include "engine/backend.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace gemmatrace::cli {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point start, Clock::time_point end);

// The tokenizer and the template that turn text into prompt ids.
class PromptWriter {
  public:
    // Throws the errors of the text room; Error(mismatch) when the tokenizer has ids the model has no rows for.
    PromptWriter(const std::filesystem::path& checkpoint, const checkpoint::ModelConfig& config);

    const text::Tokenizer& tokenizer() const { return tokenizer_; }

    // BOS and the text, control strings as the reference tokenises them; a text that begins with BOS gets no second one
    // (fault F002).
    std::vector<int32_t> raw(std::string_view text) const;

    // The conversation through the checkpoint's template, with the generation prompt. What stands in the messages never
    // becomes a control token. Loads the template at the first call.
    std::vector<int32_t> chat(const nlohmann::ordered_json& messages, bool is_thinking);

  private:
    std::filesystem::path checkpoint_;
    text::Tokenizer tokenizer_;
    std::optional<int32_t> bos_id_;
    std::optional<text::ChatTemplate> template_;
};

struct LoadedModel {
    std::unique_ptr<engine::BackendSource> source;
    checkpoint::GenerationConfig defaults;
    std::optional<PromptWriter> prompts;  // nothing: no tokenizer.json, allowed only for ids
    double load_seconds = 0.0;
};

// Finds the checkpoint (find_checkpoint) and opens everything. needs_tokenizer: a missing tokenizer.json is then
// Error(not_found); a broken one always is an error.
LoadedModel load_model(const ModelOptions& options, bool needs_tokenizer);

// Memory as numbers for a report: what the backend says, the slot when full, and the process's largest resident set.
nlohmann::ordered_json memory_report(const engine::Backend& backend);

// "12 prompt tokens in 0.05 s (240/s), 34 tokens in 0.81 s (42/s)".
std::string speed_line(size_t prompt_tokens, double prefill_seconds, size_t new_tokens, double decode_seconds);

// Tokens a second; 0 when nothing was measured.
double rate(size_t tokens, double seconds);

}  // namespace gemmatrace::cli
