// The rope_parameters of a config.json as one RopeSpec an attention kind.
#pragma once

#include "checkpoint/config.h"
#include "checkpoint/fields.h"

namespace gemmatrace::checkpoint {

// Head sizes that decide how many pairs turn: 5.13 builds its tables from config keys, not from the layers, so a table
// may fail to fit the heads it is meant for.
struct RopeDims {
    int32_t layer = 0;         // head_dim of the layers of this kind
    int32_t plain = 0;         // what "default" and "linear" tables are built for
    int32_t proportional = 0;  // what a "proportional" table is built for
};

// The table of one attention kind. `has_both_kinds` says whether layer_types holds sliding and full layers: only then
// does 5.13 let a flat partial_rotary_factor replace that of the entries.
// Throws Error(corrupt) for a missing entry or key and for a table that does not fit the heads, Error(unsupported) for
// a rope_type that Gemma 4 does not use. Source: modeling_rope_utils.py and Gemma4TextRotaryEmbedding of 5.13.
RopeSpec read_rope(const Fields& text, AttentionKind kind, const RopeDims& dims, bool has_both_kinds);

}  // namespace gemmatrace::checkpoint
