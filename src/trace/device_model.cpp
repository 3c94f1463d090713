// The host prepares what it knows better than a program: rows of tables, angles, positions and places.
#include "trace/device_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/bf16.h"
#include "base/error.h"
#include "model/decision.h"
#include "trace/weight_stream.h"

namespace gemmatrace::trace {
namespace {

constexpr size_t kComparedBytes = 4096;  // of what was written, at its end

template <typename Element>
std::span<const std::byte> bytes_of(const std::vector<Element>& values) {
    return std::as_bytes(std::span(values));
}

// The name of the buffer behind a parameter.
std::string buffer_name(const std::string& parameter) {
    return parameter.ends_with(hlo::kAliasSuffix) ? parameter.substr(0, parameter.size() - hlo::kAliasSuffix.size())
                                                  : parameter;
}

// In blocks without a branch, for a step looks at a quarter of a million values.
bool has_nan(std::span<const float> values) {
    int found = 0;
    for (const float value : values) found |= static_cast<int>(value != value);
    return found != 0;
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
    if (device_->is_compiled()) check_programs();
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
            std::vector<std::byte> ending;
            stream_input(input, rank, weights_, kTransferBytes, [&](size_t offset, std::span<const std::byte> bytes) {
                device_->write(buffer, rank, offset, bytes);
                const auto tail = bytes.last(std::min(bytes.size(), kComparedBytes));
                ending.assign(tail.begin(), tail.end());
                done += bytes.size();
                if (options_.progress) options_.progress(done, total);
            });
            require_arrived(input, buffer, rank, ending);
        }
        release_stored(input);
    }
}

// A weight that did not come through would only show as worse text (fault F048).
void DeviceModel::require_arrived(const PackedInput& input, Device::Buffer buffer, int32_t rank,
                                  const std::vector<std::byte>& ending) {
    std::vector<std::byte> found(ending.size());
    const Device::Read read{buffer, rank, static_cast<size_t>(input.bytes()) - ending.size(), found};
    device_->read(std::span(&read, 1));
    if (found == ending) return;
    throw Error(ErrorCode::device, fmt::format("the weights {} did not arrive on rank {}", input.name, rank), {},
                "start again; when it comes back, check the accelerator");
}

