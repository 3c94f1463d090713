// Steps of the model on this machine: chunks of a prompt, or one token of several sequences.
#include "cpu/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/thread_pool.h"
#include "cpu/cpu_ops.h"
#include "cpu/kv_cache.h"
#include "cpu/weights.h"
#include "model/forward.h"
#include "model/inputs.h"

namespace gemmatrace::cpu {

struct Slot::Data {
    KvCache cache;
};

Slot::Slot(std::unique_ptr<Data> data) : data_(std::move(data)) {}
Slot::~Slot() = default;
Slot::Slot(Slot&&) noexcept = default;
Slot& Slot::operator=(Slot&&) noexcept = default;
int64_t Slot::length() const { return data_->cache.length(); }
int64_t Slot::capacity() const { return data_->cache.capacity(); }
void Slot::clear() { data_->cache.trim(0); }
bool Slot::can_trim(int64_t length) const { return data_->cache.can_trim(length); }
void Slot::trim(int64_t length) { data_->cache.trim(length); }
void Slot::release() { data_->cache.release(); }
size_t Slot::window_bytes() const { return data_->cache.window_bytes(); }

struct Slot::Window {
    KvCache::Window window;
};

std::shared_ptr<const Slot::Window> Slot::save_window(int64_t length) const {
    return std::make_shared<const Window>(Window{data_->cache.save_window(length)});
}

void Slot::copy_prefix(const Slot& from, const Window& window) {
    require(from.capacity() == capacity(), "a prefix is copied between slots of one capacity");
    data_->cache.copy_prefix(from.data_->cache, window.window);
}

struct Runner::Data {
    Data(const std::filesystem::path& directory, const RunnerOptions& asked)
        : options(asked),
          config(checkpoint::load_config(directory)),
          store(checkpoint::TensorStore::open(directory)),
          weights(store, config, asked.precision),
          inputs(
              config, asked.precision, weights.table(weights.handles().embedding),
              weights.handles().ple_embedding ? weights.table(*weights.handles().ple_embedding) : model::TableView{}),
          isa(asked.isa.value_or(best_isa())),
          pool(asked.threads > 0 ? asked.threads : usable_cores()),
          ops(config, weights, kernels(isa), pool, asked.precision) {}

    // One step: ids at places, logits of the rows `outputs` into `logits`.
    void step(std::span<const int32_t> ids, std::span<const RowPlace> places, std::span<const int32_t> outputs);

    RunnerOptions options;
    checkpoint::ModelConfig config;
    checkpoint::TensorStore store;
    Weights weights;
    model::InputBuilder inputs;
    Isa isa;
    ThreadPool pool;
    CpuOps ops;
    LogitsObserver logits_observer;

