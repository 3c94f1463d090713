// Random weights that behave like a model's.
#pragma once

#include "checkpoint/synth.h"
#include "model/weight_plan.h"

namespace gemmatrace::cli {

// Values that keep activations finite and every part of the layer visible in the result: linears of variance 1/inputs,
// norms near 1, those of queries and keys small because attention has no 1/sqrt(head_dim), scalars as trained models
// have them.
checkpoint::SynthTensor synthetic_tensor(const model::WeightSlot& slot);

}  // namespace gemmatrace::cli
