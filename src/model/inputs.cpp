// Embedding scale, placeholder rule and rotary tables in one place (gemma4.md 2.1 to 2.3).
#include "model/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/bf16.h"
#include "base/error.h"
#include "model/rope.h"

namespace gemmatrace::model {
namespace {

using checkpoint::AttentionKind;

// Head size of the first layer of a kind; 0 when the model has none.
int32_t head_dim_of(const checkpoint::ModelConfig& config, AttentionKind kind) {
    const auto layer = std::find_if(config.layers.begin(), config.layers.end(),
                                    [&](const checkpoint::LayerSpec& spec) { return spec.attention == kind; });
    return layer == config.layers.end() ? 0 : layer->head_dim;
}

// sqrt(width), rounded to bf16 where the reference keeps it as a bf16 buffer.
float root_factor(int32_t width, Precision precision) {
    const auto root = static_cast<float>(std::sqrt(static_cast<double>(width)));
    return precision == Precision::bf16 ? round_bf16(root) : root;
}

}  // namespace

InputBuilder::InputBuilder(const checkpoint::ModelConfig& config, Precision precision, TableView embedding,
                           TableView per_layer)
    : config_(config),
      precision_(precision),
      embedding_(std::move(embedding)),
      per_layer_(std::move(per_layer)),
      embedding_factor_(root_factor(config.hidden_size, precision)),
      per_layer_factor_(root_factor(config.ple_dim, precision)) {
    if (const int32_t head_dim = head_dim_of(config, AttentionKind::sliding); head_dim > 0) {
        sliding_frequencies_ = inverse_frequencies(config.sliding_rope, head_dim);
    }
    if (const int32_t head_dim = head_dim_of(config, AttentionKind::full); head_dim > 0) {
        full_frequencies_ = inverse_frequencies(config.full_rope, head_dim);
    }
}

int32_t InputBuilder::table_row(int32_t id) const {
    const auto& media = config_.media_token_ids;
    return std::find(media.begin(), media.end(), id) == media.end() ? id : config_.pad_token_id;
}

void InputBuilder::read_scaled(const TableView& table, float factor, int64_t row, std::span<float> values) const {
    table.read_row(row, values);
    for (float& value : values) {
        value *= factor;
        if (precision_ == Precision::bf16) value = round_bf16(value);
    }
}

void InputBuilder::check_ids(std::span<const int32_t> ids) const {
    const int64_t known =
        config_.ple_dim > 0 ? std::min(config_.vocab_size, config_.ple_vocab_size) : config_.vocab_size;
    for (const int32_t id : ids) {
        if (id >= 0 && id < known) continue;
        throw Error(ErrorCode::bad_request, fmt::format("token id {} is not in the vocabulary of {} tokens", id, known),
                    {}, "use the ids of this checkpoint's own tokenizer (`gemmatrace tokenize`)");
    }
}

void InputBuilder::build(std::span<const int32_t> ids, std::span<const int64_t> positions, StepInputs& inputs) const {
    build_angles(positions, inputs);
    build_rows(ids, inputs);
}

void InputBuilder::build_angles(std::span<const int64_t> positions, StepInputs& inputs) const {
    const size_t tokens = positions.size();
    const size_t sliding_dim = 2 * sliding_frequencies_.size();
    const size_t full_dim = 2 * full_frequencies_.size();
    inputs.positions.assign(positions.begin(), positions.end());
    inputs.sliding_cosines.resize(tokens * sliding_dim);
    inputs.sliding_sines.resize(tokens * sliding_dim);
    inputs.full_cosines.resize(tokens * full_dim);
    inputs.full_sines.resize(tokens * full_dim);
    for (size_t token = 0; token < tokens; ++token) {
        const auto part = [&](std::vector<float>& rows, size_t width) {
            return std::span<float>(rows).subspan(token * width, width);
        };
        rope_row(sliding_frequencies_, positions[token], precision_, part(inputs.sliding_cosines, sliding_dim),
                 part(inputs.sliding_sines, sliding_dim));
        rope_row(full_frequencies_, positions[token], precision_, part(inputs.full_cosines, full_dim),
                 part(inputs.full_sines, full_dim));
    }
}

void InputBuilder::build_rows(std::span<const int32_t> ids, StepInputs& inputs) const {
    const size_t tokens = ids.size();
    const auto hidden = static_cast<size_t>(config_.hidden_size);
    const size_t ple_width = config_.ple_dim > 0 ? static_cast<size_t>(per_layer_.columns) : 0;
    inputs.tokens = static_cast<int32_t>(tokens);
    inputs.embeddings.resize(tokens * hidden);
    inputs.per_layer_rows.resize(tokens * ple_width);
    for (size_t token = 0; token < tokens; ++token) {
        const int32_t row = table_row(ids[token]);
        const auto part = [&](std::vector<float>& rows, size_t width) {
            return std::span<float>(rows).subspan(token * width, width);
        };
        read_scaled(embedding_, embedding_factor_, row, part(inputs.embeddings, hidden));
        if (ple_width > 0) read_scaled(per_layer_, per_layer_factor_, row, part(inputs.per_layer_rows, ple_width));
    }
}

void check_room(int64_t length, size_t tokens, int64_t capacity) {
    const auto wanted = length + static_cast<int64_t>(tokens);
    if (wanted <= capacity) return;
    throw Error(ErrorCode::too_long,
                fmt::format("the sequence would have {} tokens, the slot holds {}", wanted, capacity), {},
                "shorten the prompt or ask for fewer tokens");
}

}  // namespace gemmatrace::model
