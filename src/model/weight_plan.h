// Which tensors the model needs: one slot a tensor with its stored name, exact shape and role, derived from the config.
#pragma once

#include <cstdint>
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
    host_table,  // never enters the forward pass: rows are gathered on the host (embeddings)
};

// One tensor of the model. `name` is the stored name without the text prefix, e.g. "layers.3.mlp.up_proj.weight".
struct WeightSlot {
    std::string name;
    std::vector<int64_t> shape;
    WeightRole role = WeightRole::replicated;
};

// Every slot of this model, in the order of the forward pass. An untied head is not listed: whether there is one is the
// checkpoint's to say.
std::vector<WeightSlot> weight_plan(const checkpoint::ModelConfig& config);

}  // namespace gemmatrace::model
