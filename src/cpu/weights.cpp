// Binding of slots to stored tensors, with conversion only where the stored type is not the one computed with.
#include "cpu/weights.h"

#include <algorithm>
#include <utility>

#include "base/bf16.h"
#include "base/error.h"

namespace gemmatrace::cpu {
namespace {

using checkpoint::Dtype;
using checkpoint::StoredTensor;

// Whether kernels can read the elements in place.
template <typename Element>
bool is_aligned(const StoredTensor& tensor) {
    return reinterpret_cast<uintptr_t>(tensor.data.data()) % alignof(Element) == 0;
}

size_t stored_elements(const StoredTensor& tensor) { return tensor.data.size() / dtype_bytes(tensor.dtype); }

}  // namespace

Weights::Weights(const checkpoint::TensorStore& store, const checkpoint::ModelConfig& config,
                 model::Precision precision)
    : precision_(precision), stored_(store, config) {
    data_.resize(slots().size());
    owned_floats_.resize(slots().size());
    owned_bf16_.resize(slots().size());
    for (size_t slot = 0; slot < slots().size(); ++slot) bind(slot, *stored_.tensors[slot]);
}

void Weights::keep_floats(size_t slot, std::vector<float> values) {
    owned_floats_[slot] = std::move(values);
    data_[slot].f32 = owned_floats_[slot].data();
}

void Weights::bind(size_t slot, const StoredTensor& tensor) {
    const auto& shape = slots()[slot].shape;
    WeightData& data = data_[slot];
    data.columns = shape.back();
    data.rows = shape.size() > 1 ? shape[shape.size() - 2] : 1;
    const size_t count = stored_elements(tensor);
    const auto converted = [&] {
        std::vector<float> values(count);
        for (size_t index = 0; index < count; ++index) values[index] = model::stored_element(tensor, index, precision_);
        return values;
    };
    if (shape.size() == 1) {
        keep_floats(slot, converted());
        return;
    }
    if (tensor.dtype == Dtype::bf16 && is_aligned<uint16_t>(tensor)) {
        data.bf16 = reinterpret_cast<const uint16_t*>(tensor.data.data());
        mapped_bytes_ += tensor.data.size();
        return;
    }
    const bool wants_bf16 = precision_ == model::Precision::bf16 || tensor.dtype == Dtype::bf16;
    if (!wants_bf16 && tensor.dtype == Dtype::f32 && is_aligned<float>(tensor)) {
        data.f32 = reinterpret_cast<const float*>(tensor.data.data());
        mapped_bytes_ += tensor.data.size();
        return;
    }
    if (slots()[slot].role == model::WeightRole::host_table) {
        mapped_bytes_ += tensor.data.size();  // rows are converted as they are read
        return;
    }
    if (!wants_bf16) {
        keep_floats(slot, converted());
        converted_bytes_ += count * sizeof(float);
        return;
    }
    owned_bf16_[slot].resize(count);
    for (size_t index = 0; index < count; ++index) {
        owned_bf16_[slot][index] = float_to_bf16(model::stored_element(tensor, index, precision_));
    }
    data.bf16 = owned_bf16_[slot].data();
    converted_bytes_ += count * sizeof(uint16_t);
}

std::vector<float> Weights::values(model::Weight weight) const {
    const auto slot = static_cast<size_t>(weight.slot);
    const WeightData& data = data_[slot];
    std::vector<float> values(stored_elements(*stored_.tensors[slot]));
    for (size_t index = 0; index < values.size(); ++index) {
        values[index] = data.bf16 != nullptr ? bf16_to_float(data.bf16[index]) : data.f32[index];
    }
    return values;
}

void Weights::replace(model::Weight weight, std::span<const float> values) {
    const auto slot = static_cast<size_t>(weight.slot);
    require(values.size() == stored_elements(*stored_.tensors[slot]), "a slot is replaced by as many values as it has");
    if (data_[slot].bf16 == nullptr) {
        keep_floats(slot, {values.begin(), values.end()});
        return;
    }
    owned_bf16_[slot].resize(values.size());
    std::transform(values.begin(), values.end(), owned_bf16_[slot].begin(), float_to_bf16);
    data_[slot].bf16 = owned_bf16_[slot].data();
}

}  // namespace gemmatrace::cpu
