// One step over a whole pass, with hooks.
#include "goldens/pass.h"

#include <numeric>
#include <vector>

#include "cpu/isa.h"
#include "cpu/kernels.h"
#include "cpu/kv_cache.h"
#include "model/forward.h"

namespace gemmatrace::goldens {
namespace {

constexpr auto kPrecision = model::Precision::bf16;

// Notes the first stage that differs; stages come in the order of the pass.
class Comparison {
  public:
    explicit Comparison(const Pass& pass) : pass_(pass) {}

    void check(const std::string& stage, size_t row, std::span<const float> values) {
        const Stage* golden = pass_.find(stage);
        if (found_ || golden == nullptr || row >= golden->row_hashes.size()) return;
        if (row_hash(values) != golden->row_hashes[row]) found_ = Difference{stage, row};
    }
    const std::optional<Difference>& found() const { return found_; }

  private:
    const Pass& pass_;
    std::optional<Difference> found_;
};

}  // namespace

Parts::Parts(const std::filesystem::path& checkpoint)
    : config(checkpoint::load_config(checkpoint)),
      store(checkpoint::TensorStore::open(checkpoint)),
      weights(store, config, kPrecision),
      pool(1) {}

std::optional<Difference> first_difference(Parts& parts, const Pass& pass, const Changes& changes) {
    const auto& handles = parts.weights.handles();
    const model::InputBuilder builder(
        parts.config, kPrecision, parts.weights.table(handles.embedding),
        handles.ple_embedding ? parts.weights.table(*handles.ple_embedding) : model::TableView{});
    std::vector<int32_t> ids = pass.ids;
    if (changes.ids) changes.ids(ids);
    std::vector<int64_t> positions(ids.size());
    std::iota(positions.begin(), positions.end(), 0);
    model::StepInputs inputs;
    builder.build(ids, positions, inputs);
    if (changes.inputs) changes.inputs(inputs);

    const auto tokens = static_cast<int32_t>(ids.size());
    cpu::KvCache cache(parts.config, kPrecision, tokens, tokens);
    std::vector<cpu::RowPlace> places;
    std::vector<int32_t> outputs(ids.size());
    std::iota(outputs.begin(), outputs.end(), 0);
    for (const int64_t position : positions) places.push_back({&cache, position});

    cpu::CpuOps ops(parts.config, parts.weights, cpu::kernels(cpu::best_isa()), parts.pool, kPrecision);
    Comparison comparison(pass);
    const auto width = static_cast<size_t>(parts.config.hidden_size);
    ops.set_layer_observer([&](int32_t layer, std::span<const float> values) {
        const std::string stage = layer < 0 ? "embedding" : "layer." + std::to_string(layer);
        for (size_t row = 0; row < ids.size(); ++row) comparison.check(stage, row, values.subspan(row * width, width));
    });
    ops.begin_step(inputs, places, outputs);
    const std::unique_ptr<model::Ops> changed = changes.ops ? changes.ops(ops) : nullptr;
    model::Ops& interpreter = changed ? *changed : static_cast<model::Ops&>(ops);
    const model::Value logits = model::forward(interpreter, parts.config, handles);
    for (size_t row = 0; row < ids.size(); ++row) {
        comparison.check("logits", row, ops.row_values(logits, static_cast<int64_t>(row)));
    }
    return comparison.found();
}

}  // namespace gemmatrace::goldens
