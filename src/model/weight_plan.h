// Which tensors the model needs: one slot a tensor with its stored name, exact shape and role, derived from the config.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/config.h"

namespace gemmatrace::model {

// How a weight is split over ranks. On one rank roles mean nothing; a trace reads them.
enum class WeightRole {
    column,      // [out, in]: output rows are split (q, k, v, gate, up)
    row,         // [out, in]: input columns are split, partial sums are reduced (o, down)
    vocabulary,  // [vocab, in]: rows are split by id range (head)
    expert,      // [experts, out, in]: split inside each expert
    replicated,  // every rank holds it whole (norms, scalars, router)
    host_table,  // never enters the forward pass: rows are gathered on the host
};

// One tensor of the model. `name` is the stored name without the text prefix, e.g. "layers.3.mlp.up_proj.weight".
struct WeightSlot {
    std::string name;
    std::vector<int64_t> shape;
    WeightRole role = WeightRole::replicated;
};

// A handle to a slot, as the forward pass passes it to Ops; what stands behind it is the interpreter's business.
struct Weight {
    int32_t slot = -1;
    WeightRole role = WeightRole::replicated;
};

// The handles of one layer; those a layer does not have are empty.
struct LayerWeights {
    Weight input_norm, post_attention_norm, pre_feedforward_norm, post_feedforward_norm;  // [hidden]
    Weight q_proj, o_proj;                                          // [q_heads * head_dim, hidden], and the reverse
    Weight q_norm;                                                  // [head_dim]
    std::optional<Weight> k_proj, v_proj, k_norm;                   // [kv_heads * head_dim, hidden] twice, [head_dim]
    Weight gate_proj, up_proj, down_proj;                           // [ff, hidden] twice, [hidden, ff]
    std::optional<Weight> ple_gate, ple_projection, post_ple_norm;  // [ple_dim, hidden], [hidden, ple_dim], [hidden]
    Weight layer_scalar;                                            // [1]

    struct Moe {
        Weight router_scale, router_proj, per_expert_scale;  // [hidden], [experts, hidden], [experts]
        Weight gate_up, down;                                // [experts, 2 ff, hidden], [experts, hidden, ff]
        Weight pre_norm, post_norm, post_dense_norm;         // feed-forward norms 2, 2 and 1: [hidden]
    };
    std::optional<Moe> moe;
};

// The handles of the whole model. The head is the embedding unless the checkpoint stores another one.
struct ModelWeights {
    Weight embedding;                            // [vocab, hidden]
    std::optional<Weight> ple_embedding;         // [ple_vocab, layers * ple_dim]
    std::optional<Weight> ple_model_projection;  // [layers * ple_dim, hidden]
    std::optional<Weight> ple_projection_norm;   // [ple_dim]
    std::vector<LayerWeights> layers;
    Weight norm;  // [hidden]
    Weight head;  // [vocab, hidden]
};

struct WeightPlan {
    std::vector<WeightSlot> slots;  // in the order of the forward pass; Weight::slot is an index into it
    ModelWeights weights;
};

// Lays out the slots of a model. with_untied_head adds the slot "lm_head.weight" (named without any prefix) and makes
// it the head. Source of names and shapes: gemma4.md 3.1.
WeightPlan plan_weights(const checkpoint::ModelConfig& config, bool with_untied_head);

// The slots alone, with a tied head: what a checkpoint of this config stores.
std::vector<WeightSlot> weight_plan(const checkpoint::ModelConfig& config);

}  // namespace gemmatrace::model
