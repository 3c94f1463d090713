// What a checkpoint holds and what becomes of it, as one JSON document for `inspect` and for scripts.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "checkpoint/config.h"
#include "checkpoint/ledger.h"
#include "checkpoint/tensor_store.h"

namespace gemmatrace::checkpoint {

// The document; all sizes are bytes of tensor data. `ledger` must have been closed.
// {
//   "model": {"model_type", "is_text_only", "dtype", "hidden_size", "vocab_size", "ple_dim", "ple_vocab_size",
//             "layers", "max_position_embeddings", "sliding_window", "final_softcap" (null: none),
//             "tie_word_embeddings", "has_untied_head", "rope": {"sliding"|"full": {"theta", "rotated_pairs",
//             "factor"}}, "pad_token_id", "bos_token_id", "eos_token_ids", "media_token_ids"},
//   "layers": [{"index", "attention": "sliding"|"full", "q_heads", "kv_heads", "head_dim", "window" (0: none),
//               "k_eq_v", "shares_kv", "kv_layer", "ff", "experts", "top_k", "expert_ff" (0 without experts)}],
//   "files": [{"name", "bytes"}],                      bytes of the whole file
//   "dtypes": [{"dtype", "tensors", "bytes"}],         over all stored tensors
//   "groups": [{"group", "tensors", "bytes"}],         consumed ones: "embedding", "per_layer_table", "attention",
//                                                      "mlp", "experts", "norms_and_scalars", "head", "other"
//   "consumed": {"tensors", "bytes"},
//   "ignored": [{"reason", "tensors", "bytes"}],       by reason, those that occur
//   "total": {"tensors", "bytes"}                      consumed + ignored
// }
nlohmann::ordered_json describe_checkpoint(const ModelConfig& config, const TensorStore& store, const Ledger& ledger);

}  // namespace gemmatrace::checkpoint
