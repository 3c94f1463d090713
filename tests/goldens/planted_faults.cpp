// Faults as edits of config, weights and inputs, and as interpreters that pass operations on a little wrong.
#include "goldens/planted_faults.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "base/bf16.h"
#include "support/forwarding_ops.h"

namespace gemmatrace::goldens {
namespace {

using checkpoint::AttentionKind;
using checkpoint::LayerSpec;
using checkpoint::ModelConfig;
using model::KeysValues;
using model::Ops;
using model::Routing;
using model::Value;
using model::Weight;

// A fault overrides the operation that it bends.
class ForwardingOps : public support::ForwardingOps {
  public:
    ForwardingOps(cpu::CpuOps& inner, const Parts& parts)
        : support::ForwardingOps(inner), inner_(inner), parts_(parts) {}

  protected:
    // Whether a handle is the given weight of some layer.
    template <typename Member>
    bool is_layer_weight(std::optional<Weight> weight, Member member) const {
        const auto& layers = parts_.weights.handles().layers;
        return weight && std::any_of(layers.begin(), layers.end(), [&](const auto& layer) {
                   const std::optional<Weight> own = layer.*member;
                   return own && own->slot == weight->slot;
               });
    }
    // A copy whose rows the fault may write.
    Value copy(Value x) { return inner_.scale(x, 1.0); }

    cpu::CpuOps& inner_;
    const Parts& parts_;
};

using Handles = model::LayerWeights;

class SkippedPostNorm : public ForwardingOps {
  public:
    using ForwardingOps::ForwardingOps;
    Value rms_norm(Value x, std::optional<Weight> weight, int32_t group) override {
        return is_layer_weight(weight, &Handles::post_attention_norm) ? x : inner_.rms_norm(x, weight, group);
    }
};

class NormsOnePlusWeight : public ForwardingOps {
  public:
    using ForwardingOps::ForwardingOps;
    Value rms_norm(Value x, std::optional<Weight> weight, int32_t group) override {
        const Value normed = inner_.rms_norm(x, weight, group);
        return weight ? inner_.add(normed, inner_.rms_norm(x, std::nullopt, group)) : normed;
    }
};

class NoValueNorm : public ForwardingOps {
  public:
    using ForwardingOps::ForwardingOps;
    Value rms_norm(Value x, std::optional<Weight> weight, int32_t group) override {
        const bool is_router_norm = parts_.config.layers[0].moe && group == parts_.config.hidden_size;
        const bool is_value_norm = !weight && !is_router_norm;
        return is_value_norm ? x : inner_.rms_norm(x, weight, group);
    }
};

// Where values are the key projection, they are taken after the key norm.
class ValuesAfterKeyNorm : public ForwardingOps {
  public:
    using ForwardingOps::ForwardingOps;
    Value rms_norm(Value x, std::optional<Weight> weight, int32_t group) override {
        if (is_layer_weight(weight, &Handles::k_norm)) {
            raw_keys_ = x;
            return normed_keys_ = inner_.rms_norm(x, weight, group);
        }
        const bool reads_raw_keys = !weight && x.id == raw_keys_.id;
        return inner_.rms_norm(reads_raw_keys ? normed_keys_ : x, weight, group);
    }

