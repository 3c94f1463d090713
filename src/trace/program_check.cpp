// Compiled programs are run once before they are used: do they fill the caches that they are to change in place?
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/bf16.h"
#include "base/error.h"
#include "trace/device_model.h"

namespace gemmatrace::trace {
namespace {

constexpr const char* kLostWrite =
    "compile the bundle again with another release of neuronx-cc (before 2.24.5133 it lost such writes), and check "
    "that all Neuron packages are of one release";

// Whether there is a value that is not zero, and none that is no number.
bool is_filled(std::span<const std::byte> bytes, hlo::ElementType type) {
    bool is_zero = true;
    const size_t width = hlo::element_bytes(type);
    for (size_t at = 0; at + width <= bytes.size(); at += width) {
        float value = 0.0F;
        if (type == hlo::ElementType::bf16) {
            uint16_t half = 0;
            std::memcpy(&half, bytes.data() + at, 2);
            value = bf16_to_float(half);
        } else {
            std::memcpy(&value, bytes.data() + at, 4);
        }
        if (value != value) return false;
        is_zero = is_zero && value == 0.0F;
    }
    return !is_zero;
}

}  // namespace

// A compiler may drop a write that nothing in the program reads (fault F147), and a rank may keep less than its heads
// (fault F024). So each program meets empty caches, and what it left there is read back from every rank.
void DeviceModel::check_programs() {
    const std::vector<CacheBuffer> caches = cache_buffers(config_, options_.geometry);
    for (const int64_t bucket : options_.buckets) check_programs(bucket, caches);
    clear_caches(caches, options_.geometry.chunk_tokens);
    std::ranges::fill(slots_, Slot());
}

void DeviceModel::check_programs(int64_t bucket, const std::vector<CacheBuffer>& caches) {
    const int64_t chunk = options_.geometry.chunk_tokens;
    const int32_t slot = 0;
    const auto run = [&](ProgramKind program_kind, int32_t written_slot, int64_t rows) {
        device_->start(kind(program_kind).programs.at(bucket));
        device_->wait();
        for (const CacheBuffer& cache : caches) require_filled(cache, written_slot, rows, {program_kind, bucket});
    };
    Slot& sequence = at(slot);
    sequence.ids.resize(static_cast<size_t>(chunk));
    for (int64_t row = 0; row < chunk; ++row) {
        sequence.ids[static_cast<size_t>(row)] = static_cast<int32_t>(row % std::min(config_.vocab_size, 64));
    }
    clear_caches(caches, chunk);
    write_prefill(sequence, slot, 0, chunk);
    run(ProgramKind::prefill, slot, chunk);
    const int32_t row = 0;
    read_choices(ProgramKind::prefill, std::span(&row, 1));
    logits(0);
    if (options_.geometry.slots > 1) {
        const int32_t places[] = {slot, 1};
        write_s32(ProgramKind::copy, kSlot, std::span(places, 1));
        write_s32(ProgramKind::copy, kTarget, std::span(places + 1, 1));
        run(ProgramKind::copy, 1, chunk);
    }
    clear_caches(caches, 1);
    const int32_t id = sequence.ids.front();
    sequence.ids.clear();
    write_decode(std::span(&slot, 1), std::span(&id, 1));
    run(ProgramKind::decode, slot, 1);
    read_choices(ProgramKind::decode, std::span(&slot, 1));
    logits(0);
}

// The first rows of every slot.
void DeviceModel::clear_caches(const std::vector<CacheBuffer>& caches, int64_t rows) {
    for (const CacheBuffer& cache : caches) {
        const size_t row_bytes = cache.shape.bytes() / static_cast<size_t>(cache.shape.dimensions[0]);
        const std::vector<std::byte> zeros(row_bytes * static_cast<size_t>(rows));
        for (int32_t rank = 0; rank < options_.geometry.ranks; ++rank) {
            device_->write(shared_.at(cache.name), rank, 0, zeros);
        }
    }
}

// Each head of the slot has something in the first rows, on each rank.
void DeviceModel::require_filled(const CacheBuffer& cache, int32_t slot, int64_t rows, const ProgramSpec& spec) {
    const auto& sizes = cache.shape.dimensions;  // [rows, slots, heads, head_dim]
    const size_t head_bytes = static_cast<size_t>(sizes[3]) * hlo::element_bytes(cache.shape.type);
    const size_t slot_bytes = head_bytes * static_cast<size_t>(sizes[2]);
    const size_t row_bytes = slot_bytes * static_cast<size_t>(sizes[1]);
    std::vector<std::byte> bytes(row_bytes * static_cast<size_t>(rows));
    for (int32_t rank = 0; rank < options_.geometry.ranks; ++rank) {
        const Device::Read read{shared_.at(cache.name), rank, 0, bytes};
        device_->read(std::span(&read, 1));
        for (int64_t row = 0; row < rows; ++row) {
            for (int64_t head = 0; head < sizes[2]; ++head) {
                const size_t at = static_cast<size_t>(row) * row_bytes + static_cast<size_t>(slot) * slot_bytes +
                                  static_cast<size_t>(head) * head_bytes;
                if (is_filled(std::span(bytes).subspan(at, head_bytes), cache.shape.type)) continue;
                throw Error(
                    ErrorCode::device,
                    fmt::format("the compiled program {} does not write its cache {}", spec.name(), cache.name),
                    {{"rank", std::to_string(rank)}, {"head", std::to_string(head)}, {"row", std::to_string(row)}},
                    kLostWrite);
            }
        }
    }
}

}  // namespace gemmatrace::trace
