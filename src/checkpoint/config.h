// config.json as data: the geometry of every layer, whatever the size, the age or the export form of the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace gemmatrace::checkpoint {

enum class AttentionKind { sliding, full };

// Rotary embedding of one attention kind (gemma4.md 2.3). Pair i of a head turns by position * theta^(-2i/head_dim)
// / factor for i < rotated_pairs, the other pairs do not turn.
struct RopeSpec {
    double theta = 10000.0;
    int32_t rotated_pairs = 0;
    double factor = 1.0;
};

// Mixture of experts beside the dense MLP of a layer.
struct MoeSpec {
    int32_t experts = 0;
    int32_t top_k = 0;
    int32_t ff = 0;
};

// Everything that one layer's code needs to know; no code asks for a model's name.
struct LayerSpec {
    AttentionKind attention = AttentionKind::sliding;
    int32_t q_heads = 0;
    int32_t kv_heads = 0;
    int32_t head_dim = 0;
    int32_t window = 0;      // keys a query sees with itself; 0: all before it
    bool k_eq_v = false;     // values are the raw key projection
    int32_t kv_layer = 0;    // layer whose keys and values are read: the own index, or the donor's
    bool shares_kv = false;  // kv_layer is another layer; no k/v projections here
    int32_t ff = 0;
    std::optional<MoeSpec> moe;
};

struct ModelConfig {
    std::string model_type;     // of the file's top level, e.g. "gemma4", "gemma4_unified", "gemma4_text"
    bool is_text_only = false;  // a text export: no media towers, no placeholder rule
    int32_t hidden_size = 0;
    int32_t vocab_size = 0;
    int32_t ple_dim = 0;  // 0: no per-layer embeddings
    int32_t ple_vocab_size = 0;
    double rms_norm_eps = 1e-6;
    std::optional<double> final_softcap;
    int64_t max_position_embeddings = 0;
    int32_t sliding_window = 0;
    RopeSpec sliding_rope;
    RopeSpec full_rope;
    std::vector<LayerSpec> layers;
    bool tie_word_embeddings = true;
    std::string dtype;  // the checkpoint's own, e.g. "bfloat16"; may be empty
    int32_t pad_token_id = 0;
    std::optional<int32_t> bos_token_id;
    std::vector<int32_t> eos_token_ids;    // of config.json; generation_config.json overrides them
    std::vector<int32_t> media_token_ids;  // image, audio, video placeholders: they read the row of pad (gemma4.md 2.1)

    const RopeSpec& rope(AttentionKind kind) const { return kind == AttentionKind::full ? full_rope : sliding_rope; }
};

// Builds the table from a parsed config.json the way Transformers 5.13 understands it (gemma4.md 1.2): absent keys take
// its defaults, unknown keys are ignored, wrong types and contradictions are errors that name the field.
// Throws Error(corrupt) for a broken document, Error(unsupported) for a model or option this program does not run.
ModelConfig parse_config(const nlohmann::ordered_json& document, const std::string& file_name);

// Reads `directory/config.json`.
ModelConfig load_config(const std::filesystem::path& directory);

// generation_config.json; all fields optional. Without the file, eos ids come from config.json.
struct GenerationConfig {
    bool do_sample = false;
    std::optional<double> temperature;
    std::optional<int32_t> top_k;
    std::optional<double> top_p;
    std::optional<double> min_p;
    std::vector<int32_t> eos_token_ids;
    std::vector<int32_t> suppress_tokens;
};

// Reads `directory/generation_config.json` if present. Ids outside the vocabulary are Error(mismatch).
GenerationConfig load_generation_config(const std::filesystem::path& directory, const ModelConfig& config);

}  // namespace gemmatrace::checkpoint
