// The one place that knows which stored tensor fills which slot.
#include "model/weight_plan.h"

#include <fmt/format.h>

#include <utility>

namespace gemmatrace::model {
namespace {

using checkpoint::LayerSpec;
using checkpoint::ModelConfig;

// Appends slots and hands out their handles.
class Planner {
  public:
    explicit Planner(std::vector<WeightSlot>& slots) : slots_(slots) {}

    Weight add(std::string name, std::vector<int64_t> shape, WeightRole role) {
        slots_.push_back({std::move(name), std::move(shape), role});
        return {static_cast<int32_t>(slots_.size()) - 1, role};
    }
    Weight vector(std::string name, int64_t length) { return add(std::move(name), {length}, WeightRole::replicated); }

  private:
    std::vector<WeightSlot>& slots_;
};

void plan_attention(Planner& planner, const std::string& prefix, const LayerSpec& spec, int64_t hidden,
                    LayerWeights& weights) {
    const int64_t q_rows = int64_t{spec.q_heads} * spec.head_dim;
    const int64_t kv_rows = int64_t{spec.kv_heads} * spec.head_dim;
    const std::string attention = prefix + "self_attn.";
    weights.q_proj = planner.add(attention + "q_proj.weight", {q_rows, hidden}, WeightRole::column);
    weights.q_norm = planner.vector(attention + "q_norm.weight", spec.head_dim);
    if (!spec.shares_kv) {
        weights.k_proj = planner.add(attention + "k_proj.weight", {kv_rows, hidden}, WeightRole::column);
        weights.k_norm = planner.vector(attention + "k_norm.weight", spec.head_dim);
        if (!spec.k_eq_v) {
            weights.v_proj = planner.add(attention + "v_proj.weight", {kv_rows, hidden}, WeightRole::column);
        }
    }
    weights.o_proj = planner.add(attention + "o_proj.weight", {hidden, q_rows}, WeightRole::row);
}

LayerWeights::Moe plan_moe(Planner& planner, const std::string& prefix, const checkpoint::MoeSpec& spec,
                           int64_t hidden) {
    LayerWeights::Moe moe;
    moe.router_scale = planner.vector(prefix + "router.scale", hidden);
    moe.router_proj = planner.add(prefix + "router.proj.weight", {spec.experts, hidden}, WeightRole::replicated);
    moe.per_expert_scale = planner.vector(prefix + "router.per_expert_scale", spec.experts);
    moe.pre_norm = planner.vector(prefix + "pre_feedforward_layernorm_2.weight", hidden);
    moe.gate_up =
        planner.add(prefix + "experts.gate_up_proj", {spec.experts, 2 * int64_t{spec.ff}, hidden}, WeightRole::expert);
    moe.down = planner.add(prefix + "experts.down_proj", {spec.experts, hidden, spec.ff}, WeightRole::expert);
    moe.post_dense_norm = planner.vector(prefix + "post_feedforward_layernorm_1.weight", hidden);
    moe.post_norm = planner.vector(prefix + "post_feedforward_layernorm_2.weight", hidden);
    return moe;
}

LayerWeights plan_layer(Planner& planner, const ModelConfig& config, size_t layer) {
    const LayerSpec& spec = config.layers[layer];
    const int64_t hidden = config.hidden_size;
    const std::string prefix = fmt::format("layers.{}.", layer);
    LayerWeights weights;
    weights.input_norm = planner.vector(prefix + "input_layernorm.weight", hidden);
    plan_attention(planner, prefix, spec, hidden, weights);
    weights.post_attention_norm = planner.vector(prefix + "post_attention_layernorm.weight", hidden);
    weights.pre_feedforward_norm = planner.vector(prefix + "pre_feedforward_layernorm.weight", hidden);
    weights.gate_proj = planner.add(prefix + "mlp.gate_proj.weight", {spec.ff, hidden}, WeightRole::column);
    weights.up_proj = planner.add(prefix + "mlp.up_proj.weight", {spec.ff, hidden}, WeightRole::column);
    weights.down_proj = planner.add(prefix + "mlp.down_proj.weight", {hidden, spec.ff}, WeightRole::row);
    if (spec.moe) weights.moe = plan_moe(planner, prefix, *spec.moe, hidden);
    weights.post_feedforward_norm = planner.vector(prefix + "post_feedforward_layernorm.weight", hidden);
    if (config.ple_dim > 0) {
        weights.ple_gate =
            planner.add(prefix + "per_layer_input_gate.weight", {config.ple_dim, hidden}, WeightRole::replicated);
        weights.ple_projection =
            planner.add(prefix + "per_layer_projection.weight", {hidden, config.ple_dim}, WeightRole::replicated);
        weights.post_ple_norm = planner.vector(prefix + "post_per_layer_input_norm.weight", hidden);
    }
    weights.layer_scalar = planner.vector(prefix + "layer_scalar", 1);
    return weights;
}

}  // namespace

WeightPlan plan_weights(const ModelConfig& config, bool with_untied_head) {
    WeightPlan plan;
    Planner planner(plan.slots);
    ModelWeights& weights = plan.weights;
    const int64_t hidden = config.hidden_size;
    weights.embedding = planner.add("embed_tokens.weight", {config.vocab_size, hidden}, WeightRole::vocabulary);
    if (config.ple_dim > 0) {
        const int64_t width = int64_t{config.ple_dim} * static_cast<int64_t>(config.layers.size());
        weights.ple_embedding =
            planner.add("embed_tokens_per_layer.weight", {config.ple_vocab_size, width}, WeightRole::host_table);
        weights.ple_model_projection =
            planner.add("per_layer_model_projection.weight", {width, hidden}, WeightRole::replicated);
        weights.ple_projection_norm = planner.vector("per_layer_projection_norm.weight", config.ple_dim);
    }
    for (size_t layer = 0; layer < config.layers.size(); ++layer) {
        weights.layers.push_back(plan_layer(planner, config, layer));
    }
    weights.norm = planner.vector("norm.weight", hidden);
    weights.head = weights.embedding;
    if (with_untied_head) {
        weights.head = planner.add("lm_head.weight", {config.vocab_size, hidden}, WeightRole::vocabulary);
    }
    return plan;
}

std::vector<WeightSlot> weight_plan(const ModelConfig& config) { return plan_weights(config, false).slots; }

}  // namespace gemmatrace::model