  private:
    Value raw_keys_, normed_keys_;
};

class SharedLayersWithoutQueryNorm : public ForwardingOps {
  public:
    using ForwardingOps::ForwardingOps;
    Value rms_norm(Value x, std::optional<Weight> weight, int32_t group) override {
        const auto& layers = parts_.weights.handles().layers;
        for (size_t layer = 0; layer < layers.size(); ++layer) {
            const bool is_its_norm = weight && weight->slot == layers[layer].q_norm.slot;
            if (is_its_norm && parts_.config.layers[layer].shares_kv) return x;
        }
        return inner_.rms_norm(x, weight, group);
    }
};

class RouterOnNormedInput : public ForwardingOps {
  public:
    using ForwardingOps::ForwardingOps;
    Value rms_norm(Value x, std::optional<Weight> weight, int32_t group) override {
        const bool is_router_norm = !weight && group == parts_.config.hidden_size;
        if (is_router_norm) x = inner_.rms_norm(x, parts_.weights.handles().layers[0].moe->pre_norm, group);
        return inner_.rms_norm(x, weight, group);
    }
};

class NoDenseBranch : public ForwardingOps {
  public:
    using ForwardingOps::ForwardingOps;
    Value rms_norm(Value x, std::optional<Weight> weight, int32_t group) override {
        const Value normed = inner_.rms_norm(x, weight, group);
        const auto& layers = parts_.weights.handles().layers;
        const bool is_dense = weight && std::any_of(layers.begin(), layers.end(), [&](const auto& layer) {
                                  return layer.moe && layer.moe->post_dense_norm.slot == weight->slot;
                              });
        return is_dense ? inner_.scale(normed, 0.0) : normed;
    }
};

class InterleavedRope : public ForwardingOps {
  public:
    using ForwardingOps::ForwardingOps;
    // Columns 2i and 2i + 1 are paired: moved to i and i + half, rotated, and moved back.
    Value rope(Value x, AttentionKind kind, int32_t head_dim) override {
        const Value paired = copy(x);
        permute(x, paired, head_dim, true);
        const Value rotated = inner_.rope(paired, kind, head_dim);
        const Value out = copy(rotated);
        permute(rotated, out, head_dim, false);
        return out;
    }

  private:
    void permute(Value from, Value to, int32_t head_dim, bool gather) {
        const int32_t half = head_dim / 2;
        for (int64_t row = 0; row < inner_.rows(from); ++row) {
            const auto source = inner_.row_values(from, row);
            const auto target = inner_.row_values(to, row);
            for (int32_t column = 0; column < from.columns; ++column) {
                const int32_t in_head = column % head_dim;
                const int32_t apart = column - in_head + in_head / 2 + in_head % 2 * half;
                const auto mixed = static_cast<size_t>(column);
                const auto split = static_cast<size_t>(apart);
                if (gather)
                    target[split] = source[mixed];
                else
                    target[mixed] = source[split];
            }
        }
    }
};

class TiledHeads : public ForwardingOps {
  public:
    using ForwardingOps::ForwardingOps;
    // Query head j reads kv head j mod kv_heads: heads are reordered around the attention.
    Value attend(Value q, const KeysValues& kv, const LayerSpec& spec) override {
        const Value ordered = copy(q);
        reorder(q, ordered, spec, false);
        const Value attended = inner_.attend(ordered, kv, spec);
        const Value out = copy(attended);
        reorder(attended, out, spec, true);
        return out;
    }

