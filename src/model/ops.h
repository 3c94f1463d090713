// The operations the architecture is written in. One interpreter executes them on the CPU, another appends HLO.
#pragma once

#include <cstdint>
#include <optional>

#include "checkpoint/config.h"
#include "model/weight_plan.h"

namespace gemmatrace::model {

// A handle to a matrix [rows, columns] of the current step; rows are the step's tokens, heads lie side by side in the
// columns. Cheap to copy; valid until the end of the step, or of the layer in which it was made (Ops::end_layer).
struct Value {
    int32_t id = -1;
    int32_t columns = 0;
};

// This step's keys and values of one layer, already part of what attention sees.
struct KeysValues {
    int32_t layer = -1;  // the layer that owns them
    Value keys;          // [tokens, kv_heads * head_dim], normed and rotated
    Value values;        // [tokens, kv_heads * head_dim], normed
};

// Which experts each token goes to, best first, and with what fp32 weights.
struct Routing {
    int32_t id = -1;
    int32_t top_k = 0;
};

// Everything below is defined by gemma4.md section 2 and its table 2.10. R is the one rounding at the end of an
// operation to the type of activations (bf16, or nothing in fp32); where an operation rounds more than once it says so.
// An interpreter gives each row a result that depends on that row alone.
class Ops {
  public:
    virtual ~Ops() = default;

    // --- host inputs of the step (model/inputs.h) ---
    virtual Value embeddings() = 0;      // scaled embedding rows [tokens, hidden_size]
    virtual Value per_layer_rows() = 0;  // scaled rows of the per-layer table [tokens, layers * ple_dim]

    // --- arithmetic ---
    // R(W x); the sum over columns in fp32, in the order of table 2.10. A row weight's partial sums over ranks are
    // added in fp32 before the R.
    virtual Value linear(Value x, Weight weight) = 0;
    // R(x / sqrt(mean(x^2) + eps) * w) over each group of `group` columns; without a weight the factor is left out.
    virtual Value rms_norm(Value x, std::optional<Weight> weight, int32_t group) = 0;
    // R(R(x cos) + R(rotate_half(x) sin)) in every head of head_dim columns, by the step's positions.
    virtual Value rope(Value x, checkpoint::AttentionKind kind, int32_t head_dim) = 0;
    // R(R(gelu_tanh(gate)) * up).
    virtual Value gelu_mul(Value gate, Value up) = 0;
    virtual Value add(Value a, Value b) = 0;          // R(a + b)
    virtual Value scale(Value x, double factor) = 0;  // R(x * float(factor)); the factor itself is not rounded to bf16
    virtual Value multiply(Value x, Weight weight) = 0;                // R(x * w), w: [columns] or [1]
    virtual Value columns(Value x, int32_t first, int32_t count) = 0;  // a part of every row

    // --- attention ---
    // Hands this step's keys and values to the cache of `layer` and returns them as attention will see them; what it
    // returns lives until the end of the step.
    virtual KeysValues keep(int32_t layer, Value keys, Value values) = 0;
    // Softmax attention of every query head over all keys of kv's layer up to the row's position, within spec.window;
    // query head j reads kv head j / (q_heads / kv_heads). Scores R(q k), softmax in fp32, R; sums R(P v).
    virtual Value attend(Value q, const KeysValues& kv, const checkpoint::LayerSpec& spec) = 0;

    // --- mixture of experts ---
    // Softmax over router logits in fp32, the top_k best (ties as the reference leaves them, gemma4.md 2.4), divided by
    // their sum, times per_expert_scale; kept in fp32.
    virtual Routing route(Value router_logits, Weight per_expert_scale, int32_t top_k) = 0;
    // Sum over a token's experts of weight * R(W_down R(R(gelu(W_gate x)) * R(W_up x))) in fp32, best first, one R.
    // gate_up: [experts, 2 ff, hidden], gate rows first; down: [experts, hidden, ff].
    virtual Value experts(Value x, const Routing& routing, Weight gate_up, Weight down) = 0;

    // --- stages ---
    // Ends a layer: `stream` lives on in the value returned, everything else made since the last call may be forgotten.
    // layer -1 ends the part before the first layer, whose values live until the end of the step.
    virtual Value end_layer(int32_t layer, Value stream) = 0;
    // The rows whose logits the step asks for.
    virtual Value output_rows(Value stream) = 0;
};

}  // namespace gemmatrace::model
