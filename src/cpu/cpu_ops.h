// Ops executed at once on this machine: values are rows in an arena of floats, reused from step to step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "cpu/kernels.h"
#include "cpu/kv_cache.h"
#include "cpu/weights.h"
#include "model/inputs.h"
#include "model/ops.h"
#include "model/precision.h"

namespace gemmatrace::cpu {

// Where a row of the step belongs: its sequence and the absolute position of its token there.
struct RowPlace {
    KvCache* cache = nullptr;
    int64_t position = 0;
};

class CpuOps : public model::Ops {
  public:
    // Called with a layer's output [tokens, hidden_size]; layer -1 is what enters the first layer.
    using LayerObserver = std::function<void(int32_t layer, std::span<const float> values)>;

    CpuOps(const checkpoint::ModelConfig& config, const Weights& weights, const Kernels& kernels, ThreadPool& pool,
           model::Precision precision);

    // Starts a step over the rows of `inputs`; rows of one sequence lie in ascending positions, and `outputs` are the
    // rows whose logits are wanted. All three must live until the step's end.
    void begin_step(const model::StepInputs& inputs, std::span<const RowPlace> places,
                    std::span<const int32_t> outputs);
    // The numbers of one row of a value; valid until the next operation.
    std::span<const float> row_values(model::Value value, int64_t index) const;
    std::span<float> row_values(model::Value value, int64_t index);
    int64_t rows(model::Value value) const { return matrix(value).rows; }
    void set_layer_observer(LayerObserver observer) { observer_ = std::move(observer); }
    size_t workspace_bytes() const;

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

  private:
    // A matrix in the arena; rows lie `stride` floats apart.
    struct Matrix {
        size_t offset = 0;
        int64_t rows = 0;
        int32_t columns = 0;
        size_t stride = 0;
    };
    // What one thread needs for products, attention and norms.
    struct Scratch {
        std::vector<float> products;
        std::vector<float> scores;
        std::vector<float> sums;
        std::vector<float> squares;
    };
    // Memory of the calling thread for kernels.h's products.
    static float* product_memory(Scratch& scratch, int32_t tokens, int64_t columns);
    // Where one token's row sits among the tokens of an expert.
    struct Assignment {
        int32_t token = 0;
        int32_t place = 0;  // among the token's experts, best first
    };

    model::Value make(int64_t rows, int32_t columns);
    model::Value input(const std::vector<float>& rows, int64_t columns);
    const Matrix& matrix(model::Value value) const { return matrices_[static_cast<size_t>(value.id)]; }
    const float* row(model::Value value, int64_t index) const;
    float* row(model::Value value, int64_t index);
    void for_rows(int64_t rows, int64_t cost_per_row, const std::function<void(int, int64_t)>& work);
    void run_linear(const float* x, size_t x_stride, int32_t tokens, const WeightData& weight, int64_t expert,
                    float* out, size_t out_stride);
    // Query heads of one row that read the same KV head.
    struct HeadRun {
        int32_t first = 0;
        int32_t count = 0;
        int32_t kv_head = 0;
    };
    void attend_heads(Scratch& scratch, const float* q, const RowPlace& place, int32_t layer, const HeadRun& run,
                      const checkpoint::LayerSpec& spec, float* out);
    void run_expert(model::Value x, std::span<const Assignment> assigned, int64_t expert, const WeightData& gate_up,
                    const WeightData& down, int32_t top_k, model::Value out);
    std::span<const float> vector(model::Weight weight) const;

    const checkpoint::ModelConfig& config_;
    const Weights& weights_;
    const Kernels& kernels_;
    ThreadPool& pool_;
    bool round_;

    const model::StepInputs* inputs_ = nullptr;
    std::span<const RowPlace> places_;
    std::span<const int32_t> outputs_;

    std::vector<float> arena_;
    size_t arena_top_ = 0;
    size_t layer_mark_ = 0;  // arena and matrices up to here outlive a layer
    size_t layer_matrices_ = 0;
    model::Value streams_[2];  // two places that layers' outputs take turns in
    std::vector<Matrix> matrices_;
    std::vector<Scratch> scratch_;  // one a thread

    std::vector<float> router_probabilities_;
    std::vector<int32_t> routed_experts_;               // [tokens, top_k]
    std::vector<float> routed_weights_;                 // [tokens, top_k]
    std::vector<std::vector<Assignment>> assignments_;  // by expert
    LayerObserver observer_;
};

}  // namespace gemmatrace::cpu
