// A checkpoint on a device: the host's side of its programs. Slots and what they hold, inputs of a step, buckets chosen
// by length, weights streamed in, logits of the ranks put together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/tensor_store.h"
#include "model/stored_weights.h"
#include "trace/device.h"
#include "trace/packing.h"
#include "trace/program.h"

namespace gemmatrace::trace {

struct DeviceModelOptions {
    Geometry geometry;
    std::vector<int64_t> buckets;  // ascending; the last is geometry.context_tokens
    // Where a program comes from, e.g. a bundle; empty: it is traced.
    std::function<hlo::Module(const ProgramSpec&)> program_of;
    // Told the bytes of weights that are on the device and those that will be.
    std::function<void(uint64_t done, uint64_t total)> progress;
    // Told of each program before it is loaded.
    std::function<void(const std::string& name, size_t number, size_t total)> on_program;
};

// A slot's tokens are computed anew from the start of the chunk in which they go on, because chunks begin at multiples
// of chunk_tokens; so each slot keeps its ids. One thread calls.
class DeviceModel {
  public:
    // Opens the checkpoint, streams its weights to the device, loads the programs and, where a compiler made them, runs
    // each once to see that it fills its caches. Throws the errors of the checkpoint room, Error(unsupported) for sizes
    // that do not divide.
    DeviceModel(std::unique_ptr<Device> device, const std::filesystem::path& directory, DeviceModelOptions options);

    const checkpoint::ModelConfig& config() const { return config_; }
    const Geometry& geometry() const { return options_.geometry; }
    const Device& device() const { return *device_; }

    int64_t length(int32_t slot) const { return static_cast<int64_t>(at(slot).ids.size()); }
    // Whether the slot can go on from `length`: its rings still hold the window before that chunk.
    bool can_trim(int32_t slot, int64_t length) const;
    void trim(int32_t slot, int64_t length);
    // What a slot's rings hold, on the host; for the lengths that can_trim() allows at that moment.
    struct Rings {
        int64_t written = 0;           // Slot::written of then
        std::vector<std::byte> bytes;  // [ring buffer][rank][ring row], rows of the slot
    };
    Rings save_rings(int32_t slot);
    // `to` becomes the first `length` tokens of `from`, of which full layers still hold everything; rings come from
    // `rings`, saved when can_trim(from, length) held, or from the slot itself when that is null and it holds.
    void copy_prefix(int32_t from, int32_t to, int64_t length, const Rings* rings = nullptr);

    // Runs ids at the end of the slot; one row of results, of the last id. Throws Error(bad_request) for an id outside
    // the vocabulary, Error(too_long) when the slot is full.
    void prefill(int32_t slot, std::span<const int32_t> ids);
    // One id at the end of each of several slots; a row of results for each.
    void decode(std::span<const int32_t> slots, std::span<const int32_t> ids);
    // What the ranks' programs chose for each row of the last call: the id under the decision rule (model/decision.h).
    const std::vector<int32_t>& best_ids() const { return best_ids_; }
    // Logits of a row of the last call before the cap, [vocab_size], valid until the next one. They come from the
    // device when they are asked for, which greedy decoding does not need.
    std::span<const float> logits(size_t row);

    size_t slot_bytes() const { return cache_bytes_of_slot(config_, options_.geometry); }  // of all ranks
    size_t rings_bytes() const;                                                            // of Rings

  private:
    struct Slot {
        std::vector<int32_t> ids;
        int64_t written = 0;  // one more than the highest position that a ring row was written for
    };
    struct Kind {
        std::map<std::string, Device::Buffer> buffers;  // inputs and outputs of this kind of program
        std::map<int64_t, Device::Program> programs;    // by bucket
    };

    Slot& at(int32_t slot) { return slots_.at(static_cast<size_t>(slot)); }
    const Slot& at(int32_t slot) const { return slots_.at(static_cast<size_t>(slot)); }
    void check_types() const;
    bool decides_by_cap() const {
        return config_.final_softcap && options_.geometry.precision == model::Precision::bf16;
    }
    void stream_weights();
    void require_arrived(const PackedInput& input, Device::Buffer buffer, int32_t rank,
                         const std::vector<std::byte>& ending);
    void release_stored(const PackedInput& input);
    void load_programs();
    void check_programs();
    void check_programs(int64_t bucket, const std::vector<CacheBuffer>& caches);
    void clear_caches(const std::vector<CacheBuffer>& caches, int64_t rows);
    void require_filled(const CacheBuffer& cache, int32_t slot, int64_t rows, const ProgramSpec& spec);
    Device::Buffer buffer_of(ProgramKind kind, const std::string& name, size_t bytes);
    Kind& kind(ProgramKind kind) { return kinds_[static_cast<size_t>(kind)]; }
    void write(ProgramKind kind, const char* name, std::span<const std::byte> bytes);
    void write_values(ProgramKind kind, const char* name, const std::vector<float>& values);
    void write_s32(ProgramKind kind, const char* name, std::span<const int32_t> values);
    void write_inputs(ProgramKind kind, std::span<const int32_t> ids, std::span<const int64_t> positions);
    void restore_rings(int32_t slot, const Rings& rings);
    void for_rings(const std::function<void(Device::Buffer, size_t row_bytes)>& work) const;
    void read_ring(Device::Buffer buffer, size_t row_bytes);
    void ring_positions(const Slot& slot, int64_t end, std::span<int32_t> held) const;
    Device::Program program_for(ProgramKind kind, int64_t cached);
    void write_prefill(const Slot& slot, int32_t index, int64_t begin, int64_t end);
    int64_t write_decode(std::span<const int32_t> slots, std::span<const int32_t> ids);
    void read_choices(ProgramKind kind, std::span<const int32_t> rows);
    [[noreturn]] void give_up(size_t rank);

    std::unique_ptr<Device> device_;
    DeviceModelOptions options_;
    checkpoint::ModelConfig config_;
    checkpoint::TensorStore store_;
    model::StoredWeights weights_;
    Packing packing_;
    model::InputBuilder inputs_;
    std::map<std::string, Device::Buffer> shared_;  // weights and caches, by name
    Kind kinds_[3];
    std::vector<Slot> slots_;

    // Buffers that keep their storage from step to step.
    model::StepInputs step_;
    std::vector<int64_t> positions_;
    std::vector<int32_t> narrow_positions_;
    std::vector<int32_t> step_ids_;
    std::vector<int32_t> full_rows_;
    std::vector<int32_t> ring_rows_;
    std::vector<int32_t> held_;    // by ring rows
    std::vector<std::byte> ring_;  // of all slots: [rank][ring row][slot], a buffer at a time
    std::vector<uint16_t> halves_;
    std::vector<Device::Read> reads_;
    ProgramKind results_ = ProgramKind::prefill;  // the kind of the last call, and where its rows lie in the outputs
    std::vector<int32_t> result_rows_;
    std::vector<float> logits_;  // [rows, vocab_size], of rows that were asked for
    std::vector<uint8_t> has_logits_;
    std::vector<float> rank_values_;  // [rank][row], and which ids have them
    std::vector<int32_t> rank_ids_;
    std::vector<float> best_values_;
    std::vector<int32_t> best_ids_;
};

}  // namespace gemmatrace::trace
