// The five published sizes as data (gemma4.md 1.1 and 1.3), written out as config.json has them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/printable.h"
#include "checkpoint/synth.h"

namespace gemmatrace::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

// The numbers in which the sizes differ; 0 stands for "not in this size".
struct PublishedSize {
    std::string_view name;
    int32_t hidden_size;
    int32_t layers;
    int32_t q_heads;
    int32_t kv_heads;
    int32_t global_kv_heads;
    int32_t ff;
    int32_t sliding_per_full;  // sliding layers before each full one
    int32_t sliding_window;
    int32_t shared_layers;
    bool has_ple;
    bool is_double_wide;
    int32_t experts;
    int32_t vision_hidden;
    bool is_unified;
};
constexpr std::array kSizes{
    PublishedSize{"E2B", 1536, 35, 8, 1, 0, 6144, 4, 512, 20, true, true, 0, 768, false},
    PublishedSize{"E4B", 2560, 42, 8, 2, 0, 10240, 5, 512, 18, true, false, 0, 768, false},
    PublishedSize{"12B", 3840, 48, 16, 8, 1, 15360, 5, 1024, 0, false, false, 0, 0, true},
    PublishedSize{"26B", 2816, 30, 16, 8, 2, 2112, 5, 1024, 0, false, false, 128, 1152, false},
    PublishedSize{"31B", 5376, 60, 32, 16, 4, 21504, 5, 1024, 0, false, false, 0, 1152, false},
};

const PublishedSize& find_size(std::string_view name) {
    const auto is_same = [&](const PublishedSize& size) {
        return std::equal(name.begin(), name.end(), size.name.begin(), size.name.end(),
                          [](char a, char b) { return std::toupper(static_cast<unsigned char>(a)) == b; });
    };
    const auto found = std::find_if(kSizes.begin(), kSizes.end(), is_same);
    if (found != kSizes.end()) return *found;
    throw Error(ErrorCode::bad_request, fmt::format("there is no published size \"{}\"", printable(name)), {},
                "the sizes are E2B, E4B, 12B, 26B and 31B");
}

bool is_full_layer(const PublishedSize& size, int32_t layer, int32_t layer_count) {
    return layer == layer_count - 1 || (layer + 1) % (size.sliding_per_full + 1) == 0;
}

// The share of KV-sharing layers that the size has, less what would leave a shared layer without a donor of its kind.
int32_t shared_layer_count(const PublishedSize& size, int32_t layer_count) {
    const auto has_donors = [&](int32_t shared) {
        for (int32_t layer = layer_count - shared; layer < layer_count; ++layer) {
            bool has_donor = false;
            for (int32_t donor = 0; donor < layer_count - shared; ++donor) {
                has_donor |= is_full_layer(size, donor, layer_count) == is_full_layer(size, layer, layer_count);
            }
            if (!has_donor) return false;
        }
        return true;
    };
    int32_t shared = layer_count * size.shared_layers / size.layers;
    while (!has_donors(shared)) --shared;
    return shared;
}

Json rope_parameters() {
    Json rope;
    rope["sliding_attention"]["rope_type"] = "default";
    rope["sliding_attention"]["rope_theta"] = 10000.0;
    rope["full_attention"]["rope_type"] = "proportional";
    rope["full_attention"]["partial_rotary_factor"] = 0.25;
    rope["full_attention"]["rope_theta"] = 1000000.0;
    return rope;
}

Json text_config(const PublishedSize& size, int32_t layer_count) {
    Json text;
    text["model_type"] = size.is_unified ? "gemma4_unified_text" : "gemma4_text";
    text["attention_bias"] = false;
    text["attention_dropout"] = 0.0;
    text["attention_k_eq_v"] = size.global_kv_heads != 0;
    text["bos_token_id"] = 2;
    text["dtype"] = "bfloat16";
    text["eos_token_id"] = 1;
    text["final_logit_softcapping"] = 30.0;
    text["global_head_dim"] = 512;
    text["head_dim"] = 256;
    text["hidden_activation"] = "gelu_pytorch_tanh";
    text["hidden_size"] = size.hidden_size;
    text["initializer_range"] = 0.02;
    text["intermediate_size"] = size.ff;
    text["layer_types"] = Json::array();
    for (int32_t layer = 0; layer < layer_count; ++layer) {
        text["layer_types"].push_back(is_full_layer(size, layer, layer_count) ? "full_attention" : "sliding_attention");
    }
    text["max_position_embeddings"] = size.has_ple ? 131072 : 262144;
    text["num_attention_heads"] = size.q_heads;
    text["num_global_key_value_heads"] = size.global_kv_heads != 0 ? Json(size.global_kv_heads) : Json();
    text["num_hidden_layers"] = layer_count;
    text["num_key_value_heads"] = size.kv_heads;
    text["num_kv_shared_layers"] = shared_layer_count(size, layer_count);
    text["pad_token_id"] = 0;
    text["rms_norm_eps"] = 1e-6;
    text["rope_parameters"] = rope_parameters();
    text["sliding_window"] = size.sliding_window;
    text["tie_word_embeddings"] = true;
    text["use_bidirectional_attention"] = size.has_ple ? Json() : Json("vision");
    text["use_cache"] = true;
    text["use_double_wide_mlp"] = size.is_double_wide;
    text["vocab_size"] = 262144;
    if (size.is_unified) return text;
    text["hidden_size_per_layer_input"] = size.has_ple ? 256 : 0;
    text["vocab_size_per_layer_input"] = 262144;
    text["enable_moe_block"] = size.experts != 0;
    text["num_experts"] = size.experts != 0 ? Json(size.experts) : Json();
    text["top_k_experts"] = size.experts != 0 ? Json(8) : Json();
    text["moe_intermediate_size"] = size.experts != 0 ? Json(704) : Json();
    return text;
}

