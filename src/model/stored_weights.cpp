// Binding of slots to stored tensors.
#include "model/stored_weights.h"

#include <cstring>

#include "base/bf16.h"
#include "checkpoint/ledger.h"

namespace gemmatrace::model {

using checkpoint::Dtype;
using checkpoint::StoredTensor;

float stored_element(const StoredTensor& tensor, size_t index, Precision precision) {
    float value = 0.0F;
    if (tensor.dtype == Dtype::f32) {
        std::memcpy(&value, tensor.data.data() + index * sizeof(float), sizeof(float));
    } else {
        uint16_t bits = 0;
        std::memcpy(&bits, tensor.data.data() + index * sizeof(uint16_t), sizeof(uint16_t));
        if (tensor.dtype == Dtype::bf16) return bf16_to_float(bits);
        value = half_to_float(bits);
    }
    return precision == Precision::bf16 ? round_bf16(value) : value;
}

StoredWeights::StoredWeights(const checkpoint::TensorStore& store, const checkpoint::ModelConfig& config) {
    checkpoint::Ledger ledger(store, config);
    plan = plan_weights(config, false);
    for (const auto& slot : plan.slots) tensors.push_back(&ledger.take(slot.name, slot.shape));
    const auto embedding = static_cast<size_t>(plan.weights.embedding.slot);
    if (const StoredTensor* head = ledger.take_untied_head(*tensors[embedding])) {
        plan = plan_weights(config, true);
        tensors.push_back(head);
    }
    ledger.close();
}

TableView StoredWeights::table(Weight weight, Precision precision) const {
    const StoredTensor* tensor = tensors[static_cast<size_t>(weight.slot)];
    const auto& shape = plan.slots[static_cast<size_t>(weight.slot)].shape;
    const auto columns = static_cast<size_t>(shape[1]);
    return {shape[0], static_cast<int32_t>(columns), [=](int64_t row, std::span<float> values) {
                const size_t first = static_cast<size_t>(row) * columns;
                for (size_t column = 0; column < columns; ++column) {
                    values[column] = stored_element(*tensor, first + column, precision);
                }
            }};
}

}  // namespace gemmatrace::model
