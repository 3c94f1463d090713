// No buffer is shared between results and parameters here: programs for it have no aliases.
#include "neuron/rank_probe.h"

#include <algorithm>

#include "base/error.h"
#include "neuron/nrt_status.h"

namespace gemmatrace::neuron {

RankProbe::RankProbe(NrtRuntime& runtime, const hlo::Module& module, std::span<const std::byte> neff)
    : runtime_(runtime), module_(module), neff_(neff), ranks_(static_cast<size_t>(runtime.ranks())) {
    require(module.aliases.empty(), "a probe of ranks has no aliases");
}

std::vector<abi::Status> RankProbe::load(int32_t core_count) {
    std::vector<abi::Status> statuses(ranks_.size());
    constexpr double kPatience = 10.0;
    const auto load_on = [&](RankTurn& turn) {
        const auto rank = static_cast<size_t>(turn.rank());
        turn.says("nrt_load_collectives");
        statuses[rank] = runtime_.call().nrt_load_collectives(
            neff_.data(), neff_.size(), turn.rank(), core_count, static_cast<uint32_t>(turn.rank()),
            static_cast<uint32_t>(runtime_.ranks()), &ranks_[rank].model);
        if (statuses[rank] == abi::kSuccess) return;
        ranks_[rank].model = nullptr;
        // So that ranks which wait for this one are not waited for.
        throw error_of({"nrt_load_collectives", turn.rank(), module_.name}, statuses[rank]);
    };
    try {
        runtime_.run("a load", kPatience, load_on);
    } catch (const Error&) {
        if (std::ranges::all_of(statuses, [](auto status) { return status == abi::kSuccess; })) throw;
    }
    return statuses;
}

void RankProbe::unload() {
    runtime_.run("an unload", 1.0, [&](RankTurn& turn) {
        turn.says("nrt_unload");
        abi::Model*& model = ranks_[static_cast<size_t>(turn.rank())].model;
        if (model != nullptr) runtime_.check(turn, "nrt_unload", module_.name, runtime_.call().nrt_unload(model));
        model = nullptr;
    });
}

void RankProbe::fill(RankTurn& turn, abi::TensorSet*& set, const std::vector<std::string>& names,
                     const std::vector<hlo::Shape>& shapes) {
    const abi::Functions& call = runtime_.call();
    runtime_.check(turn, "nrt_allocate_tensor_set", module_.name, call.nrt_allocate_tensor_set(&set));
    for (size_t number = 0; number < names.size(); ++number) {
        const size_t bytes = shapes[number].bytes();
        abi::Tensor* tensor = nullptr;
        runtime_.check(
            turn, "nrt_tensor_allocate", names[number],
            call.nrt_tensor_allocate(abi::kPlacementDevice, turn.rank(), bytes, names[number].c_str(), &tensor));
        ranks_[static_cast<size_t>(turn.rank())].all.push_back(tensor);
        const std::vector<std::byte> zeros(bytes);
        runtime_.check(turn, "nrt_tensor_write", names[number], call.nrt_tensor_write(tensor, zeros.data(), 0, bytes));
        runtime_.check(turn, "nrt_add_tensor_to_tensor_set", names[number],
                       call.nrt_add_tensor_to_tensor_set(set, names[number].c_str(), tensor));
    }
}

std::vector<abi::Status> RankProbe::execute(const std::function<bool(int32_t rank)>& takes_part) {
    runtime_.run("the tensors of a probe", 1.0, [&](RankTurn& turn) {
        Tensors& own = ranks_[static_cast<size_t>(turn.rank())];
        turn.says("nrt_tensor_allocate");
        fill(turn, own.inputs, module_.parameter_names(), module_.host_shape.parameters);
        fill(turn, own.outputs, module_.output_names(), module_.host_shape.result.elements);
    });
    std::vector<abi::Status> statuses(ranks_.size());
    runtime_.run(module_.name, 1.0, [&](RankTurn& turn) {
        const auto rank = static_cast<size_t>(turn.rank());
        if (!takes_part(turn.rank())) return;
        turn.says("nrt_execute");
        statuses[rank] = runtime_.call().nrt_execute(ranks_[rank].model, ranks_[rank].inputs, ranks_[rank].outputs);
    });
    return statuses;
}

void RankProbe::free() {
    runtime_.run("the end of a probe", 1.0, [&](RankTurn& turn) {
        Tensors& own = ranks_[static_cast<size_t>(turn.rank())];
        const abi::Functions& call = runtime_.call();
        turn.says("nrt_tensor_free");
        for (abi::TensorSet** set : {&own.inputs, &own.outputs}) {
            if (*set != nullptr) call.nrt_destroy_tensor_set(set);
            *set = nullptr;
        }
        for (abi::Tensor*& tensor : own.all) call.nrt_tensor_free(&tensor);
        own.all.clear();
    });
}

}  // namespace gemmatrace::neuron
