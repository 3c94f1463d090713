// What the engine asks of whatever runs the model: chunks of prompts into slots, one token for each of several slots,
// and the bookkeeping that makes a prefix reusable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "checkpoint/config.h"
#include "model/precision.h"

namespace gemmatrace::engine {

struct BackendLimits {
    int32_t vocab_size = 0;
    int64_t context_tokens = 0;  // positions of one slot
    int32_t slots = 0;
    int32_t chunk_tokens = 0;  // most tokens of one prefill call
    std::optional<double> final_softcap = {};
    model::Precision precision = model::Precision::bf16;
    bool gives_all_rows = true;  // logits of every row of a prefill
    // Chunks begin at multiples of chunk_tokens, and a part of one costs as much as the whole.
    bool has_fixed_chunks = false;
    // Whether a decode leaves the very bits in a slot that a prefill of the same ids would. Where it does not, only
    // what a prefill left is used again, so that a hit changes no bit.
    bool decodes_as_prefill = true;
    // Tokens between two snapshots of a prompt: at most so many are computed again when two prompts part in the middle.
    int64_t snapshot_stride = 256;
};

// What runs the model, for reports.
struct BackendFacts {
    std::string device;  // "cpu", "neuron" or "sim"
    std::string isa;     // of the CPU's kernels
    int threads = 0;
    int32_t ranks = 1;
    size_t mapped_weight_bytes = 0;     // used where they lie
    size_t converted_weight_bytes = 0;  // copies of tensors stored in another type
    size_t workspace_bytes = 0;
};

// What a slot's rings hold at one length; made and understood by one backend.
class Snapshot {
  public:
    virtual ~Snapshot() = default;
};

// Slots are numbered from 0. A row's result never depends on other slots, on the chunking or on how a prefix came into
// the slot. One thread calls.
class Backend {
  public:
    virtual ~Backend() = default;

    virtual const BackendLimits& limits() const = 0;
    // For people: what runs the model, e.g. "CPU, avx2, 2 threads, bf16".
    virtual std::string description() const = 0;
    virtual BackendFacts facts() const = 0;

    // Tokens that the slot holds.
    virtual int64_t length(int32_t slot) const = 0;
    // Runs 1 to chunk_tokens ids at the end of the slot. Gives one row of results, of the last id, or with `all_rows`
    // one of every id, which only is asked for where the limits say so. Throws Error(bad_request) for an id outside the
    // vocabulary, Error(too_long) when the slot is full; the slot is unchanged then.
    virtual void prefill(int32_t slot, std::span<const int32_t> ids, bool all_rows) = 0;
    // One id at the end of each slot in one step; gives a row of results for each.
    virtual void decode(std::span<const int32_t> slots, std::span<const int32_t> ids) = 0;
    // Logits of a row of the last prefill or decode before the cap, [vocab_size], valid until the next of them. Reading
    // them may take a transfer from a device.
    virtual std::span<const float> logits(size_t row) = 0;
    // The id that greedy decoding takes in that row when nothing is suppressed (model::greedy_token), if it is known
    // without the logits.
    virtual std::optional<int32_t> best_id(size_t row) const {
        static_cast<void>(row);
        return std::nullopt;
    }

    // Whether the slot can be cut back to `length` as it is: what sliding layers need of the tokens before is there.
    virtual bool can_trim(int32_t slot, int64_t length) const = 0;
    virtual void trim(int32_t slot, int64_t length) = 0;
    // Empties the slot and gives its memory back.
    virtual void release(int32_t slot) = 0;
    // What sliding layers need to continue at `length`; asks for can_trim(slot, length).
    virtual std::shared_ptr<const Snapshot> save(int32_t slot, int64_t length) const = 0;
    // Makes `to` hold the first `length` tokens of `from`, of which full layers still hold everything; sliding layers
    // come from `snapshot`, taken at that length, or from the slot itself when that is null and can_trim holds. `to`
    // may be `from`.
    virtual void copy_prefix(int32_t from, int32_t to, int64_t length, const Snapshot* snapshot) = 0;

    // Memory of a slot that holds so many tokens, and of a snapshot (0: the model needs none).
    virtual size_t slot_bytes(int64_t tokens) const = 0;
    virtual size_t snapshot_bytes() const = 0;
};

// A model that was opened, before it is known how many slots it is to have. make() is called once.
class BackendSource {
  public:
    virtual ~BackendSource() = default;
    virtual const checkpoint::ModelConfig& config() const = 0;
    // The positions of a slot that can be had: the model's, or what its programs were made for.
    virtual int64_t most_context_tokens() const = 0;
    // The slots that can be had; nothing: as many as memory holds.
    virtual std::optional<int32_t> most_slots() const { return std::nullopt; }
    virtual size_t slot_bytes(int64_t context_tokens) const = 0;
    // Throws Error(too_long) and Error(resource) for more than there can be. It may have more than asked for.
    virtual std::unique_ptr<Backend> make(int32_t slots, int64_t context_tokens) = 0;
};

}  // namespace gemmatrace::engine