    // Buffers that keep their storage from step to step.
    model::StepInputs step_inputs;
    std::vector<int64_t> positions;
    std::vector<RowPlace> places;
    std::vector<int32_t> outputs;
    std::vector<float> logits;  // [outputs, vocab_size]
};

void Runner::Data::step(std::span<const int32_t> ids, std::span<const RowPlace> rows, std::span<const int32_t> wanted) {
    positions.clear();
    for (const auto& row : rows) positions.push_back(row.position);
    inputs.build(ids, positions, step_inputs);
    ops.begin_step(step_inputs, rows, wanted);
    const model::Value result = model::forward(ops, config, weights.handles());
    const auto vocab = static_cast<size_t>(result.columns);
    logits.resize(wanted.size() * vocab);
    for (size_t index = 0; index < wanted.size(); ++index) {
        const auto values = ops.row_values(result, static_cast<int64_t>(index));
        std::copy(values.begin(), values.end(), logits.begin() + static_cast<std::ptrdiff_t>(index * vocab));
    }
}

Runner::Runner(const std::filesystem::path& directory, const RunnerOptions& options) {
    if (options.chunk_tokens < 1 || options.chunk_tokens > 4096) {
        throw Error(ErrorCode::bad_request, fmt::format("a chunk of {} tokens is not possible", options.chunk_tokens),
                    {{"option", "--chunk"}}, "use 1 to 4096; 128 is a good choice");
    }
    if (options.threads < 0 || options.threads > 1024) {
        throw Error(ErrorCode::bad_request, fmt::format("{} threads are not possible", options.threads),
                    {{"option", "--threads"}}, "use 1 to 1024, or leave the option out for one a core");
    }
    data_ = std::make_unique<Data>(directory, options);
}

Runner::~Runner() = default;

const checkpoint::ModelConfig& Runner::config() const { return data_->config; }
model::Precision Runner::precision() const { return data_->options.precision; }
Isa Runner::isa() const { return data_->isa; }
int Runner::threads() const { return data_->pool.size(); }

MemoryUse Runner::memory_use() const {
    return {data_->weights.mapped_bytes(), data_->weights.converted_bytes(),
            data_->ops.workspace_bytes() + data_->logits.capacity() * sizeof(float)};
}

Slot Runner::new_slot(int64_t capacity_tokens) const {
    if (capacity_tokens > data_->config.max_position_embeddings) {
        throw Error(ErrorCode::too_long,
                    fmt::format("{} tokens are more than the {} positions of this model", capacity_tokens,
                                data_->config.max_position_embeddings),
                    {}, "shorten the prompt or ask for fewer tokens");
    }
    require(capacity_tokens > 0, "a slot holds at least one token");
    return Slot(std::make_unique<Slot::Data>(
        Slot::Data{KvCache(data_->config, data_->options.precision, capacity_tokens, data_->options.chunk_tokens)}));
}

size_t Runner::slot_bytes(int64_t capacity_tokens) const {
    return KvCache::bytes(data_->config, data_->options.precision, capacity_tokens, data_->options.chunk_tokens);
}

std::span<const float> Runner::extend(Slot& slot, std::span<const int32_t> ids,
                                      const std::function<bool()>& should_stop) {
    Data& data = *data_;
    require(!ids.empty(), "a slot is extended by at least one token");
    data.inputs.check_ids(ids);
    model::check_room(slot.length(), ids.size(), slot.capacity());
    KvCache& cache = slot.data_->cache;
    const auto chunk = static_cast<size_t>(data.options.chunk_tokens);
    for (size_t begin = 0; begin < ids.size(); begin += chunk) {
        if (begin > 0 && should_stop && should_stop()) return {};
        const size_t count = std::min(chunk, ids.size() - begin);
        const int64_t first = cache.length();
        data.places.clear();
        for (size_t token = 0; token < count; ++token) {
            data.places.push_back({&cache, first + static_cast<int64_t>(token)});
        }
        data.outputs.clear();
        const bool is_last = begin + count == ids.size();
        for (size_t token = data.logits_observer ? 0 : count - 1; token < count && (is_last || data.logits_observer);
             ++token) {
            data.outputs.push_back(static_cast<int32_t>(token));
        }
        data.step(ids.subspan(begin, count), data.places, data.outputs);
        cache.advance(first + static_cast<int64_t>(count));
        if (data.logits_observer) data.logits_observer(first, data.logits);
    }
    return std::span<const float>(data.logits).last(static_cast<size_t>(data.config.vocab_size));
}

std::span<const float> Runner::decode(std::span<Slot* const> slots, std::span<const int32_t> ids) {
    Data& data = *data_;
    require(slots.size() == ids.size() && !ids.empty(), "a step decodes one token for each of its slots");
    data.inputs.check_ids(ids);
    data.places.clear();
    data.outputs.clear();
    for (Slot* slot : slots) {
        model::check_room(slot->length(), 1, slot->capacity());
        data.outputs.push_back(static_cast<int32_t>(data.outputs.size()));
        data.places.push_back({&slot->data_->cache, slot->length()});
    }
    data.step(ids, data.places, data.outputs);
    for (Slot* slot : slots) slot->data_->cache.advance(slot->length() + 1);
    return data.logits;
}

void Runner::set_layer_observer(LayerObserver observer) {
    if (!observer) {
        data_->ops.set_layer_observer(nullptr);
        return;
    }
    data_->ops.set_layer_observer(
        [data = data_.get(), observer = std::move(observer)](int32_t layer, std::span<const float> values) {
            observer(layer, data->positions.front(), values);
        });
}

void Runner::set_logits_observer(LogitsObserver observer) { data_->logits_observer = std::move(observer); }

}  // namespace gemmatrace::cpu
