// The programs of a bundle: prefill of a chunk of one slot and decode of a token of every slot, traced from the model's
// forward pass.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "hlo/module.h"
#include "model/precision.h"
#include "model/weight_plan.h"
#include "trace/packing.h"

namespace gemmatrace::trace {

// What all programs of a bundle share, since they work on the same weights and caches.
struct Geometry {
    int32_t ranks = 1;
    int32_t slots = 1;           // of the caches; a decode program serves all of them
    int64_t context_tokens = 0;  // positions of a slot; a multiple of chunk_tokens
    int32_t chunk_tokens = 64;   // of a prefill program, whose chunks begin at multiples of it
    // Of values between operations and in the caches; weights are bf16 always. fp32 is the judge.
    model::Precision precision = model::Precision::bf16;

    hlo::ElementType value_type() const;

    // Rows of a sliding layer's ring: its window and a chunk, so that a chunk's write neither wraps nor meets what its
    // own rows still see.
    int64_t ring_rows(const checkpoint::ModelConfig& config) const;
    // Throws Error(bad_request) for sizes that no program can have.
    void check(const checkpoint::ModelConfig& config) const;
    bool operator==(const Geometry&) const = default;
};

enum class ProgramKind {
    prefill,  // a chunk of one slot
    decode,   // a token of every slot
    copy,     // the first bucket rows, and the rings, of slot kSlot become those of slot kTarget
};

struct ProgramSpec {
    ProgramKind kind = ProgramKind::decode;
    int64_t bucket = 0;  // cached positions it reads: all there may be when it runs

    // "decode_c512", "prefill_c512", "copy_c512"
    std::string name() const;
    bool operator==(const ProgramSpec&) const = default;
};

// Names of inputs and outputs beside the packed weights. R: rows of the step, the chunk's tokens or the slots. Of the
// geometry's type except for s32 positions, places and ranks.
inline constexpr const char* kEmbeddings = "embeddings";           // [R, hidden_size], scaled
inline constexpr const char* kPerLayerRows = "per_layer_rows";     // [R, layers * ple_dim], scaled
inline constexpr const char* kSlidingCosines = "sliding_cosines";  // [R, head_dim], and three more tables
inline constexpr const char* kSlidingSines = "sliding_sines";
inline constexpr const char* kFullCosines = "full_cosines";
inline constexpr const char* kFullSines = "full_sines";
inline constexpr const char* kPositions = "positions";  // s32 [R]: absolute
inline constexpr const char* kFullRows = "full_rows";   // s32: cache row of a chunk's first token [], of each slot [R]
inline constexpr const char* kRingRows = "ring_rows";   // the same for the rings
inline constexpr const char* kRingPositions = "ring_positions";  // s32 [ring] or [R, ring]: what rows hold; -1: nothing
inline constexpr const char* kSlot = "slot";                     // s32 []: of a prefill
inline constexpr const char* kTarget = "target";                 // s32 []: of a copy
inline constexpr const char* kOutputRow = "output_row";  // s32 []: of a prefill, the row whose logits are wanted
inline constexpr const char* kRank = "rank";             // s32 []
inline constexpr const char* kCapThresholds = "cap_thresholds";  // bf16 [n]: model::cap_thresholds, in bf16 with a cap
inline constexpr const char* kLogits = "logits";                 // f32 [O, vocab / ranks]: before the cap; O: 1 or R
inline constexpr const char* kBestValue = "best_value";          // f32 [O]: this rank's largest logit
inline constexpr const char* kBestId = "best_id";                // s32 [O]: lowest id that the cap maps to the same

std::string keys_name(int32_t layer);
std::string values_name(int32_t layer);

// The keys or the values of a layer that owns some: [rows, slots, local kv heads, head_dim]. Rows are
// context_tokens (or the ring's) and one that nobody reads, where slots that take no part in a decode write.
struct CacheBuffer {
    std::string name;
    int32_t layer = 0;
    bool is_ring = false;
    hlo::Shape shape;
};
std::vector<CacheBuffer> cache_buffers(const checkpoint::ModelConfig& config, const Geometry& geometry);
// Bytes of the caches of one slot on all ranks.
size_t cache_bytes_of_slot(const checkpoint::ModelConfig& config, const Geometry& geometry);

// Traces a program. `plan` and `packing` belong to `config` and geometry.ranks. One module serves all ranks.
hlo::Module trace_program(const checkpoint::ModelConfig& config, const model::WeightPlan& plan, const Packing& packing,
                          const Geometry& geometry, const ProgramSpec& spec);

}  // namespace gemmatrace::trace
