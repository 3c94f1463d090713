// The model's slots and the stored tensors that fill them: what every backend binds its weights from.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/tensor_store.h"
#include "model/inputs.h"
#include "model/precision.h"
#include "model/weight_plan.h"

namespace gemmatrace::model {

struct StoredWeights {
    // Binds every slot through the ledger and closes it: throws its errors. The store must outlive the result.
    StoredWeights(const checkpoint::TensorStore& store, const checkpoint::ModelConfig& config);

    const checkpoint::StoredTensor& at(Weight weight) const { return *tensors[static_cast<size_t>(weight.slot)]; }
    // A table whose rows are gathered on the host, upcast to float (through bf16 in that precision).
    TableView table(Weight weight, Precision precision) const;

    WeightPlan plan;
    std::vector<const checkpoint::StoredTensor*> tensors;  // by slot
};

// One stored element as a float; in bf16 precision rounded to it, as loading with that dtype does. Of a bf16, f16 or
// f32 tensor, which is all the ledger lets through.
float stored_element(const checkpoint::StoredTensor& tensor, size_t index, Precision precision);

}  // namespace gemmatrace::model
