// Weight inputs made on the fly from the mapped checkpoint, a few megabytes at a time: no second copy anywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "model/stored_weights.h"
#include "trace/packing.h"

namespace gemmatrace::trace {

// Receives the input's bytes in order: where they belong, and they themselves, valid during the call.
using ByteSink = std::function<void(size_t offset, std::span<const std::byte> bytes)>;

// Gathers one rank's input and hands it over in slices of about `slice_bytes`. Tensors stored in another type are
// converted to bf16 on the way.
void stream_input(const PackedInput& input, int32_t rank, const model::StoredWeights& weights, size_t slice_bytes,
                  const ByteSink& sink);

}  // namespace gemmatrace::trace
