// A full pass assembled from its parts, so that a test can change any of them, compared stage by stage with a golden.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/thread_pool.h"
#include "checkpoint/config.h"
#include "checkpoint/tensor_store.h"
#include "cpu/cpu_ops.h"
#include "cpu/weights.h"
#include "goldens/golden_file.h"
#include "model/inputs.h"
#include "model/ops.h"

namespace gemmatrace::goldens {

// The parts of a bf16 pass over one checkpoint.
struct Parts {
    explicit Parts(const std::filesystem::path& checkpoint);

    checkpoint::ModelConfig config;
    checkpoint::TensorStore store;
    cpu::Weights weights;
    ThreadPool pool;
};

// What a test may change before and during a pass; everything may be left empty.
struct Changes {
    std::function<void(std::vector<int32_t>& ids)> ids;
    std::function<void(model::StepInputs& inputs)> inputs;
    std::function<std::unique_ptr<model::Ops>(cpu::CpuOps& inner)> ops;
};

// The first place where a pass differs from the golden one.
struct Difference {
    std::string stage;  // "embedding", "layer.3", "logits"
    size_t row = 0;
};

// Runs the golden pass's ids in one step and compares every row of every stage. Nothing: all are equal.
std::optional<Difference> first_difference(Parts& parts, const Pass& pass, const Changes& changes = {});

}  // namespace gemmatrace::goldens
