// The host prepares what it knows better than a program: rows of tables, angles, positions and places.
#include "trace/device_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/bf16.h"
#include "base/error.h"
#include "model/decision.h"
#include "trace/weight_stream.h"

namespace gemmatrace::trace {
namespace {

constexpr size_t kSliceBytes = size_t{4} << 20;

template <typename Element>
std::span<const std::byte> bytes_of(const std::vector<Element>& values) {
    return std::as_bytes(std::span(values));
}

// The name of the buffer behind a parameter.
std::string buffer_name(const std::string& parameter) {
    return parameter.ends_with(hlo::kAliasSuffix) ? parameter.substr(0, parameter.size() - hlo::kAliasSuffix.size())
                                                  : parameter;
}

}  // namespace

DeviceModel::DeviceModel(std::unique_ptr<Device> device, const std::filesystem::path& directory,
                         DeviceModelOptions options)
    : device_(std::move(device)),
      options_(std::move(options)),
      config_(checkpoint::load_config(directory)),
      store_(checkpoint::TensorStore::open(directory)),
      weights_(store_, config_),
      inputs_(config_, options_.geometry.precision,
              weights_.table(weights_.plan.weights.embedding, options_.geometry.precision),
              weights_.plan.weights.ple_embedding
                  ? weights_.table(*weights_.plan.weights.ple_embedding, options_.geometry.precision)
                  : model::TableView{}),
      slots_(static_cast<size_t>(options_.geometry.slots)) {
    options_.geometry.check(config_);
    require(options_.geometry.ranks == device_->ranks(), "a bundle's ranks are the device's");
    check_types();
    packing_ = pack_weights(config_, weights_.plan, options_.geometry.ranks);
    stream_weights();
    for (const CacheBuffer& cache : cache_buffers(config_, options_.geometry)) {
        shared_[cache.name] = device_->allocate(cache.name, cache.shape.bytes());
    }
    load_programs();
}

// In fp32 nothing may be lost on the way, and weights are packed as bf16.
void DeviceModel::check_types() const {
    if (options_.geometry.precision == model::Precision::bf16) return;
    for (const checkpoint::StoredTensor* tensor : weights_.tensors) {
        if (tensor->dtype == checkpoint::Dtype::bf16) continue;
        throw Error(ErrorCode::unsupported,
                    fmt::format("programs in fp32 take bf16 weights, and {} is {}", tensor->name,
                                checkpoint::dtype_name(tensor->dtype)),
                    {}, "use --precision bf16, or --device cpu");
    }
}

void DeviceModel::stream_weights() {
    uint64_t total = 0, done = 0;
    for (const PackedInput& input : packing_.inputs) {
        total += static_cast<uint64_t>(input.bytes()) * static_cast<uint64_t>(options_.geometry.ranks);
    }
    for (const PackedInput& input : packing_.inputs) {
        const Device::Buffer buffer = device_->allocate(input.name, static_cast<size_t>(input.bytes()));
        shared_[input.name] = buffer;
        for (int32_t rank = 0; rank < options_.geometry.ranks; ++rank) {
            stream_input(input, rank, weights_, kSliceBytes, [&](size_t offset, std::span<const std::byte> bytes) {
                device_->write(buffer, rank, offset, bytes);
                done += bytes.size();
                if (options_.progress) options_.progress(done, total);
            });
        }
    }
}

Device::Buffer DeviceModel::buffer_of(ProgramKind program_kind, const std::string& name, size_t bytes) {
    const std::string plain = buffer_name(name);
    if (const auto found = shared_.find(plain); found != shared_.end()) return found->second;
    auto [found, is_new] = kind(program_kind).buffers.try_emplace(plain, -1);
    if (is_new) found->second = device_->allocate(plain, bytes);
    return found->second;
}

void DeviceModel::load_programs() {
    for (const ProgramKind program_kind : {ProgramKind::prefill, ProgramKind::decode, ProgramKind::copy}) {
        if (program_kind == ProgramKind::copy && options_.geometry.slots == 1) continue;
        for (const int64_t bucket : options_.buckets) {
            const ProgramSpec spec{program_kind, bucket};
            hlo::Module module = options_.program_of
                                     ? options_.program_of(spec)
                                     : trace_program(config_, weights_.plan, packing_, options_.geometry, spec);
            const auto buffer = [&](const std::string& name, size_t bytes) {
                return buffer_of(program_kind, name, bytes);
            };
            kind(program_kind).programs[bucket] = device_->load(std::move(module), buffer);
        }
    }
    const auto fill = [&](ProgramKind program_kind) {
        auto& buffers = kind(program_kind).buffers;
        for (int32_t rank = 0; rank < options_.geometry.ranks; ++rank) {
            device_->write(buffers.at(kRank), rank, 0, std::as_bytes(std::span(&rank, 1)));
        }
        if (decides_by_cap()) write_values(program_kind, kCapThresholds, model::cap_thresholds(*config_.final_softcap));
    };
    fill(ProgramKind::prefill);
    fill(ProgramKind::decode);
}

// --- slots

// The rows that a prefill from there, or a decode, looks back to.
bool DeviceModel::can_trim(int32_t slot, int64_t length) const {
    const int64_t chunk = options_.geometry.chunk_tokens;
    const int64_t oldest = std::max<int64_t>(0, length / chunk * chunk - config_.sliding_window + 1);
    return length <= this->length(slot) && oldest >= at(slot).written - options_.geometry.ring_rows(config_);
}

void DeviceModel::trim(int32_t slot, int64_t length) {
    at(slot).ids.resize(static_cast<size_t>(length));
    if (length == 0) at(slot).written = 0;
}

void DeviceModel::copy_prefix(int32_t from, int32_t to, int64_t length) {
    if (from != to) {
        const int32_t slots[] = {from, to};
        write_s32(ProgramKind::copy, kSlot, std::span(slots, 1));
        write_s32(ProgramKind::copy, kTarget, std::span(slots + 1, 1));
        run(ProgramKind::copy, length);
        at(to) = at(from);
    }
    trim(to, length);
}

// What each ring row holds of positions before `end`; -1 where something later was written, or nothing.
void DeviceModel::ring_positions(const Slot& slot, int64_t end, std::span<int32_t> held) const {
    const auto rows = static_cast<int64_t>(held.size());
    for (int64_t row = 0; row < rows; ++row) {
        const int64_t last = slot.written - 1;
        const int64_t position = last < row ? -1 : last - (last - row) % rows;
        held[static_cast<size_t>(row)] = position < end ? static_cast<int32_t>(position) : -1;
    }
}

// --- a step

void DeviceModel::write(ProgramKind program_kind, const char* name, std::span<const std::byte> bytes) {
    const auto& buffers = kind(program_kind).buffers;
    const auto found = buffers.find(name);
    if (found == buffers.end()) return;  // a model without such layers has no such input
    for (int32_t rank = 0; rank < options_.geometry.ranks; ++rank) device_->write(found->second, rank, 0, bytes);
}

void DeviceModel::write_values(ProgramKind program_kind, const char* name, const std::vector<float>& values) {
    if (options_.geometry.precision == model::Precision::fp32) return write(program_kind, name, bytes_of(values));
    halves_.resize(values.size());
    std::ranges::transform(values, halves_.begin(), float_to_bf16);
    write(program_kind, name, bytes_of(halves_));
}

void DeviceModel::write_s32(ProgramKind program_kind, const char* name, std::span<const int32_t> values) {
    write(program_kind, name, std::as_bytes(values));
}

void DeviceModel::write_inputs(ProgramKind program_kind, std::span<const int32_t> ids,
                               std::span<const int64_t> positions) {
    inputs_.build(ids, positions, step_);
    write_values(program_kind, kEmbeddings, step_.embeddings);
    write_values(program_kind, kPerLayerRows, step_.per_layer_rows);
    write_values(program_kind, kSlidingCosines, step_.sliding_cosines);
    write_values(program_kind, kSlidingSines, step_.sliding_sines);
    write_values(program_kind, kFullCosines, step_.full_cosines);
    write_values(program_kind, kFullSines, step_.full_sines);
    narrow_positions_.assign(positions.begin(), positions.end());
    write_s32(program_kind, kPositions, narrow_positions_);
}

// The smallest program that reads so many cached positions.
void DeviceModel::run(ProgramKind program_kind, int64_t cached) {
    const auto program = kind(program_kind).programs.lower_bound(cached);
    require(program != kind(program_kind).programs.end(), "the largest bucket is the whole context");
    device_->run(program->second);
}

std::span<const float> DeviceModel::prefill(int32_t slot, std::span<const int32_t> ids) {
    Slot& sequence = at(slot);
    require(!ids.empty(), "a slot is extended by at least one token");
    inputs_.check_ids(ids);
    model::check_room(length(slot), ids.size(), options_.geometry.context_tokens);
    const auto old = static_cast<int64_t>(sequence.ids.size());
    sequence.ids.insert(sequence.ids.end(), ids.begin(), ids.end());
    const auto end = static_cast<int64_t>(sequence.ids.size());
    const int64_t chunk = options_.geometry.chunk_tokens;
    for (int64_t begin = old / chunk * chunk; begin < end; begin += chunk) {
        prefill_chunk(sequence, slot, begin, std::min(begin + chunk, end));
    }
    return logits_;
}

// Tokens [begin, end) of the slot; the rows of the chunk beyond them are computed from nothing that matters, and
// written where nobody looks before they are written again.
void DeviceModel::prefill_chunk(Slot& slot, int32_t index, int64_t begin, int64_t end) {
    constexpr ProgramKind kPrefill = ProgramKind::prefill;
    const int64_t chunk = options_.geometry.chunk_tokens;
    const int64_t ring = options_.geometry.ring_rows(config_);
    step_ids_.assign(slot.ids.begin() + begin, slot.ids.begin() + end);
    step_ids_.resize(static_cast<size_t>(chunk), slot.ids[static_cast<size_t>(begin)]);
    positions_.resize(static_cast<size_t>(chunk));
    for (int64_t row = 0; row < chunk; ++row) positions_[static_cast<size_t>(row)] = begin + row;
    write_inputs(kPrefill, step_ids_, positions_);
    const int32_t places[] = {static_cast<int32_t>(begin), static_cast<int32_t>(begin % ring), index,
                              static_cast<int32_t>(end - begin - 1)};
    write_s32(kPrefill, kFullRows, std::span(places, 1));
    write_s32(kPrefill, kRingRows, std::span(places + 1, 1));
    write_s32(kPrefill, kSlot, std::span(places + 2, 1));
    write_s32(kPrefill, kOutputRow, std::span(places + 3, 1));
    held_.resize(static_cast<size_t>(ring));
    ring_positions(slot, begin, held_);
    write_s32(kPrefill, kRingPositions, held_);
    run(kPrefill, begin);
    slot.written = std::max(slot.written, begin + chunk);
    const int32_t row = 0;
    read_results(kPrefill, std::span(&row, 1));
}

std::span<const float> DeviceModel::decode(std::span<const int32_t> slots, std::span<const int32_t> ids) {
    constexpr ProgramKind kDecode = ProgramKind::decode;
    require(slots.size() == ids.size() && !ids.empty(), "a step decodes one token for each of its slots");
    inputs_.check_ids(ids);
    for (const int32_t slot : slots) model::check_room(length(slot), 1, options_.geometry.context_tokens);
    const auto rows = static_cast<size_t>(options_.geometry.slots);
    const int64_t ring = options_.geometry.ring_rows(config_);
    // Slots that take no part see themselves alone and write to the row that nobody reads.
    step_ids_.assign(rows, ids.front());
    positions_.assign(rows, 0);
    full_rows_.assign(rows, static_cast<int32_t>(options_.geometry.context_tokens));
    ring_rows_.assign(rows, static_cast<int32_t>(ring));
    const auto ring_size = static_cast<size_t>(ring);
    held_.assign(rows * ring_size, -1);
    int64_t cached = 0;
    for (size_t index = 0; index < slots.size(); ++index) {
        const auto row = static_cast<size_t>(slots[index]);
        Slot& slot = at(slots[index]);
        const auto position = static_cast<int64_t>(slot.ids.size());
        step_ids_[row] = ids[index];
        positions_[row] = position;
        full_rows_[row] = static_cast<int32_t>(position);
        ring_rows_[row] = static_cast<int32_t>(position % ring);
        ring_positions(slot, position, std::span(held_).subspan(row * ring_size, ring_size));
        cached = std::max(cached, position);
    }
    write_inputs(kDecode, step_ids_, positions_);
    write_s32(kDecode, kFullRows, full_rows_);
    write_s32(kDecode, kRingRows, ring_rows_);
    write_s32(kDecode, kRingPositions, held_);
    run(kDecode, cached);
    for (size_t index = 0; index < slots.size(); ++index) {
        Slot& slot = at(slots[index]);
        slot.ids.push_back(ids[index]);
        slot.written = std::max(slot.written, static_cast<int64_t>(slot.ids.size()));
    }
    read_results(kDecode, slots);
    return logits_;
}

// Logits [rows, vocab_size] from the ranks' shards, and of their choices the one that the decision rule takes: the
// highest capped value, the lowest id on ties.
void DeviceModel::read_results(ProgramKind program_kind, std::span<const int32_t> rows) {
    const auto& buffers = kind(program_kind).buffers;
    const auto vocab = static_cast<size_t>(config_.vocab_size);
    const size_t local = vocab / static_cast<size_t>(options_.geometry.ranks);
    logits_.resize(rows.size() * vocab);
    best_ids_.assign(rows.size(), -1);
    best_values_.resize(rows.size());
    for (int32_t rank = 0; rank < options_.geometry.ranks; ++rank) {
        for (size_t index = 0; index < rows.size(); ++index) {
            const auto row = static_cast<size_t>(rows[index]);
            const std::span<float> shard =
                std::span(logits_).subspan(index * vocab + static_cast<size_t>(rank) * local, local);
            device_->read(buffers.at(kLogits), rank, row * local * 4, std::as_writable_bytes(shard));
            float value = 0.0F;
            int32_t id = 0;
            device_->read(buffers.at(kBestValue), rank, row * 4, std::as_writable_bytes(std::span(&value, 1)));
            device_->read(buffers.at(kBestId), rank, row * 4, std::as_writable_bytes(std::span(&id, 1)));
            if (id < 0 || id >= config_.vocab_size) {
                throw Error(ErrorCode::device, fmt::format("rank {} computed logits that are no numbers", rank), {},
                            "check the checkpoint's weights with `gemmatrace inspect`");
            }
            if (decides_by_cap()) value = model::softcapped(value, *config_.final_softcap, model::Precision::bf16);
            if (rank == 0 || value > best_values_[index]) {
                best_values_[index] = value;
                best_ids_[index] = id;
            }
        }
    }
}

}  // namespace gemmatrace::trace
