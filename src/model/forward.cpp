// What a Gemma-4 layer is, top to bottom; every difference between sizes is a field of LayerSpec or a missing weight.
#include "model/forward.h"

#include <cmath>
#include <optional>
#include <vector>

namespace gemmatrace::model {
namespace {

using checkpoint::LayerSpec;
using checkpoint::ModelConfig;

// The pass over one model: what its parts share.
class Forward {
  public:
    Forward(Ops& ops, const ModelConfig& config, const ModelWeights& weights)
        : ops_(ops), config_(config), weights_(weights), kept_(config.layers.size()) {}

    Value run() {
        Value stream = ops_.embeddings();  // [tokens, hidden]
        const std::optional<Value> ple = per_layer_inputs(stream);
        stream = ops_.end_layer(-1, stream);
        for (size_t index = 0; index < config_.layers.size(); ++index) {
            stream = ops_.end_layer(static_cast<int32_t>(index), layer(index, stream, ple));
        }
        const Value last = norm(ops_.output_rows(stream), weights_.norm);
        return ops_.linear(last, weights_.head);  // [output rows, vocab]
    }

  private:
    Value norm(Value x, Weight weight) { return ops_.rms_norm(x, weight, config_.hidden_size); }

    // Per-layer embeddings of all layers at once, [tokens, layers * ple_dim] (gemma4.md 2.2).
    std::optional<Value> per_layer_inputs(Value embeddings) {
        if (config_.ple_dim == 0) return std::nullopt;
        Value context = ops_.linear(embeddings, *weights_.ple_model_projection);
        context = ops_.scale(context, std::pow(config_.hidden_size, -0.5));
        context = ops_.rms_norm(context, *weights_.ple_projection_norm, config_.ple_dim);
        return ops_.scale(ops_.add(context, ops_.per_layer_rows()), std::sqrt(0.5));
    }

    Value layer(size_t index, Value stream, const std::optional<Value>& ple) {
        const LayerSpec& spec = config_.layers[index];
        const LayerWeights& w = weights_.layers[index];

        const Value attended = attention(index, spec, w, norm(stream, w.input_norm));
        stream = ops_.add(stream, norm(attended, w.post_attention_norm));

        const Value mixed = feed_forward(spec, w, stream);
        stream = ops_.add(stream, norm(mixed, w.post_feedforward_norm));

        if (ple) stream = inject_per_layer(static_cast<int32_t>(index), w, stream, *ple);
        return ops_.multiply(stream, w.layer_scalar);
    }

    // Returns W_o of the attended values, [tokens, hidden] (gemma4.md 2.3).
    Value attention(size_t index, const LayerSpec& spec, const LayerWeights& w, Value x) {
        Value q = ops_.linear(x, w.q_proj);  // [tokens, q_heads * head_dim]
        q = ops_.rms_norm(q, w.q_norm, spec.head_dim);
        q = ops_.rope(q, spec.attention, spec.head_dim);
        if (!spec.shares_kv) kept_[index] = keys_values(index, spec, w, x);
        const KeysValues& kv = *kept_[static_cast<size_t>(spec.kv_layer)];
        return ops_.linear(ops_.attend(q, kv, spec), w.o_proj);
    }

    KeysValues keys_values(size_t index, const LayerSpec& spec, const LayerWeights& w, Value x) {
        const Value k_raw = ops_.linear(x, *w.k_proj);  // [tokens, kv_heads * head_dim]
        const Value v_raw = spec.k_eq_v ? k_raw : ops_.linear(x, *w.v_proj);
        Value k = ops_.rms_norm(k_raw, *w.k_norm, spec.head_dim);
        k = ops_.rope(k, spec.attention, spec.head_dim);
        const Value v = ops_.rms_norm(v_raw, std::nullopt, spec.head_dim);
        return ops_.keep(static_cast<int32_t>(index), k, v);
    }

    // The dense MLP, joined by the experts where a layer has them (gemma4.md 2.4).
    Value feed_forward(const LayerSpec& spec, const LayerWeights& w, Value stream) {
        const Value x = norm(stream, w.pre_feedforward_norm);
        const Value gated = ops_.gelu_mul(ops_.linear(x, w.gate_proj), ops_.linear(x, w.up_proj));  // [tokens, ff]
        const Value dense = ops_.linear(gated, w.down_proj);
        if (!spec.moe) return dense;
        return ops_.add(norm(dense, w.moe->post_dense_norm), norm(experts(spec, *w.moe, stream), w.moe->post_norm));
    }

    // The router reads the raw stream, the experts a norm of their own.
    Value experts(const LayerSpec& spec, const LayerWeights::Moe& w, Value stream) {
        Value routed = ops_.rms_norm(stream, std::nullopt, config_.hidden_size);
        routed = ops_.multiply(routed, w.router_scale);
        routed = ops_.scale(routed, std::pow(config_.hidden_size, -0.5));
        const Value router_logits = ops_.linear(routed, w.router_proj);  // [tokens, experts]
        const Routing routing = ops_.route(router_logits, w.per_expert_scale, spec.moe->top_k);
        return ops_.experts(norm(stream, w.pre_norm), routing, w.gate_up, w.down);
    }

    // Adds this layer's share of the per-layer embeddings (gemma4.md 2.5).
    Value inject_per_layer(int32_t index, const LayerWeights& w, Value stream, Value ple) {
        const Value share = ops_.columns(ple, index * config_.ple_dim, config_.ple_dim);  // [tokens, ple_dim]
        const Value gated = ops_.gelu_mul(ops_.linear(stream, *w.ple_gate), share);
        return ops_.add(stream, norm(ops_.linear(gated, *w.ple_projection), *w.post_ple_norm));
    }

    Ops& ops_;
    const ModelConfig& config_;
    const ModelWeights& weights_;
    std::vector<std::optional<KeysValues>> kept_;  // this step's keys and values by owning layer
};

}  // namespace

Value forward(Ops& ops, const ModelConfig& config, const ModelWeights& weights) {
    return Forward(ops, config, weights).run();
}

}  // namespace gemmatrace::model
