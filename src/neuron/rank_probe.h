// The runtime called by hand, below the device: which arguments its loads take, and what happens when a rank stays
// away.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "hlo/module.h"
#include "neuron/nrt_runtime.h"

namespace gemmatrace::neuron {

// A program of several ranks whose inputs are all zeros. One at a time; the runtime must outlive it.
class RankProbe {
  public:
    // neff: needed while it lives.
    RankProbe(NrtRuntime& runtime, const hlo::Module& module, std::span<const std::byte> neff);
    RankProbe(const RankProbe&) = delete;
    RankProbe& operator=(const RankProbe&) = delete;

    // Loads it on all ranks at once with this number of cores as an argument; the status of each rank. Where some are
    // refused and others wait for them, the runtime's watchdog ends the process.
    std::vector<abi::Status> load(int32_t core_count);
    void unload();
    // Makes its tensors and runs it on the ranks that `takes_part` names; the others do nothing. The status of each.
    // Where a rank waits for another for ever, the runtime's deadline ends the process.
    std::vector<abi::Status> execute(const std::function<bool(int32_t rank)>& takes_part);
    void free();

  private:
    struct Tensors {
        abi::Model* model = nullptr;
        abi::TensorSet* inputs = nullptr;
        abi::TensorSet* outputs = nullptr;
        std::vector<abi::Tensor*> all;
    };
    void fill(RankTurn& turn, abi::TensorSet*& set, const std::vector<std::string>& names,
              const std::vector<hlo::Shape>& shapes);

    NrtRuntime& runtime_;
    const hlo::Module& module_;
    std::span<const std::byte> neff_;
    std::vector<Tensors> ranks_;
};

}  // namespace gemmatrace::neuron