  private:
    void reorder(Value from, Value to, const LayerSpec& spec, bool back) {
        const int32_t group = spec.q_heads / spec.kv_heads;
        for (int64_t row = 0; row < inner_.rows(from); ++row) {
            for (int32_t head = 0; head < spec.q_heads; ++head) {
                const int32_t tiled = head % spec.kv_heads * group + head / spec.kv_heads;
                const int32_t source = (back ? tiled : head) * spec.head_dim;
                const int32_t target = (back ? head : tiled) * spec.head_dim;
                std::copy_n(inner_.row_values(from, row).begin() + source, spec.head_dim,
                            inner_.row_values(to, row).begin() + target);
            }
        }
    }
};

class ScaledScores : public ForwardingOps {
  public:
    using ForwardingOps::ForwardingOps;
    Value attend(Value q, const KeysValues& kv, const LayerSpec& spec) override {
        return inner_.attend(inner_.scale(q, 1.0 / std::sqrt(spec.head_dim)), kv, spec);
    }
};

class ExactGelu : public ForwardingOps {
  public:
    using ForwardingOps::ForwardingOps;
    Value gelu_mul(Value gate, Value up) override {
        const Value out = copy(gate);
        for (int64_t row = 0; row < inner_.rows(gate); ++row) {
            const auto values = inner_.row_values(out, row);
            const auto factors = inner_.row_values(up, row);
            for (size_t column = 0; column < values.size(); ++column) {
                const float x = values[column];
                const float bent = 0.5F * x * (1.0F + std::erf(x * 0.70710678F));
                values[column] = round_bf16(round_bf16(bent) * factors[column]);
            }
        }
        return out;
    }
};

class PerLayerEmbeddingsZeroed : public ForwardingOps {
  public:
    using ForwardingOps::ForwardingOps;
    Value columns(Value x, int32_t first, int32_t count) override {
        return inner_.scale(inner_.columns(x, first, count), 0.0);
    }
};

class PerLayerTableZeroed : public ForwardingOps {
  public:
    using ForwardingOps::ForwardingOps;
    Value per_layer_rows() override { return inner_.scale(inner_.per_layer_rows(), 0.0); }
};

class PerLayerFactorDropped : public ForwardingOps {
  public:
    using ForwardingOps::ForwardingOps;
    Value scale(Value x, double factor) override { return factor == std::sqrt(0.5) ? x : inner_.scale(x, factor); }
};

class LayerScalarIgnored : public ForwardingOps {
  public:
    using ForwardingOps::ForwardingOps;
    Value multiply(Value x, Weight weight) override {
        return is_layer_weight(weight, &Handles::layer_scalar) ? x : inner_.multiply(x, weight);
    }
};

// --- which models a fault concerns, and where it must show first ---

bool always(const ModelConfig&) { return true; }
bool has_ple(const ModelConfig& config) { return config.ple_dim > 0; }
bool has_moe(const ModelConfig& config) { return config.layers[0].moe.has_value(); }

template <typename Predicate>
std::optional<size_t> first_layer(const ModelConfig& config, Predicate predicate) {
    const auto layer = std::find_if(config.layers.begin(), config.layers.end(), predicate);
    if (layer == config.layers.end()) return std::nullopt;
    return static_cast<size_t>(layer - config.layers.begin());
}

// Concerns models that have such a layer, and shows there first.
template <typename Predicate>
PlantedFault at_first_layer(std::string name, Predicate predicate, std::function<void(Parts&, Changes&)> plant) {
    return {std::move(name), [=](const ModelConfig& config) { return first_layer(config, predicate).has_value(); },
            std::move(plant),
            [=](const ModelConfig& config) { return "layer." + std::to_string(*first_layer(config, predicate)); }};
}

bool any_layer(const LayerSpec&) { return true; }
bool is_sliding(const LayerSpec& spec) { return spec.attention == AttentionKind::sliding; }
bool is_full(const LayerSpec& spec) { return spec.attention == AttentionKind::full; }
bool shares(const LayerSpec& spec) { return spec.shares_kv; }
bool shares_sliding(const LayerSpec& spec) { return spec.shares_kv && is_sliding(spec); }
bool has_k_eq_v(const LayerSpec& spec) { return spec.k_eq_v; }
bool has_groups_to_mix(const LayerSpec& spec) { return spec.kv_heads > 1 && spec.q_heads > spec.kv_heads; }

template <typename Faulty>
void interpret_with(Parts& parts, Changes& changes) {
    changes.ops = [&parts](cpu::CpuOps& inner) { return std::make_unique<Faulty>(inner, parts); };
}

template <typename Edit>
std::function<void(Parts&, Changes&)> edit_layers(Edit edit) {
    return [edit](Parts& parts, Changes&) {
        for (auto& spec : parts.config.layers) edit(spec);
    };
}

// Donor of a shared layer moved to the layer of the same kind before the right one.
void move_donors(Parts& parts, Changes&) {
    auto& layers = parts.config.layers;
    for (auto& spec : layers) {
        if (!spec.shares_kv) continue;
        for (int32_t donor = spec.kv_layer - 1; donor >= 0; --donor) {
            if (layers[static_cast<size_t>(donor)].attention != spec.attention) continue;
            spec.kv_layer = donor;
            break;
        }
    }
}

void swap_gate_and_up(Parts& parts, Changes&) {
    for (const auto& layer : parts.weights.handles().layers) {
        std::vector<float> values = parts.weights.values(layer.moe->gate_up);
        const auto& data = parts.weights.at(layer.moe->gate_up);
        const auto expert = static_cast<std::ptrdiff_t>(data.rows * data.columns);
        for (auto begin = values.begin(); begin != values.end(); begin += expert) {
            std::rotate(begin, begin + expert / 2, begin + expert);
        }
        parts.weights.replace(layer.moe->gate_up, values);
    }
}

void forget_expert_scales(Parts& parts, Changes&) {
    for (const auto& layer : parts.weights.handles().layers) {
        const std::vector<float> ones(parts.weights.values(layer.moe->per_expert_scale).size(), 1.0F);
        parts.weights.replace(layer.moe->per_expert_scale, ones);
    }
}

void scale_embeddings(Changes& changes, float factor) {
    changes.inputs = [factor](model::StepInputs& inputs) {
        for (float& value : inputs.embeddings) value = round_bf16(value * factor);
    };
}

std::string at_embedding(const ModelConfig&) { return "embedding"; }
std::string at_layer_0(const ModelConfig&) { return "layer.0"; }

std::vector<PlantedFault> input_faults() {
    return {
        {"F002_bos_dropped", always,
         [](Parts&, Changes& changes) {
             changes.ids = [](std::vector<int32_t>& ids) { std::rotate(ids.begin(), ids.begin() + 1, ids.end()); };
         },
         at_embedding},
        {"F006_embedding_scale_of_one", always,
         [](Parts& parts, Changes& changes) {
             scale_embeddings(changes, 1.0F / std::sqrt(static_cast<float>(parts.config.hidden_size)));
         },
         at_embedding},
        {"F020_embeddings_zeroed", always, [](Parts&, Changes& changes) { scale_embeddings(changes, 0.0F); },
         at_embedding},
    };
}

std::vector<PlantedFault> attention_faults() {
    return {
        at_first_layer("F012_norms_one_plus_weight", any_layer, interpret_with<NormsOnePlusWeight>),
        at_first_layer("post_norm_skipped", any_layer, interpret_with<SkippedPostNorm>),
        at_first_layer("F016_scores_scaled", any_layer, interpret_with<ScaledScores>),
        at_first_layer("F012_value_norm_left_out", any_layer, interpret_with<NoValueNorm>),
        at_first_layer("F017_rope_interleaved", any_layer, interpret_with<InterleavedRope>),
        at_first_layer(
            "F017_full_layers_with_a_quarter_as_denominator", is_full,
            [](Parts& parts, Changes&) { parts.config.full_rope.theta = std::pow(parts.config.full_rope.theta, 4.0); }),
        at_first_layer("F017_full_layers_turn_half_as_many_pairs", is_full,
                       [](Parts& parts, Changes&) { parts.config.full_rope.rotated_pairs /= 2; }),
        at_first_layer("F022_gqa_tiled", has_groups_to_mix, interpret_with<TiledHeads>),
        at_first_layer("F114_window_one_less", is_sliding,
                       edit_layers([](LayerSpec& spec) { spec.window -= is_sliding(spec) ? 1 : 0; })),
        at_first_layer("F114_window_one_more", is_sliding,
                       edit_layers([](LayerSpec& spec) { spec.window += is_sliding(spec) ? 1 : 0; })),
        at_first_layer("values_after_key_norm", has_k_eq_v, interpret_with<ValuesAfterKeyNorm>),
        at_first_layer("F027_donor_off_by_one", shares, move_donors),
        at_first_layer("shared_layers_without_window", shares_sliding,
                       edit_layers([](LayerSpec& spec) { spec.window = spec.shares_kv ? 0 : spec.window; })),
        at_first_layer("shared_layers_without_query_norm", shares, interpret_with<SharedLayersWithoutQueryNorm>),
    };
}

std::vector<PlantedFault> feed_forward_faults() {
    return {
        at_first_layer("F007_layer_scalar_of_one", any_layer, interpret_with<LayerScalarIgnored>),
        at_first_layer("F018_exact_gelu", any_layer, interpret_with<ExactGelu>),
        {"F008_ple_zeroed", has_ple, interpret_with<PerLayerEmbeddingsZeroed>, at_layer_0},
        {"F020_ple_table_zeroed", has_ple, interpret_with<PerLayerTableZeroed>, at_layer_0},
        {"ple_factor_dropped", has_ple, interpret_with<PerLayerFactorDropped>, at_layer_0},
        {"router_on_normed_input", has_moe, interpret_with<RouterOnNormedInput>, at_layer_0},
        {"dense_branch_left_out", has_moe, interpret_with<NoDenseBranch>, at_layer_0},
        {"expert_gate_and_up_swapped", has_moe, swap_gate_and_up, at_layer_0},
        {"per_expert_scale_forgotten", has_moe, forget_expert_scales, at_layer_0},
    };
}

}  // namespace

std::vector<PlantedFault> planted_faults() {
    std::vector<PlantedFault> all = input_faults();
    for (auto& fault : attention_faults()) all.push_back(std::move(fault));
    for (auto& fault : feed_forward_faults()) all.push_back(std::move(fault));
    return all;
}

}  // namespace gemmatrace::goldens
