// Longest common prefixes over all slots, snapshots for what rings forget, and a budget of memory.
#include "engine/slot_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/error.h"

namespace gemmatrace::engine {
namespace {

constexpr size_t kMaxSnapshotsPerSlot = 32;
// A slot is overwritten in place when it would lose fewer tokens than this; otherwise its prefix is copied out.
constexpr int64_t kSmallLoss = 512;

int64_t common_prefix(std::span<const int32_t> left, std::span<const int32_t> right) {
    const size_t limit = std::min(left.size(), right.size());
    return std::mismatch(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(limit), right.begin()).first -
           left.begin();
}

}  // namespace

SlotBook::SlotBook(Backend& backend, const SlotBookOptions& options)
    : backend_(backend), options_(options), records_(static_cast<size_t>(backend.limits().slots)) {
    const size_t whole = backend.slot_bytes(backend.limits().context_tokens);
    if (options.cache_bytes < whole) {
        throw Error(ErrorCode::resource,
                    fmt::format("one sequence of {} tokens takes {} bytes of cache, the limit is {}",
                                backend.limits().context_tokens, whole, options.cache_bytes),
                    {}, "allow more memory for the cache, or serve a shorter context");
    }
    const size_t each = backend.snapshot_bytes();
    if (each > 0 && options.reuses_prefixes) {
        most_saved_ = std::min(kMaxSnapshotsPerSlot * records_.size(), options.snapshot_bytes / each);
    }
}

SlotBook::Source SlotBook::usable(int32_t slot, std::span<const int32_t> ids) const {
    const Record& record = records_[static_cast<size_t>(slot)];
    // The last id is always run, because its logits are wanted.
    int64_t common = common_prefix(ids.first(ids.size() - 1), record.ids);
    if (!backend_.limits().decodes_as_prefill) common = std::min(common, record.prefilled);
    if (common > 0 && backend_.can_trim(slot, common)) return {slot, common, nullptr};
    for (auto saved = record.saved.rbegin(); saved != record.saved.rend(); ++saved) {
        if (saved->length <= common) return {slot, saved->length, saved->snapshot};
    }
    return {};
}

SlotBook::Source SlotBook::best_source(std::span<const int32_t> ids) const {
    Source best;
    for (int32_t slot = 0; slot < static_cast<int32_t>(records_.size()); ++slot) {
        Source source = usable(slot, ids);
        const bool is_better =
            source.length > best.length ||
            (source.length == best.length && best.slot >= 0 && source.slot >= 0 &&
             records_[static_cast<size_t>(best.slot)].is_running && !records_[static_cast<size_t>(slot)].is_running);
        if (is_better) best = std::move(source);
    }
    return best;
}

bool SlotBook::is_worth_waiting(std::span<const int32_t> ids, int64_t usable_tokens) const {
    return std::ranges::any_of(records_, [&](const Record& record) {
        if (!record.is_running || record.ids.size() >= record.planned.size()) return false;
        const int64_t common = common_prefix(ids.first(ids.size() - 1), record.planned);
        return common > usable_tokens + backend_.limits().chunk_tokens &&
               common > static_cast<int64_t>(record.ids.size());
    });
}

bool SlotBook::waits_for_neighbour(std::span<const int32_t> ids, bool may_reuse) const {
    return may_reuse && options_.reuses_prefixes && is_worth_waiting(ids, best_source(ids).length);
}

// The source itself when it is idle and loses little, otherwise the idle slot that was used longest ago; -1: none.
int32_t SlotBook::choose_target(const Source& source) const {
    if (source.slot >= 0) {
        const Record& record = records_[static_cast<size_t>(source.slot)];
        const int64_t loss = static_cast<int64_t>(record.ids.size()) - source.length;
        if (!record.is_running && loss <= std::max(kSmallLoss, source.length / 2)) return source.slot;
    }
    int32_t oldest = -1;
    int32_t fallback = -1;
    for (int32_t slot = 0; slot < static_cast<int32_t>(records_.size()); ++slot) {
        const Record& record = records_[static_cast<size_t>(slot)];
        if (record.is_running) continue;
        fallback = slot;
        if (slot == source.slot) continue;
        if (oldest < 0 || record.last_use < records_[static_cast<size_t>(oldest)].last_use) oldest = slot;
    }
    return oldest >= 0 ? oldest : fallback;
}

void SlotBook::move_into(int32_t target, const Source& source) {
    Record& record = at(target);
    if (source.slot < 0) {
        backend_.trim(target, 0);
        record.ids.clear();
        record.saved.clear();
        record.prefilled = 0;
        return;
    }
    backend_.copy_prefix(source.slot, target, source.length, source.snapshot.get());
    const Record& from = at(source.slot);
    if (target != source.slot) {
        record.ids = from.ids;
        record.saved = from.saved;
        record.prefilled = from.prefilled;
    }
    record.prefilled = std::min(record.prefilled, source.length);
    record.ids.resize(static_cast<size_t>(source.length));
    std::erase_if(record.saved, [&](const Saved& saved) { return saved.length > source.length; });
}

std::optional<SlotBook::Placement> SlotBook::place(std::span<const int32_t> ids, int64_t reserve_tokens,
                                                   bool may_reuse) {
    require(!ids.empty(), "a sequence has at least one token");
    Source source;
    if (may_reuse && options_.reuses_prefixes) {
        source = best_source(ids);
        if (is_worth_waiting(ids, source.length)) return std::nullopt;
    }
    const int32_t target = choose_target(source);
    if (target < 0) return std::nullopt;
    Record& record = at(target);
    record.is_running = true;  // from here on it is not emptied to make room
    const bool is_source_idle = source.slot >= 0 && source.slot != target && !at(source.slot).is_running;
    if (is_source_idle) at(source.slot).is_running = true;
    const bool has_room = make_room(target, reserve_tokens);
    if (is_source_idle) at(source.slot).is_running = false;
    if (!has_room) {
        record.is_running = false;
        return std::nullopt;
    }
    move_into(target, source);
    record.planned.assign(ids.begin(), ids.end());
    record.prompt_end = 0;
    record.reserved = reserve_tokens;
    record.touched = std::max(record.touched, source.length);
    record.last_use = ++clock_;
    return Placement{target, source.length};
}

size_t SlotBook::bytes_of(const Record& record, int64_t at_least) const {
    const int64_t tokens = std::max({record.touched, record.is_running ? record.reserved : 0, at_least});
    return tokens == 0 ? 0 : backend_.slot_bytes(tokens);
}

size_t SlotBook::bytes_used() const {
    size_t bytes = 0;
    for (const Record& record : records_) bytes += bytes_of(record, 0);
    return bytes;
}

// Empties idle slots, those used longest ago first, until the slot may grow to `tokens`.
bool SlotBook::make_room(int32_t slot, int64_t tokens) {
    while (true) {
        const size_t others = bytes_used() - bytes_of(at(slot), 0);
        if (others + bytes_of(at(slot), tokens) <= options_.cache_bytes) return true;
        int32_t victim = -1;
        for (int32_t candidate = 0; candidate < static_cast<int32_t>(records_.size()); ++candidate) {
            const Record& record = at(candidate);
            if (record.is_running || record.touched == 0) continue;
            if (victim < 0 || record.last_use < at(victim).last_use) victim = candidate;
        }
        if (victim < 0) return false;
        empty(victim);
    }
}

bool SlotBook::reserve(int32_t slot, int64_t tokens) {
    if (tokens <= at(slot).reserved) return true;
    if (!make_room(slot, tokens)) return false;
    at(slot).reserved = tokens;
    return true;
}

void SlotBook::empty(int32_t slot) {
    backend_.release(slot);
    Record& record = at(slot);
    record.ids.clear();
    record.saved.clear();
    record.prefilled = 0;
    record.touched = 0;
}

void SlotBook::ran(int32_t slot, std::span<const int32_t> ids, bool is_prefill) {
    Record& record = at(slot);
    if (is_prefill && record.prefilled == static_cast<int64_t>(record.ids.size())) {
        record.prefilled += static_cast<int64_t>(ids.size());
    }
    record.ids.insert(record.ids.end(), ids.begin(), ids.end());
    const auto length = static_cast<int64_t>(record.ids.size());
    record.touched = std::max(record.touched, length);
    record.last_use = ++clock_;
    const bool is_prompt = record.ids.size() < record.planned.size();
    const int64_t last_saved = record.saved.empty() ? 0 : record.saved.back().length;
    if (is_prompt && length - last_saved >= backend_.limits().snapshot_stride) save(slot, length);
    save_prompt_end_in_time(slot);
}

void SlotBook::mark_prompt_end(int32_t slot, int64_t length) {
    // One less, because the same prompt again must run its last token.
    at(slot).prompt_end = length - 1;
    save_prompt_end_in_time(slot);
}

// As late as the rings allow, for a short reply needs none. With fixed chunks they hold what a chunk looks back to
// until the chunk is full.
void SlotBook::save_prompt_end_in_time(int32_t slot) {
    Record& record = at(slot);
    if (record.prompt_end == 0) return;
    const int64_t chunk = backend_.limits().chunk_tokens;
    const int64_t last =
        backend_.limits().has_fixed_chunks ? (record.prompt_end / chunk + 1) * chunk : record.prompt_end + chunk / 2;
    if (static_cast<int64_t>(record.ids.size()) < last) return;
    save(slot, record.prompt_end);
    record.prompt_end = 0;
}

void SlotBook::save(int32_t slot, int64_t length) {
    Record& record = at(slot);
    if (most_saved_ == 0 || length <= 0 || !backend_.can_trim(slot, length)) return;
    const auto after = std::ranges::lower_bound(record.saved, length, {}, &Saved::length);
    if (after != record.saved.end() && after->length == length) return;
    record.saved.insert(after, {length, backend_.save(slot, length)});
    size_t saved = 0;
    for (const Record& each : records_) saved += each.saved.size();
    for (; saved > most_saved_; --saved) drop_one_saved(slot);
}

// A slot that has more than its share gives first, then the one used longest ago; of a slot's snapshots the one whose
// loss costs least, because its neighbours are closest, and the newest last.
void SlotBook::drop_one_saved(int32_t besides) {
    const size_t share = std::max<size_t>(1, most_saved_ / records_.size());
    const auto claim = [&, own = &at(besides)](const Record& record) {
        const bool has_more = record.saved.size() > share;
        return std::tuple(!record.saved.empty(), has_more && &record == own, has_more, &record != own,
                          ~record.last_use);
    };
    std::vector<Saved>& saved = std::ranges::max_element(records_, {}, claim)->saved;
    size_t victim = 0;
    int64_t smallest = INT64_MAX;
    for (size_t index = 0; index + 1 < saved.size(); ++index) {
        const int64_t before = index == 0 ? 0 : saved[index - 1].length;
        const int64_t gap = saved[index + 1].length - before;
        if (gap < smallest) {
            smallest = gap;
            victim = index;
        }
    }
    saved.erase(saved.begin() + static_cast<std::ptrdiff_t>(victim));
}

void SlotBook::free(int32_t slot, bool is_sound) {
    Record& record = at(slot);
    if (record.prompt_end > 0) save(slot, record.prompt_end);
    record.prompt_end = 0;
    record.is_running = false;
    record.planned.clear();
    record.reserved = 0;
    if (!is_sound) empty(slot);
}

}  // namespace gemmatrace::engine
