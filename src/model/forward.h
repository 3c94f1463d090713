// The Gemma-4 text model: one forward pass, written once, for whatever interpreter runs it.
#pragma once

#include "checkpoint/config.h"
#include "model/ops.h"
#include "model/weight_plan.h"

namespace gemmatrace::model {

// Runs one step and returns its logits before the final soft cap, [output rows, vocab_size].
// Follows Gemma4ForConditionalGeneration of Transformers 5.13 (gemma4.md 2), for every size.
Value forward(Ops& ops, const checkpoint::ModelConfig& config, const ModelWeights& weights);

}  // namespace gemmatrace::model
