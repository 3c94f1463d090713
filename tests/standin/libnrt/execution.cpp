// The meeting points are counted under the machine's lock, and a rank that is alone waits there for ever, as on the
// chip.
#include "standin/libnrt/execution.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "base/error.h"
#include "hlo/proto.h"
#include "neuron/tensor_check.h"

namespace gemmatrace::standin {
namespace {

namespace abi = neuron::abi;

constexpr uint64_t kKnownFeatures = 0x80000000000000ffULL;
constexpr const char* kProgramMember = "standin/program.hlo.pb";

// Ranks on their way into one program.
struct Loading {
    std::shared_ptr<ProgramGroup> group;
    int32_t arrived = 0;
};

std::map<std::string, Loading>& loadings() {
    static auto* all = new std::map<std::string, Loading>;
    return *all;
}

int evaluator_threads() { return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 4U)); }

std::shared_ptr<ProgramGroup> make_group(std::span<const std::byte> neff, const neuron::NeffInfo& info, int32_t world) {
    const std::string proto = neuron::neff_member(neff, kProgramMember, "the NEFF");
    hlo::Module module = hlo::read_proto(std::as_bytes(std::span(proto)), "the NEFF");
    neuron::check_neff(info, module, "the NEFF");
    return std::make_shared<ProgramGroup>(std::move(module), world, evaluator_threads());
}

// Which parameter a result is written into; -1: none.
int64_t aliased_parameter(const hlo::Module& module, size_t output) {
    const auto found = std::ranges::find(module.aliases, static_cast<int64_t>(output), &hlo::Alias::output);
    return found == module.aliases.end() ? -1 : found->parameter;
}

// Whether a rank's sets are what the program wants.
Status check_sets(const Model& model, const TensorMap& inputs, const TensorMap& outputs) {
    const hlo::Module& module = model.group->evaluator.module();
    const auto names = module.parameter_names();
    const auto check = [&](const TensorMap& set, const std::string& name, size_t bytes, Status if_missing) -> Status {
        const auto found = set.tensors.find(name);
        if (found == set.tensors.end()) return if_missing;
        if (!Machine::instance().tensors.contains(found->second)) return 3;
        const bool fits = found->second->size == bytes && found->second->storage->core() == model.core;
        return fits ? abi::kSuccess : abi::kInvalid;
    };
    for (size_t number = 0; number < names.size(); ++number) {
        const Status status = check(inputs, names[number], module.host_shape.parameters[number].bytes(), 1002);
        if (status != abi::kSuccess) return status;
    }
    const auto results = module.output_names();
    for (size_t output = 0; output < results.size(); ++output) {
        const size_t bytes = module.host_shape.result.elements[output].bytes();
        const int64_t parameter = aliased_parameter(module, output);
        const Status status = check(outputs, results[output], bytes, parameter < 0 ? 1002 : abi::kInvalid);
        if (status != abi::kSuccess) return status;
        if (parameter < 0) continue;
        const Tensor* input = inputs.tensors.at(names[static_cast<size_t>(parameter)]);
        if (input != outputs.tensors.at(results[output])) return abi::kInvalid;
    }
    return abi::kSuccess;
}

// Memory of aliased results that a fault keeps from being written, to be put back afterwards.
struct KeptMemory {
    std::span<std::byte> place;
    std::vector<std::byte> bytes;
};

std::vector<KeptMemory> keep_dropped(ProgramGroup& group) {
    std::vector<KeptMemory> kept;
    const auto results = group.evaluator.module().output_names();
    for (const auto& [rank, fault] : group.planted) {
        if (fault.action != "drop") continue;
        for (size_t output = 0; output < results.size(); ++output) {
            if (aliased_parameter(group.evaluator.module(), output) < 0) continue;
            if (!fault.value.empty() && fault.value != results[output]) continue;
            const auto place = group.arrived.at(rank).second->tensors.at(results[output])->bytes();
            kept.push_back({place, {place.begin(), place.end()}});
        }
    }
    return kept;
}

void spoil_outputs(const ProgramGroup& group, const TensorMap& outputs, bool is_noise) {
    std::mt19937 random(7);
    const auto results = group.evaluator.module().output_names();
    for (size_t output = 0; output < results.size(); ++output) {
        if (aliased_parameter(group.evaluator.module(), output) >= 0) continue;
        for (std::byte& byte : outputs.tensors.at(results[output])->bytes()) {
            byte = is_noise ? static_cast<std::byte>(random()) : std::byte{0xff};
        }
    }
}

