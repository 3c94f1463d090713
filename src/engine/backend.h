// What the engine asks of whatever runs the model: chunks of prompts into slots, one token for each of several slots,
// and the bookkeeping that makes a prefix reusable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "model/precision.h"

namespace gemmatrace::engine {

struct BackendLimits {
    int32_t vocab_size = 0;
    int64_t context_tokens = 0;  // positions of one slot
    int32_t slots = 0;
    int32_t chunk_tokens = 0;  // most tokens of one prefill call
    std::optional<double> final_softcap = {};
    model::Precision precision = model::Precision::bf16;
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

    // Tokens that the slot holds.
    virtual int64_t length(int32_t slot) const = 0;
    // Runs 1 to chunk_tokens ids at the end of the slot. Returns the logits before the cap, valid until the next call:
    // of the last id [vocab_size], or of every id [ids, vocab_size] with `all_rows`. Throws Error(bad_request) for an
    // id outside the vocabulary, Error(too_long) when the slot is full; the slot is unchanged then.
    virtual std::span<const float> prefill(int32_t slot, std::span<const int32_t> ids, bool all_rows) = 0;
    // One id at the end of each slot in one step; returns logits [slots, vocab_size], valid until the next call.
    virtual std::span<const float> decode(std::span<const int32_t> slots, std::span<const int32_t> ids) = 0;

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

    // Memory of a slot that holds so many tokens, and of a snapshot.
    virtual size_t slot_bytes(int64_t tokens) const = 0;
    virtual size_t snapshot_bytes() const = 0;
};

}  // namespace gemmatrace::engine
