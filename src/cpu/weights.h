// The weights of a checkpoint bound to the model's slots: read where they lie in the mapped files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/tensor_store.h"
#include "model/inputs.h"
#include "model/precision.h"
#include "model/stored_weights.h"
#include "model/weight_plan.h"

namespace gemmatrace::cpu {

// What the kernels read for one slot. Exactly one of bf16 and f32 is set.
struct WeightData {
    const uint16_t* bf16 = nullptr;
    const float* f32 = nullptr;
    int64_t rows = 0;  // of one expert where there are several
    int64_t columns = 0;
};

// All slots of a model. Matrices stored in the type that is computed with stay in the mapping; others are converted
// once (f16 and f32 to bf16 in that precision, f16 to f32 in fp32). Vectors are small and always kept as floats.
class Weights {
  public:
    // Binds every slot through the ledger and closes it: throws its errors.
    Weights(const checkpoint::TensorStore& store, const checkpoint::ModelConfig& config, model::Precision precision);

    const model::ModelWeights& handles() const { return stored_.plan.weights; }
    const std::vector<model::WeightSlot>& slots() const { return stored_.plan.slots; }
    const WeightData& at(model::Weight weight) const { return data_[static_cast<size_t>(weight.slot)]; }

    // A table whose rows are gathered on the host, upcast to float (through bf16 in that precision).
    model::TableView table(model::Weight weight) const { return stored_.table(weight, precision_); }

    size_t mapped_bytes() const { return mapped_bytes_; }
    size_t converted_bytes() const { return converted_bytes_; }

    // All values of a slot as floats, and other values, as many, in their place: for tests that plant faults.
    std::vector<float> values(model::Weight weight) const;
    void replace(model::Weight weight, std::span<const float> values);

  private:
    void bind(size_t slot, const checkpoint::StoredTensor& tensor);
    void keep_floats(size_t slot, std::vector<float> values);

    model::Precision precision_;
    model::StoredWeights stored_;
    std::vector<WeightData> data_;
    std::vector<std::vector<float>> owned_floats_;
    std::vector<std::vector<uint16_t>> owned_bf16_;
    size_t mapped_bytes_ = 0;
    size_t converted_bytes_ = 0;
};

}  // namespace gemmatrace::cpu
