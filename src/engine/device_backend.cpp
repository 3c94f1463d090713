// Slot numbers are the device model's.
#include "engine/device_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "model/shard.h"

namespace gemmatrace::engine {
namespace {

struct DeviceSnapshot : Snapshot {
    trace::DeviceModel::Rings rings;
};

// Of what a snapshot moves between host and device: it should cost little beside the tokens that were read since the
// one before.
constexpr size_t kBytesForAToken = size_t{64} << 10;

class DeviceBackend : public Backend {
  public:
    explicit DeviceBackend(std::unique_ptr<trace::DeviceModel> model) : model_(std::move(model)) {
        const auto& config = model_->config();
        const trace::Geometry& geometry = model_->geometry();
        limits_ = {config.vocab_size,     geometry.context_tokens, geometry.slots,
                   geometry.chunk_tokens, config.final_softcap,    geometry.precision};
        limits_.gives_all_rows = false;
        limits_.has_fixed_chunks = true;
        limits_.decodes_as_prefill = false;
        const size_t moved = model_->rings_bytes() * static_cast<size_t>(geometry.slots);
        limits_.snapshot_stride = std::max(limits_.snapshot_stride, static_cast<int64_t>(moved / kBytesForAToken));
    }

    const BackendLimits& limits() const override { return limits_; }
    std::string description() const override {
        return fmt::format("{}, {}", model_->device().description(), model::precision_name(limits_.precision));
    }
    BackendFacts facts() const override {
        BackendFacts facts;
        facts.device = model_->device().name();
        facts.ranks = model_->geometry().ranks;
        return facts;
    }

    int64_t length(int32_t slot) const override { return model_->length(slot); }
    void prefill(int32_t slot, std::span<const int32_t> ids, bool all_rows) override {
        require(!all_rows, "rows that the limits do not promise are not asked for");
        model_->prefill(slot, ids);
    }
    void decode(std::span<const int32_t> slots, std::span<const int32_t> ids) override { model_->decode(slots, ids); }
    std::span<const float> logits(size_t row) override { return model_->logits(row); }
    std::optional<int32_t> best_id(size_t row) const override { return model_->best_ids().at(row); }

    bool can_trim(int32_t slot, int64_t length) const override { return model_->can_trim(slot, length); }
    void trim(int32_t slot, int64_t length) override { model_->trim(slot, length); }
    void release(int32_t slot) override { model_->trim(slot, 0); }
    std::shared_ptr<const Snapshot> save(int32_t slot, int64_t) const override {
        auto snapshot = std::make_shared<DeviceSnapshot>();
        snapshot->rings = model_->save_rings(slot);
        return snapshot;
    }
    void copy_prefix(int32_t from, int32_t to, int64_t length, const Snapshot* snapshot) override {
        const auto* rings = snapshot == nullptr ? nullptr : &static_cast<const DeviceSnapshot*>(snapshot)->rings;
        model_->copy_prefix(from, to, length, rings);
    }

    size_t slot_bytes(int64_t) const override { return model_->slot_bytes(); }
    size_t snapshot_bytes() const override { return model_->rings_bytes(); }

  private:
    std::unique_ptr<trace::DeviceModel> model_;
    BackendLimits limits_;
};

class DeviceSource : public BackendSource {
  public:
    explicit DeviceSource(DeviceSourceOptions options)
        : options_(std::move(options)), config_(checkpoint::load_config(options_.checkpoint)) {
        if (options_.geometry) options_.geometry->check(config_);
        model::check_sharding(config_, ranks());
    }

    const checkpoint::ModelConfig& config() const override { return config_; }
    int64_t most_context_tokens() const override {
        return options_.geometry ? options_.geometry->context_tokens : whole_chunks_within_the_model();
    }
    std::optional<int32_t> most_slots() const override {
        return options_.geometry ? std::optional(options_.geometry->slots) : std::nullopt;
    }
    size_t slot_bytes(int64_t context_tokens) const override {
        return trace::cache_bytes_of_slot(config_, geometry(1, context_tokens));
    }
    std::unique_ptr<Backend> make(int32_t slots, int64_t context_tokens) override {
        if (context_tokens > most_context_tokens()) {
            throw Error(ErrorCode::too_long,
                        fmt::format("{} tokens are more than the {} positions of this device's programs",
                                    context_tokens, most_context_tokens()),
                        {}, "shorten the prompt or ask for fewer tokens");
        }
        trace::DeviceModelOptions options;
        options.geometry = geometry(slots, context_tokens);
        options.buckets = options_.buckets.empty() ? buckets(options.geometry) : options_.buckets;
        options.program_of = options_.program_of;
        options.progress = options_.progress;
        options.on_program = options_.on_program;
        return std::make_unique<DeviceBackend>(std::make_unique<trace::DeviceModel>(
            options_.make_device(ranks()), options_.checkpoint, std::move(options)));
    }

  private:
    int32_t ranks() const { return options_.geometry ? options_.geometry->ranks : options_.ranks; }
    int64_t whole_chunks_within_the_model() const {
        return config_.max_position_embeddings / options_.chunk_tokens * options_.chunk_tokens;
    }
    trace::Geometry geometry(int32_t slots, int64_t context_tokens) const {
        if (options_.geometry) return *options_.geometry;
        const int64_t chunk = options_.chunk_tokens;
        const int64_t context = (std::max<int64_t>(context_tokens, 1) + chunk - 1) / chunk * chunk;
        return {options_.ranks, slots, context, options_.chunk_tokens, options_.precision};
    }
    static std::vector<int64_t> buckets(const trace::Geometry& geometry) {
        std::vector<int64_t> sizes;
        for (int64_t size = geometry.context_tokens; size >= geometry.chunk_tokens && size > 0; size /= 4) {
            sizes.insert(sizes.begin(), size);
        }
        return sizes;
    }

    DeviceSourceOptions options_;
    checkpoint::ModelConfig config_;
};

}  // namespace

std::unique_ptr<BackendSource> make_device_source(DeviceSourceOptions options) {
    return std::make_unique<DeviceSource>(std::move(options));
}

}  // namespace gemmatrace::engine