Json vision_config(const PublishedSize& size) {
    Json vision;
    vision["model_type"] = size.is_unified ? "gemma4_unified_vision" : "gemma4_vision";
    vision["patch_size"] = 16;
    vision["pooling_kernel_size"] = 3;
    vision["dtype"] = "bfloat16";
    vision["rms_norm_eps"] = 1e-6;
    if (size.is_unified) {
        vision["mm_embed_dim"] = size.hidden_size;
        vision["mm_posemb_size"] = 1120;
        vision["output_proj_dims"] = size.hidden_size;
        return vision;
    }
    const bool is_small = size.has_ple;
    vision["hidden_size"] = size.vision_hidden;
    vision["intermediate_size"] = is_small ? 3072 : 4304;
    vision["num_hidden_layers"] = is_small ? 16 : 27;
    vision["num_attention_heads"] = is_small ? 12 : 16;
    vision["num_key_value_heads"] = is_small ? 12 : 16;
    vision["head_dim"] = is_small ? 64 : 72;
    vision["hidden_activation"] = "gelu_pytorch_tanh";
    vision["max_position_embeddings"] = 131072;
    vision["position_embedding_size"] = 10240;
    vision["rope_parameters"]["rope_type"] = "default";
    vision["rope_parameters"]["rope_theta"] = 100.0;
    vision["standardize"] = !is_small;
    vision["use_clipped_linears"] = is_small;
    return vision;
}

Json audio_config(const PublishedSize& size) {
    if (!size.has_ple && !size.is_unified) return nullptr;
    Json audio;
    audio["model_type"] = size.is_unified ? "gemma4_unified_audio" : "gemma4_audio";
    audio["dtype"] = "bfloat16";
    audio["rms_norm_eps"] = 1e-6;
    if (size.is_unified) {
        audio["audio_embed_dim"] = 640;
        return audio;
    }
    audio["hidden_size"] = 1024;
    audio["num_hidden_layers"] = 12;
    audio["num_attention_heads"] = 8;
    audio["hidden_act"] = "silu";
    audio["subsampling_conv_channels"] = {128, 32};
    audio["conv_kernel_size"] = 5;
    audio["residual_weight"] = 0.5;
    audio["attention_chunk_size"] = 12;
    audio["attention_context_left"] = 13;
    audio["attention_context_right"] = 0;
    audio["attention_logit_cap"] = 50.0;
    audio["use_clipped_linears"] = true;
    audio["output_proj_dims"] = 1536;
    return audio;
}

}  // namespace

nlohmann::ordered_json published_config(std::string_view size_name, std::optional<int32_t> layers) {
    const PublishedSize& size = find_size(size_name);
    const int32_t layer_count = layers.value_or(size.layers);
    if (layer_count < 1 || layer_count > size.layers) {
        throw Error(ErrorCode::bad_request, fmt::format("{} cannot have {} layers", size.name, layer_count), {},
                    fmt::format("choose 1 to {} layers", size.layers));
    }
    Json config;
    config["architectures"] =
        Json::array({size.is_unified ? "Gemma4UnifiedForConditionalGeneration" : "Gemma4ForConditionalGeneration"});
    config["model_type"] = size.is_unified ? "gemma4_unified" : "gemma4";
    config["dtype"] = "bfloat16";
    config["audio_config"] = audio_config(size);
    config["audio_token_id"] = 258881;
    config["boa_token_id"] = 256000;
    config["boi_token_id"] = 255999;
    config["eoa_token_index"] = 258883;
    config["eoi_token_id"] = 258882;
    config["eos_token_id"] = {1, 106};
    config["image_token_id"] = 258880;
    config["initializer_range"] = 0.02;
    config["text_config"] = text_config(size, layer_count);
    config["tie_word_embeddings"] = true;
    config["transformers_version"] = "5.13.0";
    config["video_token_id"] = 258884;
    config["vision_config"] = vision_config(size);
    return config;
}

}  // namespace gemmatrace::checkpoint
