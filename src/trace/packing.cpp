// Packs by the roles of the weights and the rules of model/shard.h.
#include "trace/packing.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "base/error.h"
#include "model/shard.h"

namespace gemmatrace::trace {
namespace {

using checkpoint::LayerSpec;
using checkpoint::ModelConfig;
using model::LayerWeights;
using model::Weight;

class Packer {
  public:
    Packer(const ModelConfig& config, const model::WeightPlan& plan, int32_t ranks)
        : config_(config), plan_(plan), ranks_(ranks) {
        packing_.placements.resize(plan.slots.size());
    }

    Packing pack() {
        const model::ModelWeights& weights = plan_.weights;
        for (size_t layer = 0; layer < weights.layers.size(); ++layer) pack_layer(static_cast<int32_t>(layer));
        if (weights.ple_model_projection) add_whole("ple_model_projection", *weights.ple_model_projection);
        stack("ple_gate", [](const LayerWeights& layer) { return layer.ple_gate; });
        stack("ple_projection", [](const LayerWeights& layer) { return layer.ple_projection; });
        stack("router", [](const LayerWeights& layer) {
            return layer.moe ? std::optional(layer.moe->router_proj) : std::nullopt;
        });
        stack_vectors();
        add_rows("head", {weights.head}, false);
        return std::move(packing_);
    }

  private:
    const model::WeightSlot& slot(Weight weight) const { return plan_.slots[static_cast<size_t>(weight.slot)]; }

    // The rows of a column weight that a rank holds, as runs.
    std::vector<std::pair<int64_t, int64_t>> rows_of(Weight weight, int32_t rank) const {
        const int64_t rows = slot(weight).shape[0] / ranks_;
        return {{rank * rows, rows}};
    }

    void place(Weight weight, int64_t row_begin, int64_t rows, int64_t columns) {
        packing_.placements[static_cast<size_t>(weight.slot)] = {static_cast<int32_t>(packing_.inputs.size()),
                                                                 row_begin, rows, columns};
    }

    // The runs of rows of each weight below one another; `runs` gives a weight's on one rank.
    template <typename Runs>
    void add_runs(std::string name, const std::vector<Weight>& weights, bool is_one_product, const Runs& runs) {
        PackedInput input;
        input.name = std::move(name);
        input.is_one_product = is_one_product;
        const int64_t columns = slot(weights.front()).shape[1];
        int64_t total = 0;
        for (int32_t rank = 0; rank < ranks_; ++rank) {
            auto& pieces = input.pieces.emplace_back();
            total = 0;
            for (const Weight weight : weights) {
                const int64_t begin = total;
                for (const auto& [first, count] : runs(weight, rank)) {
                    pieces.push_back({weight.slot, first, count, 0, columns});
                    total += count;
                }
                place(weight, begin, total - begin, columns);
            }
        }
        input.dimensions = {total, columns};
        packing_.inputs.push_back(std::move(input));
    }

    // Column or vocabulary weights, their rows divided evenly.
    void add_rows(std::string name, const std::vector<Weight>& weights, bool is_one_product) {
        add_runs(std::move(name), weights, is_one_product,
                 [this](Weight weight, int32_t rank) { return rows_of(weight, rank); });
    }

    // A row weight, its columns divided evenly.
    void add_columns(std::string name, Weight weight) {
        PackedInput input;
        input.name = std::move(name);
        const int64_t rows = slot(weight).shape[0];
        const int64_t columns = slot(weight).shape[1] / ranks_;
        for (int32_t rank = 0; rank < ranks_; ++rank) {
            input.pieces.push_back({{weight.slot, 0, rows, rank * columns, columns}});
        }
        input.dimensions = {rows, columns};
        place(weight, 0, rows, columns);
        packing_.inputs.push_back(std::move(input));
    }

    void add_whole(std::string name, Weight weight) {
        const int64_t rows = slot(weight).shape[0];
        add_runs(std::move(name), {weight}, false, [rows](Weight, int32_t) {
            return std::vector<std::pair<int64_t, int64_t>>{{0, rows}};
        });
    }

