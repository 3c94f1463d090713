// Loaded programs of the stand-in runtime: ranks meet to load one and to run it, and the evaluator runs it for all of
// them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hlo/evaluator.h"
#include "neuron/neff.h"
#include "standin/libnrt/machine.h"

// The handles that the interface leaves incomplete.
namespace gemmatrace::neuron::abi {

struct Tensor {
    std::shared_ptr<standin::Storage> storage;
    size_t offset = 0;
    size_t size = 0;
    std::string name;
    std::span<std::byte> bytes() const { return storage->bytes().subspan(offset, size); }
};

}  // namespace gemmatrace::neuron::abi

namespace gemmatrace::standin {

using neuron::abi::Model;
using neuron::abi::Tensor;

struct TensorMap {
    std::map<std::string, Tensor*> tensors;
};

// The same program on all ranks that run it together.
struct ProgramGroup {
    ProgramGroup(hlo::Module module, int32_t world, int threads) : evaluator(std::move(module), world, threads) {}

    hlo::Evaluator evaluator;
    // Of the execution at which the ranks meet.
    std::map<int32_t, std::pair<const TensorMap*, const TensorMap*>> arrived;
    uint64_t executions = 0;
    Status status = 0;  // of the last one
    std::map<int32_t, Fault> planted;
};

}  // namespace gemmatrace::standin

namespace gemmatrace::neuron::abi {

struct Model {
    std::shared_ptr<standin::ProgramGroup> group;
    NeffInfo neff;
    int32_t core = 0;
    int32_t rank = 0;  // within the group
    int32_t world = 1;
    size_t bytes = 0;  // of the core's memory
};

}  // namespace gemmatrace::neuron::abi

namespace gemmatrace::standin {

// What nrt_load and nrt_load_collectives do. With several ranks it returns when all of them have come with the same
// bytes, and never if they do not.
Status load_model(std::span<const std::byte> neff, int32_t core, int32_t rank, int32_t world, Model** model);
Status unload_model(Model* model);

// What nrt_execute does, for this rank; the last one that comes runs the program. `fault`: planted for this call.
Status execute_model(Model& model, const TensorMap& inputs, const TensorMap& outputs,
                     const std::optional<Fault>& fault);

}  // namespace gemmatrace::standin
