// Slot numbers to the runner's slots.
#include "engine/cpu_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace gemmatrace::engine {
namespace {

struct CpuSnapshot : Snapshot {
    std::shared_ptr<const cpu::Slot::Window> window;
};

class CpuBackend : public Backend {
  public:
    CpuBackend(std::unique_ptr<cpu::Runner> runner, int32_t slots, int64_t context_tokens, int32_t chunk_tokens)
        : runner_(std::move(runner)) {
        const auto& config = runner_->config();
        limits_ = {config.vocab_size, context_tokens, slots, chunk_tokens, config.final_softcap, runner_->precision()};
        for (int32_t slot = 0; slot < slots; ++slot) slots_.push_back(runner_->new_slot(context_tokens));
    }

    const BackendLimits& limits() const override { return limits_; }

    std::string description() const override {
        return fmt::format("CPU, {}, {} threads, {}", cpu::isa_name(runner_->isa()), runner_->threads(),
                           runner_->precision() == model::Precision::bf16 ? "bf16" : "fp32");
    }

    BackendFacts facts() const override {
        const cpu::MemoryUse use = runner_->memory_use();
        return {"cpu",
                std::string(cpu::isa_name(runner_->isa())),
                runner_->threads(),
                1,
                use.mapped_weight_bytes,
                use.converted_weight_bytes,
                use.workspace_bytes};
    }

    int64_t length(int32_t slot) const override { return at(slot).length(); }

    void prefill(int32_t slot, std::span<const int32_t> ids, bool all_rows) override {
        require(static_cast<int64_t>(ids.size()) <= limits_.chunk_tokens, "a prefill call is at most one chunk");
        if (!all_rows) {
            logits_ = runner_->extend(at(slot), ids);
            return;
        }
        rows_.clear();
        runner_->set_logits_observer(
            [this](int64_t, std::span<const float> logits) { rows_.assign(logits.begin(), logits.end()); });
        runner_->extend(at(slot), ids);
        runner_->set_logits_observer(nullptr);
        logits_ = rows_;
    }

    void decode(std::span<const int32_t> slots, std::span<const int32_t> ids) override {
        batch_.clear();
        for (const int32_t slot : slots) batch_.push_back(&at(slot));
        logits_ = runner_->decode(batch_, ids);
    }

    std::span<const float> logits(size_t row) override {
        const auto vocab = static_cast<size_t>(limits_.vocab_size);
        return logits_.subspan(row * vocab, vocab);
    }

    bool can_trim(int32_t slot, int64_t length) const override { return at(slot).can_trim(length); }
    void trim(int32_t slot, int64_t length) override { at(slot).trim(length); }
    void release(int32_t slot) override { at(slot).release(); }

    std::shared_ptr<const Snapshot> save(int32_t slot, int64_t length) const override {
        auto snapshot = std::make_shared<CpuSnapshot>();
        snapshot->window = at(slot).save_window(length);
        return snapshot;
    }

    void copy_prefix(int32_t from, int32_t to, int64_t length, const Snapshot* snapshot) override {
        if (snapshot != nullptr) {
            at(to).copy_prefix(at(from), *static_cast<const CpuSnapshot*>(snapshot)->window);
        } else if (from == to) {
            at(to).trim(length);
        } else {
            at(to).copy_prefix(at(from), *at(from).save_window(length));
        }
        require(at(to).length() == length, "the snapshot was taken at the length of the prefix");
    }

    size_t slot_bytes(int64_t tokens) const override { return runner_->slot_bytes(std::max<int64_t>(tokens, 1)); }
    size_t snapshot_bytes() const override { return slots_.front().window_bytes(); }

  private:
    cpu::Slot& at(int32_t slot) { return slots_.at(static_cast<size_t>(slot)); }
    const cpu::Slot& at(int32_t slot) const { return slots_.at(static_cast<size_t>(slot)); }

    std::unique_ptr<cpu::Runner> runner_;
    BackendLimits limits_;
    std::vector<cpu::Slot> slots_;
    std::vector<cpu::Slot*> batch_;
    std::vector<float> rows_;
    std::span<const float> logits_;  // of the last call
};

class CpuSource : public BackendSource {
  public:
    CpuSource(std::unique_ptr<cpu::Runner> runner, int32_t chunk_tokens)
        : runner_(std::move(runner)), config_(runner_->config()), chunk_tokens_(chunk_tokens) {}

    const checkpoint::ModelConfig& config() const override { return config_; }
    int64_t most_context_tokens() const override { return config_.max_position_embeddings; }
    size_t slot_bytes(int64_t context_tokens) const override { return runner_->slot_bytes(context_tokens); }
    std::unique_ptr<Backend> make(int32_t slots, int64_t context_tokens) override {
        return make_cpu_backend(std::move(runner_), slots, context_tokens, chunk_tokens_);
    }

  private:
    std::unique_ptr<cpu::Runner> runner_;
    checkpoint::ModelConfig config_;
    int32_t chunk_tokens_;
};

}  // namespace

std::unique_ptr<BackendSource> make_cpu_source(std::unique_ptr<cpu::Runner> runner, int32_t chunk_tokens) {
    return std::make_unique<CpuSource>(std::move(runner), chunk_tokens);
}

std::unique_ptr<Backend> make_cpu_backend(std::unique_ptr<cpu::Runner> runner, int32_t slots, int64_t context_tokens,
                                          int32_t chunk_tokens) {
    require(slots > 0, "a backend has at least one slot");
    return std::make_unique<CpuBackend>(std::move(runner), slots, context_tokens, chunk_tokens);
}

}  // namespace gemmatrace::engine
