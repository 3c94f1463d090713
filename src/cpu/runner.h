// A checkpoint that runs on this machine's CPU: weights mapped, slots of KV cache, one step at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint/config.h"
#include "cpu/isa.h"
#include "model/precision.h"

namespace gemmatrace::cpu {

struct RunnerOptions {
    model::Precision precision = model::Precision::bf16;
    int threads = 0;             // 0: one a core the process may use
    std::optional<Isa> isa;      // nothing: the best of this machine
    int32_t chunk_tokens = 128;  // prompt tokens computed together; changes no bit of any result
};

// The keys and values of one sequence. Created by Runner::new_slot; belongs to that runner.
class Slot {
  public:
    ~Slot();
    Slot(Slot&&) noexcept;
    Slot& operator=(Slot&&) noexcept;

    int64_t length() const;    // tokens run so far
    int64_t capacity() const;  // tokens it may hold
    void clear();              // back to length 0

    // Whether what comes after `length` can be forgotten: the rings of sliding layers still hold the window before it.
    bool can_trim(int64_t length) const;
    void trim(int64_t length);
    // Empties the slot and gives its memory back to the system.
    void release();

    // What sliding layers need to go on at one length. Asks for can_trim(length).
    struct Window;
    std::shared_ptr<const Window> save_window(int64_t length) const;
    // Becomes the first tokens of `from`, which may be this slot, up to the length at which `window` was taken. Both
    // slots have one capacity and runner.
    void copy_prefix(const Slot& from, const Window& window);
    size_t window_bytes() const;

    struct Data;

  private:
    friend class Runner;
    explicit Slot(std::unique_ptr<Data> data);
    std::unique_ptr<Data> data_;
};

// Sizes people ask for.
struct MemoryUse {
    size_t mapped_weight_bytes = 0;     // used where they lie
    size_t converted_weight_bytes = 0;  // copies of tensors stored in another type
    size_t workspace_bytes = 0;
};

class Runner {
  public:
    // Opens the checkpoint in `directory` and binds every weight through the ledger. Throws the errors of the
    // checkpoint room, Error(unsupported) for an instruction set this machine lacks.
    Runner(const std::filesystem::path& directory, const RunnerOptions& options);
    ~Runner();
    Runner(const Runner&) = delete;
    Runner& operator=(const Runner&) = delete;

    const checkpoint::ModelConfig& config() const;
    model::Precision precision() const;
    Isa isa() const;
    int threads() const;
    MemoryUse memory_use() const;

    // A sequence of at most capacity_tokens tokens. Throws Error(too_long) above max_position_embeddings.
    Slot new_slot(int64_t capacity_tokens) const;
    // Bytes a slot of that capacity takes when full.
    size_t slot_bytes(int64_t capacity_tokens) const;

    // Runs ids at the end of the slot (in chunks), and returns the pre-softcap logits of the last one, [vocab_size],
    // valid until the next call. Throws Error(bad_request) for an id outside the vocabulary, Error(too_long) when the
    // slot is full; the slot is unchanged then. `should_stop` is asked between chunks; when it answers true the call
    // ends early with an empty span and the slot holds the chunks that were run.
    std::span<const float> extend(Slot& slot, std::span<const int32_t> ids,
                                  const std::function<bool()>& should_stop = nullptr);

    // One token for each of several slots in one batched step: row i of the result, [slots, vocab_size], belongs to
    // slots[i]. A row's bits do not depend on which other rows are there.
    std::span<const float> decode(std::span<Slot* const> slots, std::span<const int32_t> ids);

    // What a full pass computes on its way, for the comparison with goldens: called after the embedding (layer -1) and
    // after every layer with that layer's output [tokens, hidden_size] and the chunk's first position.
    using LayerObserver = std::function<void(int layer, int64_t first_position, std::span<const float> values)>;
    void set_layer_observer(LayerObserver observer);
    // Logits of every row of the next extend calls, [tokens, vocab_size] a chunk; empty function: only the last row.
    using LogitsObserver = std::function<void(int64_t first_position, std::span<const float> logits)>;
    void set_logits_observer(LogitsObserver observer);

    struct Data;

  private:
    std::unique_ptr<Data> data_;
};

}  // namespace gemmatrace::cpu
