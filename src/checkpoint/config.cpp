// From config.json to one LayerSpec a layer, with the defaults and the rules of Transformers 5.13.
#include "checkpoint/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/json.h"
#include "base/printable.h"
#include "checkpoint/fields.h"
#include "checkpoint/layer_overrides.h"
#include "checkpoint/rope_fields.h"

namespace gemmatrace::checkpoint {
namespace {

constexpr int32_t kMostLayers = 1024;
constexpr int32_t kLargestDimension = 1 << 24;
constexpr Bounds<double> kPositiveReal{1e-30, 1e30};

// What follows from the model type alone; the numbers are defaults of the config classes.
struct Family {
    std::string_view model_type;
    bool is_unified;  // no per-layer embeddings and no experts in its code
    bool is_text_only;
    int32_t sliding_window;
    int32_t max_position_embeddings;
};
constexpr std::array kFamilies{
    Family{"gemma4", false, false, 512, 131072},
    Family{"gemma4_text", false, true, 512, 131072},
    Family{"gemma4_unified", true, false, 1024, 262144},
    Family{"gemma4_unified_text", true, true, 1024, 262144},
};

const Family& find_family(const Fields& top) {
    constexpr std::string_view kRemedy =
        "supported are gemma4 and gemma4_unified, and their text exports gemma4_text "
        "and gemma4_unified_text";
    const auto model_type = top.optional_text("model_type");
    if (!model_type) throw top.error(ErrorCode::corrupt, "model_type", "is missing", std::string(kRemedy));
    for (const Family& family : kFamilies) {
        if (family.model_type == *model_type) return family;
    }
    const bool is_drafter = model_type->starts_with("gemma4") && model_type->ends_with("_assistant");
    throw top.error(
        ErrorCode::unsupported, "model_type",
        fmt::format("is \"{}\"{}", printable(*model_type), is_drafter ? ", a drafter, not a model of its own" : ""),
        std::string(kRemedy));
}

// Options that are valid in Transformers but would need arithmetic that this program does not have.
void refuse_unsupported(const Fields& fields) {
    if (fields.find("quantization_config") != nullptr) {
        throw fields.error(ErrorCode::unsupported, "quantization_config", "is set",
                           "use the checkpoint with bf16, f16 or f32 weights");
    }
}

void refuse_unsupported_text(const Fields& text) {
    refuse_unsupported(text);
    const std::string activation = text.text("hidden_activation", "gelu_pytorch_tanh");
    if (activation != "gelu_pytorch_tanh") {
        throw text.error(ErrorCode::unsupported, "hidden_activation", fmt::format("is \"{}\"", printable(activation)),
                         "only gelu_pytorch_tanh is supported");
    }
    if (text.boolean("attention_bias", false)) {
        throw text.error(ErrorCode::unsupported, "attention_bias", "is true", "no Gemma 4 has attention biases");
    }
    const auto bidirectional = text.optional_text("use_bidirectional_attention");
    if (bidirectional && *bidirectional == "all") {
        throw text.error(ErrorCode::unsupported, "use_bidirectional_attention", "is \"all\"",
                         "only causal text models can be decoded");
    }
    if (bidirectional && *bidirectional != "vision") {
        throw text.error(ErrorCode::corrupt, "use_bidirectional_attention",
                         fmt::format("is \"{}\"", printable(*bidirectional)), "it must be \"vision\", \"all\" or null");
    }
}

// layer_types, or five sliding to one full without it; the last layer is full whatever is written.
std::vector<AttentionKind> read_layer_types(const Fields& text) {
    const auto layer_count = text.integer("num_hidden_layers", 30, {1, kMostLayers});
    std::vector<AttentionKind> kinds;
    const auto* listed = text.find("layer_types");
    if (listed == nullptr) {
        for (int64_t layer = 0; layer < layer_count; ++layer) {
            kinds.push_back((layer + 1) % 6 == 0 ? AttentionKind::full : AttentionKind::sliding);
        }
    } else {
        if (!listed->is_array() || static_cast<int64_t>(listed->size()) != layer_count) {
            throw text.error(ErrorCode::corrupt, "layer_types",
                             fmt::format("must be a list of {} names, one a layer", layer_count),
                             "make it agree with num_hidden_layers");
        }
        for (const auto& entry : *listed) {
            if (entry == "full_attention") {
                kinds.push_back(AttentionKind::full);
            } else if (entry == "sliding_attention") {
                kinds.push_back(AttentionKind::sliding);
            } else {
                throw text.error(ErrorCode::unsupported, "layer_types",
                                 fmt::format("has {} for layer {}", printable(dump_json(entry)), kinds.size()),
                                 "a layer may be sliding_attention or full_attention");
            }
        }
    }
    kinds.back() = AttentionKind::full;
    return kinds;
}

// Head sizes of both kinds.
struct Heads {
    int32_t q_heads = 0;
    bool k_eq_v = false;
    int32_t global_head_dim = 0;  // the key as 5.13 sees it; 0 means head_dim
    LayerShape sliding;
    LayerShape full;
};

bool has_kind(const std::vector<AttentionKind>& kinds, AttentionKind kind) {
    return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

// Fills the full layers' sizes from the newer per-layer form where the flat keys are absent, then demands that both
// forms say the same of every layer.
void apply_layer_overrides(const Fields& text, const std::vector<AttentionKind>& kinds, Heads& heads) {
    const auto shapes = read_layer_overrides(text, kinds.size(), heads.sliding);
    if (!shapes) return;
    const LayerShape& last = shapes->back();  // the last layer is always a full one
    if (!text.contains("global_head_dim")) heads.full.head_dim = heads.global_head_dim = last.head_dim;
    if (heads.k_eq_v && text.find("num_global_key_value_heads") == nullptr) heads.full.kv_heads = last.kv_heads;
    for (size_t layer = 0; layer < kinds.size(); ++layer) {
        const LayerShape& flat = kinds[layer] == AttentionKind::full ? heads.full : heads.sliding;
        if (shapes->at(layer) == flat) continue;
        throw text.error(
            ErrorCode::unsupported, "per_layer_config",
            fmt::format("gives layer {} {} kv heads of {}, the other keys give {} of {}", layer,
                        shapes->at(layer).kv_heads, shapes->at(layer).head_dim, flat.kv_heads, flat.head_dim),
            "all layers of a kind must have one geometry, and both forms must agree");
    }
}

void check_heads(const Fields& text, int32_t q_heads, const LayerShape& shape) {
    if (shape.head_dim % 2 != 0) {
        throw text.error(ErrorCode::corrupt, "head_dim",
                         fmt::format("gives heads of {}, which RoPE cannot halve", shape.head_dim),
                         "head sizes must be even");
    }
    if (q_heads % shape.kv_heads != 0) {
        throw text.error(ErrorCode::corrupt, "num_attention_heads",
                         fmt::format("is {}, which {} kv heads do not divide", q_heads, shape.kv_heads),
                         "correct the head counts, or fetch the file again");
    }
    if (int64_t{q_heads} * shape.head_dim > kLargestDimension) {
        throw text.error(ErrorCode::corrupt, "num_attention_heads",
                         fmt::format("makes {} heads of {}: more than any model has", q_heads, shape.head_dim),
                         "correct the head counts, or fetch the file again");
    }
}

Heads read_heads(const Fields& text, const std::vector<AttentionKind>& kinds) {
    Heads heads;
    heads.q_heads = text.dimension("num_attention_heads", 8);
    heads.k_eq_v = text.boolean("attention_k_eq_v", false);
    heads.sliding = {text.dimension("head_dim", 256), text.dimension("num_key_value_heads", 4)};
    heads.global_head_dim = static_cast<int32_t>(text.integer("global_head_dim", 512, {0, kLargestDimension}));
    heads.full = heads.sliding;
    if (heads.global_head_dim != 0) heads.full.head_dim = heads.global_head_dim;
    const auto global_kv_heads = text.optional_integer("num_global_key_value_heads", {1, kLargestDimension});
    if (heads.k_eq_v && global_kv_heads) heads.full.kv_heads = static_cast<int32_t>(*global_kv_heads);
    if (heads.k_eq_v && !global_kv_heads && text.find("per_layer_config") == nullptr) {
        throw text.error(ErrorCode::corrupt, "num_global_key_value_heads",
                         "is missing, but attention_k_eq_v asks for it", "state the kv heads of the full layers");
    }
    apply_layer_overrides(text, kinds, heads);
    check_heads(text, heads.q_heads, heads.full);
    if (has_kind(kinds, AttentionKind::sliding)) check_heads(text, heads.q_heads, heads.sliding);
    return heads;
}

std::optional<MoeSpec> read_moe(const Fields& text) {
    if (!text.boolean("enable_moe_block", false)) return std::nullopt;
    MoeSpec moe;
    const auto required = [&](std::string_view key) {
        const auto value = text.optional_integer(key, {1, kLargestDimension});
        if (value) return static_cast<int32_t>(*value);
        throw text.error(ErrorCode::corrupt, key, "is missing, but enable_moe_block is true", "state it");
    };
    moe.experts = required("num_experts");
    moe.top_k = required("top_k_experts");
    moe.ff = required("moe_intermediate_size");
    if (moe.top_k > moe.experts) {
        throw text.error(ErrorCode::corrupt, "top_k_experts",
                         fmt::format("is {}, more than the {} experts", moe.top_k, moe.experts),
                         "correct it, or fetch the file again");
    }
    return moe;
}

// The last layer before `first_shared` of the same kind: the one whose keys and values are read.
int32_t find_donor(const Fields& text, const std::vector<AttentionKind>& kinds, int32_t first_shared, int32_t layer) {
    for (int32_t donor = first_shared - 1; donor >= 0; --donor) {
        if (kinds[donor] == kinds[layer]) return donor;
    }
    throw text.error(ErrorCode::corrupt, "num_kv_shared_layers",
                     fmt::format("is {}: layer {} would read keys and values, but no layer before {} is of its kind",
                                 kinds.size() - first_shared, layer, first_shared),
                     "correct it or layer_types, or fetch the file again");
}

std::vector<LayerSpec> read_layers(const Fields& text, const Family& family, const std::vector<AttentionKind>& kinds,
                                   const Heads& heads) {
    const auto layer_count = static_cast<int32_t>(kinds.size());
    const auto shared = static_cast<int32_t>(text.integer("num_kv_shared_layers", 0, {0, layer_count}));
    const bool is_double_wide = text.boolean("use_double_wide_mlp", false);
    const int32_t ff = text.dimension("intermediate_size", 9216);
    const int32_t window = text.dimension("sliding_window", family.sliding_window);
    const auto moe = family.is_unified ? std::nullopt : read_moe(text);
    std::vector<LayerSpec> layers;
    for (int32_t index = 0; index < layer_count; ++index) {
        const bool is_full = kinds[index] == AttentionKind::full;
        const LayerShape& shape = is_full ? heads.full : heads.sliding;
        LayerSpec layer;
        layer.attention = kinds[index];
        layer.q_heads = heads.q_heads;
        layer.kv_heads = shape.kv_heads;
        layer.head_dim = shape.head_dim;
        layer.window = is_full ? 0 : window;
        layer.k_eq_v = is_full && heads.k_eq_v;
        layer.shares_kv = index >= layer_count - shared;
        layer.kv_layer = layer.shares_kv ? find_donor(text, kinds, layer_count - shared, index) : index;
        layer.ff = ff * (is_double_wide && layer.shares_kv ? 2 : 1);
        layer.moe = moe;
        layers.push_back(layer);
    }
    return layers;
}

void read_rope_tables(const Fields& text, const std::vector<AttentionKind>& kinds, const Heads& heads,
                      ModelConfig& config) {
    const bool has_sliding = has_kind(kinds, AttentionKind::sliding);
    const int32_t derived = config.hidden_size / heads.q_heads;  // what 5.13 takes when global_head_dim is 0
    const int32_t table_dim = heads.global_head_dim != 0 ? heads.global_head_dim : derived;
    const int32_t head_dim = heads.sliding.head_dim;
    config.full_rope = read_rope(text, AttentionKind::full, {heads.full.head_dim, head_dim, table_dim}, has_sliding);
    if (has_sliding)
        config.sliding_rope = read_rope(text, AttentionKind::sliding, {head_dim, head_dim, head_dim}, true);
}

void read_per_layer_embeddings(const Fields& text, const Family& family, ModelConfig& config) {
    if (family.is_unified) return;
    config.ple_dim = static_cast<int32_t>(text.integer("hidden_size_per_layer_input", 256, {0, kLargestDimension}));
    if (config.ple_dim == 0) return;
    config.ple_vocab_size = text.dimension("vocab_size_per_layer_input", 262144);
    if (config.ple_vocab_size < config.vocab_size) {
        throw text.error(
            ErrorCode::unsupported, "vocab_size_per_layer_input",
            fmt::format("is {}: tokens up to {} would have no row", config.ple_vocab_size, config.vocab_size - 1),
            "the per-layer table must cover the vocabulary");
    }
    if (int64_t{config.ple_dim} * static_cast<int64_t>(config.layers.size()) > kLargestDimension) {
        throw text.error(ErrorCode::corrupt, "hidden_size_per_layer_input",
                         fmt::format("is {}: more than any model has", config.ple_dim), "fetch the file again");
    }
}

// Placeholders of the conditional models, and pad, whose row they read. Ids outside the vocabulary cannot occur in a
// prompt, so small checkpoints that keep the published ids have no placeholders.
void read_token_ids(const Fields& top, const Fields& text, ModelConfig& config) {
    constexpr Bounds<int64_t> kIds{std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
    if (!config.is_text_only) {
        constexpr std::array<std::pair<std::string_view, int32_t>, 3> kPlaceholders{
            {{"image_token_id", 258880}, {"audio_token_id", 258881}, {"video_token_id", 258884}}};
        for (const auto& [key, published] : kPlaceholders) {
            const auto id = top.contains(key) ? top.optional_integer(key, kIds) : published;
            if (id && *id >= 0 && *id < config.vocab_size) config.media_token_ids.push_back(static_cast<int32_t>(*id));
        }
    }
    const auto pad = text.contains("pad_token_id") ? text.optional_integer("pad_token_id", kIds) : 0;
    const bool is_row = pad && *pad >= 0 && *pad < config.vocab_size;
    if (!is_row && (pad || !config.media_token_ids.empty())) {
        throw text.error(ErrorCode::mismatch, "pad_token_id",
                         pad ? fmt::format("is {}, but the vocabulary has {} rows", *pad, config.vocab_size)
                             : "is null, but media placeholders read its row",
                         "state the id of the padding token");
    }
    config.pad_token_id = static_cast<int32_t>(pad.value_or(0));
    const auto bos = text.contains("bos_token_id") ? text.optional_integer("bos_token_id", kIds) : 2;
    if (bos) config.bos_token_id = static_cast<int32_t>(*bos);
    config.eos_token_ids = top.token_ids("eos_token_id");
    if (config.eos_token_ids.empty()) config.eos_token_ids = text.token_ids("eos_token_id");
    if (config.eos_token_ids.empty() && !text.contains("eos_token_id")) config.eos_token_ids = {1};
}

std::string read_dtype(const Fields& fields) {
    const auto dtype = fields.optional_text("dtype");
    return dtype ? *dtype : fields.optional_text("torch_dtype").value_or("");
}

}  // namespace

ModelConfig parse_config(const nlohmann::ordered_json& document, const std::string& file_name) {
    static const nlohmann::ordered_json kNoTextConfig = nlohmann::ordered_json::object();
    const Fields top(document, file_name, "");
    const Family& family = find_family(top);
    refuse_unsupported(top);
    const auto* nested = family.is_text_only ? &document : top.find("text_config");
    const Fields text(nested == nullptr ? kNoTextConfig : *nested, file_name, family.is_text_only ? "" : "text_config");
    refuse_unsupported_text(text);

    ModelConfig config;
    config.model_type = family.model_type;
    config.is_text_only = family.is_text_only;
    config.hidden_size = text.dimension("hidden_size", 2304);
    config.vocab_size = text.dimension("vocab_size", 262144);
    config.rms_norm_eps = text.real("rms_norm_eps", 1e-6, kPositiveReal);
    config.final_softcap = text.optional_real("final_logit_softcapping", kPositiveReal);
    config.max_position_embeddings = text.integer("max_position_embeddings", family.max_position_embeddings,
                                                  {1, std::numeric_limits<int32_t>::max()});
    config.sliding_window = text.dimension("sliding_window", family.sliding_window);
    const auto kinds = read_layer_types(text);
    const Heads heads = read_heads(text, kinds);
    config.layers = read_layers(text, family, kinds, heads);
    read_rope_tables(text, kinds, heads, config);
    read_per_layer_embeddings(text, family, config);
    config.tie_word_embeddings = top.boolean("tie_word_embeddings", true);
    config.dtype = read_dtype(top);
    if (config.dtype.empty()) config.dtype = read_dtype(text);
    read_token_ids(top, text, config);
    return config;
}

ModelConfig load_config(const std::filesystem::path& directory) {
    const auto path = directory / "config.json";
    std::error_code problem;
    if (!std::filesystem::exists(path, problem)) {
        throw Error(ErrorCode::not_found, "there is no config.json", {{"file", path.string()}},
                    "give the folder of a checkpoint in the Hugging Face layout");
    }
    return parse_config(read_json_file(path), path.string());
}

}  // namespace gemmatrace::checkpoint