// What is on the device is not read again here, but for the tables whose rows the host looks up.
void DeviceModel::release_stored(const PackedInput& input) {
    const model::ModelWeights& weights = weights_.plan.weights;
    for (const auto& pieces : input.pieces) {
        for (const Piece& piece : pieces) {
            if (piece.slot == weights.embedding.slot) continue;
            if (weights.ple_embedding && piece.slot == weights.ple_embedding->slot) continue;
            store_.release(*weights_.tensors[static_cast<size_t>(piece.slot)]);
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
    const auto kinds = options_.geometry.slots == 1
                           ? std::vector{ProgramKind::prefill, ProgramKind::decode}
                           : std::vector{ProgramKind::prefill, ProgramKind::decode, ProgramKind::copy};
    const size_t total = kinds.size() * options_.buckets.size();
    size_t done = 0;
    for (const ProgramKind program_kind : kinds) {
        for (const int64_t bucket : options_.buckets) {
            const ProgramSpec spec{program_kind, bucket};
            if (options_.on_program) options_.on_program(spec.name(), ++done, total);
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

// Buffers interleave the slots, and a transfer of each row would cost more than the rows of all slots at once.
void DeviceModel::for_rings(const std::function<void(Device::Buffer, size_t row_bytes)>& work) const {
    for (const CacheBuffer& cache : cache_buffers(config_, options_.geometry)) {
        if (!cache.is_ring) continue;
        const auto rows = static_cast<size_t>(cache.shape.dimensions[0] * cache.shape.dimensions[1]);
        work(shared_.at(cache.name), cache.shape.bytes() / rows);
    }
}

size_t DeviceModel::rings_bytes() const {
    size_t bytes = 0;
    for_rings([&](Device::Buffer, size_t row_bytes) { bytes += row_bytes; });
    return bytes * static_cast<size_t>(options_.geometry.ring_rows(config_) * options_.geometry.ranks);
}

void DeviceModel::read_ring(Device::Buffer buffer, size_t row_bytes) {
    const auto ranks = static_cast<size_t>(options_.geometry.ranks);
    const auto rows = static_cast<size_t>(options_.geometry.ring_rows(config_) * options_.geometry.slots);
    ring_.resize(ranks * rows * row_bytes);
    reads_.clear();
    for (size_t rank = 0; rank < ranks; ++rank) {
        reads_.push_back({buffer, static_cast<int32_t>(rank), 0,
                          std::span(ring_).subspan(rank * rows * row_bytes, rows * row_bytes)});
    }
    device_->read(reads_);
}

DeviceModel::Rings DeviceModel::save_rings(int32_t slot) {
    const auto slots = static_cast<size_t>(options_.geometry.slots);
    Rings rings;
    rings.written = at(slot).written;
    rings.bytes.reserve(rings_bytes());
    for_rings([&](Device::Buffer buffer, size_t row_bytes) {
        read_ring(buffer, row_bytes);
        for (size_t place = static_cast<size_t>(slot) * row_bytes; place < ring_.size(); place += slots * row_bytes) {
            const auto row = std::span(ring_).subspan(place, row_bytes);
            rings.bytes.insert(rings.bytes.end(), row.begin(), row.end());
        }
    });
    return rings;
}

void DeviceModel::restore_rings(int32_t slot, const Rings& rings) {
    const auto slots = static_cast<size_t>(options_.geometry.slots);
    const auto ranks = static_cast<size_t>(options_.geometry.ranks);
    const std::byte* from = rings.bytes.data();
    for_rings([&](Device::Buffer buffer, size_t row_bytes) {
        if (slots > 1) read_ring(buffer, row_bytes);  // what the other slots hold
        ring_.resize(ranks * slots * row_bytes * static_cast<size_t>(options_.geometry.ring_rows(config_)));
        for (size_t place = static_cast<size_t>(slot) * row_bytes; place < ring_.size(); place += slots * row_bytes) {
            std::memcpy(ring_.data() + place, from, row_bytes);
            from += row_bytes;
        }
        const size_t of_rank = ring_.size() / ranks;
        for (size_t rank = 0; rank < ranks; ++rank) {
            device_->write(buffer, static_cast<int32_t>(rank), 0, std::span(ring_).subspan(rank * of_rank, of_rank));
        }
    });
    at(slot).written = rings.written;
}

void DeviceModel::copy_prefix(int32_t from, int32_t to, int64_t length, const Rings* rings) {
    if (from != to) {
        const int32_t slots[] = {from, to};
        write_s32(ProgramKind::copy, kSlot, std::span(slots, 1));
        write_s32(ProgramKind::copy, kTarget, std::span(slots + 1, 1));
        device_->start(program_for(ProgramKind::copy, length));
        device_->wait();
        at(to) = at(from);
    }
    if (rings != nullptr) restore_rings(to, *rings);
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
    if (!std::ranges::equal(step_.positions, positions)) inputs_.build_angles(positions, step_);
    inputs_.build_rows(ids, step_);
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
Device::Program DeviceModel::program_for(ProgramKind program_kind, int64_t cached) {
    const auto program = kind(program_kind).programs.lower_bound(cached);
    require(program != kind(program_kind).programs.end(), "the largest bucket is the whole context");
    return program->second;
}

void DeviceModel::prefill(int32_t slot, std::span<const int32_t> ids) {
    Slot& sequence = at(slot);
    require(!ids.empty(), "a slot is extended by at least one token");
    inputs_.check_ids(ids);
    model::check_room(length(slot), ids.size(), options_.geometry.context_tokens);
    const auto old = static_cast<int64_t>(sequence.ids.size());
    sequence.ids.insert(sequence.ids.end(), ids.begin(), ids.end());
    const auto end = static_cast<int64_t>(sequence.ids.size());
    const int64_t chunk = options_.geometry.chunk_tokens;
    // The inputs of a chunk are prepared while the one before it runs.
    for (int64_t begin = old / chunk * chunk; begin < end; begin += chunk) {
        write_prefill(sequence, slot, begin, std::min(begin + chunk, end));
        device_->start(program_for(ProgramKind::prefill, begin));
        sequence.written = std::max(sequence.written, begin + chunk);
    }
    const int32_t row = 0;
    read_choices(ProgramKind::prefill, std::span(&row, 1));
}

// Tokens [begin, end) of the slot; the rows of the chunk beyond them are computed from nothing that matters, and
// written where nobody looks before they are written again.
void DeviceModel::write_prefill(const Slot& slot, int32_t index, int64_t begin, int64_t end) {
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
}

void DeviceModel::decode(std::span<const int32_t> slots, std::span<const int32_t> ids) {
    require(slots.size() == ids.size() && !ids.empty(), "a step decodes one token for each of its slots");
    inputs_.check_ids(ids);
    for (const int32_t slot : slots) model::check_room(length(slot), 1, options_.geometry.context_tokens);
    const int64_t cached = write_decode(slots, ids);
    device_->start(program_for(ProgramKind::decode, cached));
    // Meanwhile what is known of the step that mostly follows: where it will be.
    for (const int32_t slot : slots) ++positions_[static_cast<size_t>(slot)];
    inputs_.build_angles(positions_, step_);
    device_->wait();
    for (size_t index = 0; index < slots.size(); ++index) {
        Slot& slot = at(slots[index]);
        slot.ids.push_back(ids[index]);
        slot.written = std::max(slot.written, static_cast<int64_t>(slot.ids.size()));
    }
    read_choices(ProgramKind::decode, slots);
}

// Writes the inputs of a step; returns the cached positions of the longest slot.
int64_t DeviceModel::write_decode(std::span<const int32_t> slots, std::span<const int32_t> ids) {
    constexpr ProgramKind kDecode = ProgramKind::decode;
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
    return cached;
}

// Of the ranks' choices the one that the decision rule takes: the highest capped value, the lowest id on ties.
void DeviceModel::read_choices(ProgramKind program_kind, std::span<const int32_t> rows) {
    const auto& buffers = kind(program_kind).buffers;
    const auto ranks = static_cast<size_t>(options_.geometry.ranks);
    results_ = program_kind;
    result_rows_.assign(rows.begin(), rows.end());
    has_logits_.assign(rows.size(), 0);
    best_ids_.assign(rows.size(), -1);
    best_values_.resize(rows.size());
    rank_values_.resize(ranks * rows.size());
    rank_ids_.resize(ranks * rows.size());
    reads_.clear();
    for (size_t rank = 0; rank < ranks; ++rank) {
        for (size_t index = 0; index < rows.size(); ++index) {
            const size_t choice = rank * rows.size() + index;
            const auto from = [&](const char* name, auto into) {
                reads_.push_back({buffers.at(name), static_cast<int32_t>(rank), static_cast<size_t>(rows[index]) * 4,
                                  std::as_writable_bytes(into)});
            };
            from(kBestValue, std::span(rank_values_).subspan(choice, 1));
            from(kBestId, std::span(rank_ids_).subspan(choice, 1));
        }
    }
    device_->read(reads_);
    for (size_t rank = 0; rank < ranks; ++rank) {
        for (size_t index = 0; index < rows.size(); ++index) {
            const size_t choice = rank * rows.size() + index;
            const int32_t id = rank_ids_[choice];
            float value = rank_values_[choice];
            if (id < 0 || id >= config_.vocab_size || !std::isfinite(value)) give_up(rank);
            if (decides_by_cap()) value = model::softcapped(value, *config_.final_softcap, model::Precision::bf16);
            if (rank == 0 || value > best_values_[index]) {
                best_values_[index] = value;
                best_ids_[index] = id;
            }
        }
    }
}

// From the ranks' shards of the vocabulary.
std::span<const float> DeviceModel::logits(size_t row) {
    const auto vocab = static_cast<size_t>(config_.vocab_size);
    const auto ranks = static_cast<size_t>(options_.geometry.ranks);
    const size_t local = vocab / ranks;
    if (logits_.size() < result_rows_.size() * vocab) logits_.resize(result_rows_.size() * vocab);
    const std::span<float> values = std::span(logits_).subspan(row * vocab, vocab);
    if (has_logits_.at(row) != 0) return values;
    const Device::Buffer buffer = kind(results_).buffers.at(kLogits);
    reads_.clear();
    for (size_t rank = 0; rank < ranks; ++rank) {
        reads_.push_back({buffer, static_cast<int32_t>(rank), static_cast<size_t>(result_rows_[row]) * local * 4,
                          std::as_writable_bytes(values.subspan(rank * local, local))});
    }
    device_->read(reads_);
    for (size_t rank = 0; rank < ranks; ++rank) {
        if (has_nan(values.subspan(rank * local, local))) give_up(rank);
    }
    has_logits_[row] = 1;
    return values;
}

// What is no number stays in the cache, where it spoils whoever uses the slot next: masked positions are multiplied
// too.
void DeviceModel::give_up(size_t rank) {
    const Error error(ErrorCode::device, fmt::format("rank {} computed logits that are no numbers", rank), {},
                      "check the checkpoint's weights with `gemmatrace inspect`, and compare with --device cpu");
    device_->abandon(error);
    throw Error(error);
}

}  // namespace gemmatrace::trace
