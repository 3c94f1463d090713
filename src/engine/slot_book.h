// Which tokens each slot holds, which of them a new request can use again, and how much memory they take.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/backend.h"

namespace gemmatrace::engine {

struct SlotBookOptions {
    size_t cache_bytes = 0;     // for the tokens of all slots
    size_t snapshot_bytes = 0;  // for the snapshots of all slots
    bool reuses_prefixes = true;
};

class SlotBook {
  public:
    // Throws Error(resource) when cache_bytes does not hold one sequence of the whole context.
    SlotBook(Backend& backend, const SlotBookOptions& options);

    struct Placement {
        int32_t slot = 0;
        int64_t cached_tokens = 0;  // the slot holds so many of the ids already
    };
    // A free slot for a sequence that begins with `ids`, holding the longest prefix of them that can be used again
    // (never all of them: the last one's logits are wanted), with memory for `reserve_tokens`. Nothing when no slot is
    // free, when memory is short, or when a running sequence is about to compute a longer prefix of these ids.
    std::optional<Placement> place(std::span<const int32_t> ids, int64_t reserve_tokens, bool may_reuse);
    // Whether place() refuses because a running sequence is about to compute a longer prefix of these ids.
    bool waits_for_neighbour(std::span<const int32_t> ids, bool may_reuse) const;
    // Memory for a longer sequence in a running slot; idle slots are emptied for it. False when that is not enough.
    bool reserve(int32_t slot, int64_t tokens);
    // After the backend ran ids at the end of the slot, by a prefill or by a decode.
    void ran(int32_t slot, std::span<const int32_t> ids, bool is_prefill);
    // The slot's prompt ends at `length`, which it holds: what a next turn most likely shares. A snapshot is taken
    // before it is too late.
    void mark_prompt_end(int32_t slot, int64_t length);
    // The sequence is over; its tokens stay until the room is needed. After a fault of the backend: `is_sound` false,
    // and nothing stays.
    void free(int32_t slot, bool is_sound = true);

    size_t bytes_used() const;
    size_t bytes_budget() const { return options_.cache_bytes; }

  private:
    struct Saved {
        int64_t length = 0;
        std::shared_ptr<const Snapshot> snapshot;
    };
    struct Record {
        std::vector<int32_t> ids;      // what the slot holds
        std::vector<int32_t> planned;  // of a running sequence: what its prompt will have put there
        std::vector<Saved> saved;      // ascending
        int64_t prefilled = 0;         // so many of them by prefill, from the first on
        int64_t prompt_end = 0;        // a length worth a snapshot that has not been taken; 0: none
        int64_t reserved = 0;          // tokens a running sequence may grow to
        int64_t touched = 0;           // tokens the memory of which was taken since the slot was last emptied
        uint64_t last_use = 0;
        bool is_running = false;
    };
    struct Source {
        int32_t slot = -1;
        int64_t length = 0;
        std::shared_ptr<const Snapshot> snapshot;
    };

    Record& at(int32_t slot) { return records_[static_cast<size_t>(slot)]; }
    Source best_source(std::span<const int32_t> ids) const;
    Source usable(int32_t slot, std::span<const int32_t> ids) const;
    bool is_worth_waiting(std::span<const int32_t> ids, int64_t usable_tokens) const;
    int32_t choose_target(const Source& source) const;
    void move_into(int32_t target, const Source& source);
    void save(int32_t slot, int64_t length);
    void drop_one_saved(int32_t besides);
    void save_prompt_end_in_time(int32_t slot);
    void empty(int32_t slot);
    size_t bytes_of(const Record& record, int64_t at_least) const;
    bool make_room(int32_t slot, int64_t tokens);

    Backend& backend_;
    SlotBookOptions options_;
    std::vector<Record> records_;
    size_t most_saved_ = 0;  // snapshots of all slots
    uint64_t clock_ = 0;
};

}  // namespace gemmatrace::engine
