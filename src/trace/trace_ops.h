// The operations of the forward pass as HLO: each call appends the instructions that compute it on one rank.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "hlo/builder.h"
#include "model/ops.h"
#include "model/shard.h"
#include "trace/program.h"

namespace gemmatrace::trace {

// Values are matrices [rows, columns of this rank] of the geometry's type. Rounding is stated: products and sums of
// many are f32 and converted once; what rounds after every operation is written in operations of that type.
class TraceOps : public model::Ops {
  public:
    TraceOps(hlo::Builder& builder, const checkpoint::ModelConfig& config, const Packing& packing,
             const Geometry& geometry, const ProgramSpec& spec);

    model::Value embeddings() override;
    model::Value per_layer_rows() override;
    model::Value linear(model::Value x, model::Weight weight) override;
    model::Value rms_norm(model::Value x, std::optional<model::Weight> weight, int32_t group) override;
    model::Value rope(model::Value x, checkpoint::AttentionKind kind, int32_t head_dim) override;
    model::Value gelu_mul(model::Value gate, model::Value up) override;
    model::Value add(model::Value a, model::Value b) override;
    model::Value scale(model::Value x, double factor) override;
    model::Value multiply(model::Value x, model::Weight weight) override;
    model::Value columns(model::Value x, int32_t first, int32_t count) override;
    model::KeysValues keep(int32_t layer, model::Value keys, model::Value values) override;
    model::Value attend(model::Value q, const model::KeysValues& kv, const checkpoint::LayerSpec& spec) override;
    model::Routing route(model::Value router_logits, model::Weight per_expert_scale, int32_t top_k) override;
    model::Value experts(model::Value x, const model::Routing& routing, model::Weight gate_up,
                         model::Weight down) override;
    model::Value end_layer(int32_t layer, model::Value stream) override;
    model::Value output_rows(model::Value stream) override;

    // The program whose logits these are: [output rows, vocabulary of this rank].
    hlo::Module finish(model::Value logits);

  private:
    using Node = hlo::Value;

    // What a layer keeps, as the program was given it and as it leaves it.
    struct Cache {
        Node keys, values;  // [rows, slots, kv heads, head_dim]
        std::optional<Node> new_keys, new_values;
        std::optional<Node> read_keys, read_values;  // the rows of the bucket, of a prefill those of the slot alone
    };
    struct Choice {
        std::vector<Node> experts;  // by place, best first: s32 [rows]
        std::vector<Node> weights;  // f32 [rows]
    };

    bool decides_by_cap() const { return config_.final_softcap && geometry_.precision == model::Precision::bf16; }
    bool is_decode() const { return spec_.kind == ProgramKind::decode; }
    bool is_ring(int32_t layer) const;
    int64_t ring_rows() const;  // of a ring that a step of this bucket reads
    Node& at(model::Value value) { return values_[static_cast<size_t>(value.id)]; }
    model::Value keep_value(Node node);
    Node weight(model::Weight weight);  // [rows, columns] of this rank, or a vector [1, length]
    Node f32(Node value) { return builder_.convert(value, hlo::ElementType::f32); }
    // R of the operations' definitions (model/ops.h).
    Node rounded(Node value) { return builder_.convert(value, geometry_.value_type()); }
    // `value` over more axes: its own are `axes` of dimensions.
    Node spread(Node value, const std::vector<int64_t>& dimensions, std::vector<int64_t> axes);
    Node scaled(Node value, double factor);
    Node element(Node vector, int64_t index);  // a scalar of a vector
    Node product(Node x, Node weight);         // f32 [rows, weight rows]
    Node gelu(Node gate);                      // of any shape
    Node softmax(Node scores);                 // f32, over the last axis

    void add_inputs();
    void add_caches();
    void read_cache(int32_t layer);
    Node cache_mask(const checkpoint::LayerSpec& spec);  // pred [R, bucket or ring]: what a row sees of the cache
    Node own_mask(const checkpoint::LayerSpec& spec);    // pred [R, R]: of a prefill, what a row sees of the chunk
    Node attend_decode(Node q, Node keys, Node values, const Cache& cache, const checkpoint::LayerSpec& spec);
    Node attend_prefill(Node q, Node keys, Node values, const Cache& cache, const checkpoint::LayerSpec& spec);
    Node chosen_experts(Node x, const Choice& choice, Node gate_up, Node down);
    Node all_experts(Node x, const Choice& choice, Node gate_up, Node down);
    Node weighted(const std::vector<Node>& outputs, const Choice& choice);
    std::vector<hlo::Output> decide(Node logits);

    hlo::Builder& builder_;
    const checkpoint::ModelConfig& config_;
    const Packing& packing_;
    Geometry geometry_;
    ProgramSpec spec_;
    int64_t rows_ = 0;  // of this step
    std::vector<Node> inputs_;
    std::map<std::string, Node> host_;
    std::map<int32_t, Cache> caches_;  // by owning layer
    std::vector<Node> values_;
    std::vector<Choice> choices_;
    std::map<std::pair<int32_t, int32_t>, Node> products_;  // by value and packed input
};

}  // namespace gemmatrace::trace