// Runs the program on the sets of all ranks, which are all here.
void run_group(ProgramGroup& group) {
    const hlo::Module& module = group.evaluator.module();
    const auto names = module.parameter_names();
    const auto results = module.output_names();
    std::vector<std::vector<hlo::Argument>> arguments(group.arrived.size());
    for (const auto& [rank, sets] : group.arrived) {
        for (const std::string& name : names) {
            arguments[static_cast<size_t>(rank)].emplace_back(sets.first->tensors.at(name)->bytes());
        }
    }
    const auto kept = keep_dropped(group);
    const auto computed = group.evaluator.run(arguments);
    for (const auto& [rank, sets] : group.arrived) {
        for (size_t output = 0; output < results.size(); ++output) {
            const auto& bytes = computed[static_cast<size_t>(rank)][output].bytes;
            if (aliased_parameter(module, output) >= 0) continue;
            std::memcpy(sets.second->tensors.at(results[output])->bytes().data(), bytes.data(), bytes.size());
        }
    }
    for (const KeptMemory& memory : kept) std::ranges::copy(memory.bytes, memory.place.begin());
    for (const auto& [rank, fault] : group.planted) {
        if (fault.action == "garbage") {  // an index out of range is one on every rank
            for (const auto& [other, sets] : group.arrived) spoil_outputs(group, *sets.second, true);
            group.status = static_cast<Status>(fault_number(fault));
        }
        if (fault.action == "nan") spoil_outputs(group, *group.arrived.at(rank).second, false);
    }
}

void count_users(const TensorMap& inputs, const TensorMap& outputs, int32_t change) {
    for (const TensorMap* set : {&inputs, &outputs}) {
        for (const auto& [name, tensor] : set->tensors) tensor->storage->users += change;
    }
}

}  // namespace

Status load_model(std::span<const std::byte> file, int32_t core, int32_t rank, int32_t world, Model** model) {
    Machine& machine = Machine::instance();
    neuron::NeffInfo neff;
    std::shared_ptr<ProgramGroup> group;
    try {
        neff = neuron::read_neff(file, "the NEFF");
        if (neff.version_major != 2 || (neff.feature_bits & ~kKnownFeatures) != 0) return 10;
        if (neff.lnc_size > 1) return abi::kInvalid;
        group = make_group(file, neff, world);
    } catch (const Error&) {
        return abi::kInvalid;
    }
    std::unique_lock lock(machine.mutex);
    const size_t bytes = file.size() + neff.scratchpad_bytes;
    if (const Status status = machine.take(core, bytes); status != abi::kSuccess) return status;
    if (world > 1) {
        const std::string key(reinterpret_cast<const char*>(file.data()), file.size());
        Loading& loading = loadings()[key];
        if (loading.arrived++ == 0) loading.group = group;
        group = loading.group;
        if (loading.arrived == world) {
            loadings().erase(key);
            machine.changed.notify_all();
        } else {
            machine.changed.wait(lock, [&] {
                const auto found = loadings().find(key);
                return found == loadings().end() || found->second.group != group;
            });
        }
    }
    *model = new Model{group, std::move(neff), core, rank, world, bytes};
    machine.models.insert(*model);
    return abi::kSuccess;
}

Status unload_model(Model* model) {
    Machine& machine = Machine::instance();
    const std::lock_guard lock(machine.mutex);
    if (!machine.retire(machine.models, model)) return 3;
    machine.give_back(model->core, model->bytes);
    model->group.reset();
    return abi::kSuccess;
}

Status execute_model(Model& model, const TensorMap& inputs, const TensorMap& outputs,
                     const std::optional<Fault>& fault) {
    Machine& machine = Machine::instance();
    std::unique_lock lock(machine.mutex);
    if (const Status status = check_sets(model, inputs, outputs); status != abi::kSuccess) return status;
    const std::shared_ptr<ProgramGroup> group = model.group;
    count_users(inputs, outputs, 1);
    group->arrived[model.rank] = {&inputs, &outputs};
    if (fault) group->planted[model.rank] = *fault;
    if (static_cast<int32_t>(group->arrived.size()) == model.world) {
        lock.unlock();
        Status status = abi::kSuccess;
        group->status = abi::kSuccess;
        try {
            run_group(*group);
        } catch (const std::exception&) {
            status = 1004;
        }
        lock.lock();
        if (status != abi::kSuccess) group->status = status;
        group->arrived.clear();
        group->planted.clear();
        ++group->executions;
        ++machine.executions;
        machine.changed.notify_all();
    } else {
        const uint64_t before = group->executions;
        machine.changed.wait(lock, [&] { return group->executions != before; });
    }
    count_users(inputs, outputs, -1);
    machine.changed.notify_all();
    return group->status;
}

}  // namespace gemmatrace::standin
