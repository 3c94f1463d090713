// A checkpoint of a few hundred bytes a tensor with everything the small family has: shared layers and per-layer
// embeddings. Its list of names is written out here, so that it checks the program's.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "support/safetensors_writer.h"
#include "support/temporary_folder.h"

namespace gemmatrace::checkpoint {

// A slot of the model: name without prefix, and shape.
struct TinySlot {
    std::string name;
    std::vector<int64_t> shape;
};

inline nlohmann::ordered_json tiny_config_document() {
    return nlohmann::ordered_json::parse(R"({"model_type": "gemma4", "dtype": "bfloat16", "text_config": {
        "model_type": "gemma4_text", "vocab_size": 10, "hidden_size": 8, "intermediate_size": 6,
        "num_hidden_layers": 4, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "global_head_dim": 8,
        "sliding_window": 3, "hidden_size_per_layer_input": 2, "vocab_size_per_layer_input": 10,
        "num_kv_shared_layers": 2,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]}})");
}

// Every slot of the tiny model; layers 2 and 3 read the keys and values of 0 and 1.
inline std::vector<TinySlot> tiny_slots() {
    std::vector<TinySlot> slots{{"embed_tokens.weight", {10, 8}},
                                {"embed_tokens_per_layer.weight", {10, 8}},
                                {"per_layer_model_projection.weight", {8, 8}},
                                {"per_layer_projection_norm.weight", {2}},
                                {"norm.weight", {8}}};
    for (const int64_t layer : {0, 1, 2, 3}) {
        const std::string prefix = "layers." + std::to_string(layer) + ".";
        const int64_t head_dim = layer % 2 == 1 ? 8 : 4;
        for (const char* norm : {"input", "post_attention", "pre_feedforward", "post_feedforward"}) {
            slots.push_back({prefix + norm + "_layernorm.weight", {8}});
        }
        slots.push_back({prefix + "self_attn.q_proj.weight", {2 * head_dim, 8}});
        slots.push_back({prefix + "self_attn.o_proj.weight", {8, 2 * head_dim}});
        slots.push_back({prefix + "self_attn.q_norm.weight", {head_dim}});
        if (layer < 2) {
            slots.push_back({prefix + "self_attn.k_proj.weight", {head_dim, 8}});
            slots.push_back({prefix + "self_attn.v_proj.weight", {head_dim, 8}});
            slots.push_back({prefix + "self_attn.k_norm.weight", {head_dim}});
        }
        slots.push_back({prefix + "mlp.gate_proj.weight", {6, 8}});
        slots.push_back({prefix + "mlp.up_proj.weight", {6, 8}});
        slots.push_back({prefix + "mlp.down_proj.weight", {8, 6}});
        slots.push_back({prefix + "per_layer_input_gate.weight", {2, 8}});
        slots.push_back({prefix + "per_layer_projection.weight", {8, 2}});
        slots.push_back({prefix + "post_per_layer_input_norm.weight", {8}});
        slots.push_back({prefix + "layer_scalar", {1}});
    }
    return slots;
}

// The stored tensors of the tiny model under a prefix; tensor n is filled with 2^(n mod 8).
inline std::vector<testing::TensorToWrite> tiny_tensors(const std::string& prefix = "model.language_model.") {
    std::vector<testing::TensorToWrite> tensors;
    for (const TinySlot& slot : tiny_slots()) {
        const auto value = static_cast<float>(1 << (tensors.size() % 8));
        tensors.push_back(testing::filled_tensor(prefix + slot.name, slot.shape, value));
    }
    return tensors;
}

}  // namespace gemmatrace::checkpoint