    void pack_layer(int32_t index) {
        const LayerWeights& layer = plan_.weights.layers[static_cast<size_t>(index)];
        const LayerSpec& spec = config_.layers[static_cast<size_t>(index)];
        const std::string prefix = fmt::format("l{}.", index);
        std::vector<Weight> qkv = {layer.q_proj};
        if (layer.k_proj) qkv.push_back(*layer.k_proj);
        if (layer.v_proj) qkv.push_back(*layer.v_proj);
        const model::HeadShard heads = model::shard_heads(spec, ranks_);
        add_runs(prefix + "qkv", qkv, true, [&](Weight weight, int32_t rank) {
            if (weight.slot == layer.q_proj.slot) return rows_of(weight, rank);
            std::vector<std::pair<int64_t, int64_t>> runs;
            for (int32_t head = 0; head < heads.kv_heads; ++head) {
                runs.emplace_back(int64_t{heads.global_kv_head(spec, rank, head)} * spec.head_dim, spec.head_dim);
            }
            return runs;
        });
        add_columns(prefix + "o", layer.o_proj);
        add_rows(prefix + "gate_up", {layer.gate_proj, layer.up_proj}, true);
        add_columns(prefix + "down", layer.down_proj);
        if (layer.moe) pack_experts(prefix, *spec.moe, *layer.moe);
    }

    // Each expert is divided inside: a share of gate and of up, and the same share of down's columns.
    void pack_experts(const std::string& prefix, const checkpoint::MoeSpec& spec, const LayerWeights::Moe& moe) {
        const int64_t ff = spec.ff / ranks_;
        const int64_t hidden = config_.hidden_size;
        PackedInput gate_up{prefix + "experts_gate_up", {spec.experts, 2 * ff, hidden}, spec.experts, {}};
        PackedInput down{prefix + "experts_down", {spec.experts, hidden, ff}, spec.experts, {}};
        for (int32_t rank = 0; rank < ranks_; ++rank) {
            gate_up.pieces.push_back(
                {{moe.gate_up.slot, rank * ff, ff, 0, hidden}, {moe.gate_up.slot, spec.ff + rank * ff, ff, 0, hidden}});
            down.pieces.push_back({{moe.down.slot, 0, hidden, rank * ff, ff}});
        }
        place(moe.gate_up, 0, 2 * ff, hidden);
        packing_.inputs.push_back(std::move(gate_up));
        place(moe.down, 0, hidden, ff);
        packing_.inputs.push_back(std::move(down));
    }

    // One kind of small matrix of all layers that have it.
    template <typename Member>
    void stack(std::string name, const Member& member) {
        std::vector<Weight> weights;
        for (const LayerWeights& layer : plan_.weights.layers) {
            if (const std::optional<Weight> weight = member(layer)) weights.push_back(*weight);
        }
        if (weights.empty()) return;
        add_runs(std::move(name), weights, false, [this](Weight weight, int32_t) {
            return std::vector<std::pair<int64_t, int64_t>>{{0, slot(weight).shape[0]}};
        });
    }

    // Norms and scales of one length, a row each.
    void stack_vectors() {
        std::map<int64_t, std::vector<int32_t>> by_length;
        for (size_t index = 0; index < plan_.slots.size(); ++index) {
            const auto& shape = plan_.slots[index].shape;
            if (shape.size() == 1) by_length[shape[0]].push_back(static_cast<int32_t>(index));
        }
        for (const auto& [length, slots] : by_length) {
            PackedInput input;
            input.name = fmt::format("vectors_{}", length);
            input.dimensions = {static_cast<int64_t>(slots.size()), length};
            std::vector<Piece> pieces;
            for (const int32_t vector : slots) {
                place({vector, {}}, static_cast<int64_t>(pieces.size()), 1, length);
                pieces.push_back({vector, 0, 1, 0, length});
            }
            input.pieces.assign(static_cast<size_t>(ranks_), pieces);
            packing_.inputs.push_back(std::move(input));
        }
    }

    const ModelConfig& config_;
    const model::WeightPlan& plan_;
    int32_t ranks_;
    Packing packing_;
};

}  // namespace

int64_t PackedInput::bytes() const {
    int64_t bytes = 2;
    for (const int64_t size : dimensions) bytes *= size;
    return bytes;
}

Packing pack_weights(const ModelConfig& config, const model::WeightPlan& plan, int32_t ranks) {
    return Packer(config, plan, ranks).pack();
}

}  // namespace gemmatrace::trace
