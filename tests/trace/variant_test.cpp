// One place says what a layer is: a variant of it changes the CPU's pass and the program alike; and programs that are a
// little wrong do not pass for right ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>

#include "cpu/cpu_ops.h"
#include "cpu/kernels.h"
#include "cpu/kv_cache.h"
#include "cpu/weights.h"
#include "hlo/builder.h"
#include "model/forward.h"
#include "support/forwarding_ops.h"
#include "trace/device_model.h"
#include "trace/sim_device.h"
#include "trace/trace_ops.h"

namespace gemmatrace::trace {
namespace {

using model::KeysValues;
using model::Ops;
using model::Value;
using Wrapper = std::function<std::unique_ptr<Ops>(Ops&, const checkpoint::ModelConfig&)>;

constexpr int32_t kVariantChunk = 16;
constexpr int64_t kVariantContext = 256;
constexpr auto kPrecision = model::Precision::fp32;  // so that a small fault is no rounding

std::filesystem::path directory(const std::string& model) { return GEMMATRACE_SOURCE_DIR "/models/" + model; }

// Longer than the window of 64.
std::vector<int32_t> prompt() {
    std::vector<int32_t> ids = {2};
    for (int32_t index = 1; index < 90; ++index) ids.push_back(300 + index * 53 % 700);
    return ids;
}

// Logits of the last token, in one pass of the CPU's operations.
std::vector<float> on_cpu(const std::string& model, const Wrapper& wrap) {
    const auto config = checkpoint::load_config(directory(model));
    const auto store = checkpoint::TensorStore::open(directory(model));
    const cpu::Weights weights(store, config, kPrecision);
    const auto& handles = weights.handles();
    const model::InputBuilder builder(
        config, kPrecision, weights.table(handles.embedding),
        handles.ple_embedding ? weights.table(*handles.ple_embedding) : model::TableView{});
    const auto ids = prompt();
    std::vector<int64_t> positions(ids.size());
    std::iota(positions.begin(), positions.end(), 0);
    model::StepInputs inputs;
    builder.build(ids, positions, inputs);
    const auto tokens = static_cast<int32_t>(ids.size());
    cpu::KvCache cache(config, kPrecision, tokens, tokens);
    std::vector<cpu::RowPlace> places;
    for (const int64_t position : positions) places.push_back({&cache, position});
    ThreadPool pool(1);
    cpu::CpuOps ops(config, weights, cpu::kernels(cpu::best_isa()), pool, kPrecision);
    const std::vector<int32_t> outputs = {tokens - 1};
    ops.begin_step(inputs, places, outputs);
    const auto wrapped = wrap ? wrap(ops, config) : nullptr;
    const Value logits = model::forward(wrapped ? *wrapped : static_cast<Ops&>(ops), config, handles);
    const auto values = ops.row_values(logits, 0);
    return {values.begin(), values.end()};
}

// The same through traced programs: prefill of all but two tokens, the others decoded.
std::vector<float> traced(const std::string& model, int32_t ranks, const Wrapper& wrap) {
    const auto config = checkpoint::load_config(directory(model));
    const auto plan = model::plan_weights(config, false);
    const Packing packing = pack_weights(config, plan, ranks);
    DeviceModelOptions options;
    options.geometry = {ranks, 2, kVariantContext, kVariantChunk, kPrecision};
    options.buckets = {kVariantContext};
    options.program_of = [&](const ProgramSpec& spec) {
        if (spec.kind == ProgramKind::copy) return trace_program(config, plan, packing, options.geometry, spec);
        hlo::Builder builder(spec.name(), ranks);
        TraceOps ops(builder, config, packing, options.geometry, spec);
        const auto wrapped = wrap ? wrap(ops, config) : nullptr;
        return ops.finish(model::forward(wrapped ? *wrapped : static_cast<Ops&>(ops), config, plan.weights));
    };
    DeviceModel device(make_sim_device(ranks, 1), directory(model), options);
    const auto ids = prompt();
    const int32_t slot = 1;
    device.prefill(slot, std::span(ids).first(ids.size() - 2));
    device.decode({&slot, 1}, {&ids[ids.size() - 2], 1});
    device.decode({&slot, 1}, {&ids.back(), 1});
    const auto logits = device.logits(0);
    return {logits.begin(), logits.end()};
}

// The largest difference as a share of the largest logit.
double distance(const std::vector<float>& a, const std::vector<float>& b) {
    double largest = 0.0, difference = 0.0;
    for (size_t id = 0; id < a.size(); ++id) {
        largest = std::max<double>(largest, std::fabs(a[id]));
        difference = std::max<double>(difference, std::fabs(a[id] - b[id]));
    }
    return difference / largest;
}

template <typename Variant>
Wrapper wrapper() {
    return [](Ops& inner, const checkpoint::ModelConfig& config) { return std::make_unique<Variant>(inner, config); };
}

struct Bent : support::ForwardingOps {
    Bent(Ops& inner, const checkpoint::ModelConfig& all) : ForwardingOps(inner), config(all) {}
    const checkpoint::ModelConfig& config;
};

// --- a made-up layer: its stream is normed once more

struct SecondNorm : Bent {
    using Bent::Bent;
    Value end_layer(int32_t layer, Value stream) override {
        if (layer >= 0) stream = rms_norm(stream, std::nullopt, config.hidden_size);
        return Bent::end_layer(layer, stream);
    }
};

TEST(LayerVariant, ChangesTheCpuAndTheProgramAlike) {
    for (const char* model : {"e4b", "12b"}) {
        const auto plain = on_cpu(model, nullptr);
        const auto changed = on_cpu(model, wrapper<SecondNorm>());
        EXPECT_GT(distance(plain, changed), 0.2) << model;
        for (const int32_t ranks : {1, 2}) {
            EXPECT_LT(distance(plain, traced(model, ranks, nullptr)), 3e-5) << model;
            EXPECT_LT(distance(changed, traced(model, ranks, wrapper<SecondNorm>())), 3e-5) << model;
        }
    }
}

// --- programs that are a little wrong

struct KeysForValues : Bent {
    using Bent::Bent;
    KeysValues keep(int32_t layer, Value keys, Value values) override { return Bent::keep(layer, values, keys); }
};

struct WindowOneMore : Bent {
    using Bent::Bent;
    Value attend(Value q, const KeysValues& kv, const checkpoint::LayerSpec& spec) override {
        checkpoint::LayerSpec wider = spec;
        if (wider.window > 0) ++wider.window;
        return Bent::attend(q, kv, wider);
    }
};

struct GateForUp : Bent {
    using Bent::Bent;
    Value gelu_mul(Value gate, Value up) override { return Bent::gelu_mul(up, gate); }
};

class WrongProgram : public ::testing::TestWithParam<std::pair<const char*, Wrapper>> {};

TEST_P(WrongProgram, IsFarFromTheRightOne) {
    const auto right = traced("12b", 2, nullptr);
    EXPECT_GT(distance(right, traced("12b", 2, GetParam().second)), 3e-4);
    EXPECT_LT(distance(on_cpu("12b", nullptr), right), 3e-5);
}

INSTANTIATE_TEST_SUITE_P(Planted, WrongProgram,
                         ::testing::Values(std::pair{"keys_for_values", wrapper<KeysForValues>()},
                                           std::pair{"window_one_more", wrapper<WindowOneMore>()},
                                           std::pair{"gate_for_up", wrapper<GateForUp>()}),
                         [](const auto& parameter) { return std::string(parameter.param.first); });

}  // namespace
}  // namespace gemmatrace::trace
