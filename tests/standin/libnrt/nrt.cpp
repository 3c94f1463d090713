// The functions that the stand-in runtime exports, with the checks that the real one makes and the faults it is told.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "standin/libnrt/execution.h"

namespace gemmatrace::standin {
namespace {

namespace abi = neuron::abi;

constexpr size_t kStackUsed = 4'194'016;  // what the real nrt_execute has on its stack

Machine& machine() { return Machine::instance(); }

// Does what is planted for this call. Returns the fault when the call itself has to do something about it; `status` is
// set when the call is to return it at once.
std::optional<Fault> planted(const char* call, int32_t rank, Status& status) {
    const std::optional<Fault> fault = machine().faults().next(call, rank);
    status = abi::kSuccess;
    if (!fault) return fault;
    if (fault->action == "hang") std::this_thread::sleep_for(std::chrono::hours(1000));
    if (fault->action == "delay") std::this_thread::sleep_for(std::chrono::duration<double>(fault_number(*fault)));
    if (fault->action == "kill") ::kill(::getpid(), SIGKILL);
    if (fault->action == "status") status = static_cast<Status>(fault_number(*fault));
    return fault;
}

// What every call begins with.
Status begin(const char* call, int32_t rank = 0) {
    Status status = abi::kSuccess;
    planted(call, rank, status);
    if (status != abi::kSuccess) return status;
    const std::lock_guard lock(machine().mutex);
    return machine().life();
}

bool is_core(int32_t core) { return core >= 0 && core < machine().visible_cores(); }

bool is_tensor(const void* tensor) {
    const std::lock_guard lock(machine().mutex);
    return machine().tensors.contains(tensor);
}

// Waits until no execution uses the tensor's memory; false when the part is not inside.
bool wait_for(const Tensor& tensor, size_t offset, size_t count) {
    std::unique_lock lock(machine().mutex);
    machine().changed.wait(lock, [&] { return tensor.storage->users == 0; });
    return offset <= tensor.size && count <= tensor.size - offset;
}

Status read_tensor(const Tensor* tensor, void* bytes, size_t offset, size_t count) {
    if (!is_tensor(tensor)) return 3;
    if (!wait_for(*tensor, offset, count)) return abi::kInvalid;
    std::memcpy(bytes, tensor->bytes().data() + offset, count);
    const std::lock_guard lock(machine().mutex);
    machine().bytes_read += count;
    return abi::kSuccess;
}

Status write_tensor(Tensor* tensor, const void* bytes, size_t offset, size_t count) {
    if (!is_tensor(tensor)) return 3;
    if (!wait_for(*tensor, offset, count)) return abi::kInvalid;
    std::memcpy(tensor->bytes().data() + offset, bytes, count);
    const std::lock_guard lock(machine().mutex);
    machine().bytes_written += count;
    return abi::kSuccess;
}

int32_t core_of(const Tensor* tensor) { return is_tensor(tensor) ? tensor->storage->core() : 0; }

Tensor* new_tensor(std::shared_ptr<Storage> storage, size_t offset, size_t size, const char* name) {
    auto* tensor = new Tensor{std::move(storage), offset, size, name == nullptr ? "" : name};
    const std::lock_guard lock(machine().mutex);
    machine().tensors.insert(tensor);
    return tensor;
}

Status load(const char* call, const void* neff, size_t size, int32_t core, int32_t count, int32_t rank, int32_t world,
            Model** model) {
    Status status = begin(call, world > 1 ? rank : std::max(core, 0));
    if (status != abi::kSuccess) return status;
    {
        const std::lock_guard lock(machine().mutex);
        const int32_t wanted = machine().settings().core_count;
        if (count != -1 && count != 1) return abi::kInvalid;
        if (wanted != 0 && count != wanted) return abi::kInvalid;
        if (core == -1) core = 0;
        if (!is_core(core) || world > machine().visible_cores() || rank >= world) return abi::kInvalid;
        if (world > 1 && machine().variable("NEURON_RT_ROOT_COMM_ID").empty()) return abi::kFailure;
    }
    return load_model({static_cast<const std::byte*>(neff), size}, core, rank, world, model);
}

// The real one copies a buffer that lies on the stack: a small stack ends here.
__attribute__((noinline)) void use_stack() {
    char buffer[kStackUsed];
    volatile char* bytes = buffer;
    for (size_t at = kStackUsed; at > 4096; at -= 4096) bytes[at - 1] = 0;  // from the top, into the guard page
}

}  // namespace
}  // namespace gemmatrace::standin

using namespace gemmatrace::standin;  // NOLINT: the functions below have C's names
namespace abi = gemmatrace::neuron::abi;

extern "C" {

Status nrt_get_version(abi::Version* version, size_t size) {
    Status status = abi::kSuccess;
    planted("nrt_get_version", 0, status);
    if (status != abi::kSuccess) return status;
    if (size < sizeof(abi::Version)) return abi::kInvalid;
    const Settings settings = Settings::read();
    *version = {settings.major, settings.minor, settings.patch, 0, "standin", "none"};
    return abi::kSuccess;
}

Status nrt_get_instance_info(abi::InstanceInfo* info, size_t size) {
    const abi::InstanceInfo whole = {abi::kFamilyInf2, 0, "NCv2", "0"};
    const size_t known = Settings::read().is_older_generation() ? 8 : sizeof whole;
    if (size > known) return abi::kInvalid;
    std::memcpy(info, &whole, size);
    return abi::kSuccess;
}

Status nrt_init(int32_t framework, const char*, const char*) {
    machine().faults().reset(Settings::read().faults);
    Status status = abi::kSuccess;
    planted("nrt_init", 0, status);
    if (status != abi::kSuccess) return status;
    if (framework < 1 || framework > 5) return abi::kInvalid;
    const std::lock_guard lock(machine().mutex);
    return machine().init();
}

void nrt_close() {
    Status status = abi::kSuccess;
    planted("nrt_close", 0, status);
    const std::lock_guard lock(machine().mutex);
    machine().close();
}

Status nrt_get_total_nc_count(uint32_t* count) {
    *count = static_cast<uint32_t>(Settings::read().cores);
    return abi::kSuccess;
}
Status nrt_get_total_vnc_count(uint32_t* count) { return nrt_get_total_nc_count(count); }
Status nrt_get_visible_nc_count(uint32_t* count) {
    const std::lock_guard lock(machine().mutex);
    *count = static_cast<uint32_t>(machine().visible_cores());
    return machine().life();
}
Status nrt_get_visible_vnc_count(uint32_t* count) { return nrt_get_visible_nc_count(count); }

Status nrt_load(const void* neff, size_t size, int32_t core, int32_t count, Model** model) {
    return load("nrt_load", neff, size, core, count, 0, 1, model);
}
Status nrt_load_collectives(const void* neff, size_t size, int32_t core, int32_t count, uint32_t rank, uint32_t world,
                            Model** model) {
    return load("nrt_load_collectives", neff, size, core, count, static_cast<int32_t>(rank),
                static_cast<int32_t>(world), model);
}
Status nrt_unload(Model* model) {
    const Status status = begin("nrt_unload");
    return status != abi::kSuccess ? status : unload_model(model);
}

Status nrt_allocate_tensor_set(void** set) {
    const Status status = begin("nrt_allocate_tensor_set");
    if (status != abi::kSuccess) return status;
    *set = new TensorMap;
    const std::lock_guard lock(machine().mutex);
    machine().sets.insert(*set);
    return abi::kSuccess;
}
void nrt_destroy_tensor_set(void** set) {
    if (begin("nrt_destroy_tensor_set") != abi::kSuccess) return;
    const std::lock_guard lock(machine().mutex);
    if (machine().retire(machine().sets, *set)) *set = nullptr;
}
Status nrt_add_tensor_to_tensor_set(void* set, const char* name, Tensor* tensor) {
    const Status status = begin("nrt_add_tensor_to_tensor_set", core_of(tensor));
    if (status != abi::kSuccess) return status;
    const std::lock_guard lock(machine().mutex);
    if (!machine().sets.contains(set) || !machine().tensors.contains(tensor)) return 3;
    static_cast<TensorMap*>(set)->tensors[name] = tensor;
    return abi::kSuccess;
}

Status nrt_execute(Model* model, const void* inputs, void* outputs) {
    use_stack();
    {
        const std::lock_guard lock(machine().mutex);
        if (machine().life() != abi::kSuccess) return machine().life();
        if (!machine().models.contains(model)) return 3;
        if (!machine().sets.contains(inputs) || !machine().sets.contains(outputs)) return 3;
    }
    Status status = abi::kSuccess;
    const std::optional<Fault> fault = planted("nrt_execute", model->world > 1 ? model->rank : model->core, status);
    if (status != abi::kSuccess) return status;
    std::optional<Fault> during = fault;
    if (during && during->action == "delay") during.reset();
    return execute_model(*model, *static_cast<const TensorMap*>(inputs), *static_cast<const TensorMap*>(outputs),
                         during);
}

Status nrt_build_global_comm(int32_t core, uint32_t rank, uint32_t world) {
    const Status status = begin("nrt_build_global_comm", core);
    if (status != abi::kSuccess) return status;
    const std::lock_guard lock(machine().mutex);
    if (machine().variable("NEURON_RT_ROOT_COMM_ID").empty()) return abi::kFailure;
    return is_core(core) && rank < world ? abi::kSuccess : abi::kInvalid;
}

Status nrt_tensor_allocate(int32_t placement, int32_t core, size_t size, const char* name, Tensor** tensor) {
    const Status status = begin("nrt_tensor_allocate", core);
    if (status != abi::kSuccess) return status;
    {
        const std::lock_guard lock(machine().mutex);
        if (placement != abi::kPlacementDevice || size == 0 || !is_core(core)) return abi::kInvalid;
        if (const Status taken = machine().take(core, size); taken != abi::kSuccess) return taken;
    }
    // The core gets it back with the last tensor that lies in it.
    std::shared_ptr<Storage> storage(new Storage(core, size), [](Storage* memory) {
        if (machine().life() == abi::kSuccess) machine().give_back(memory->core(), memory->bytes().size());
        delete memory;
    });
    *tensor = new_tensor(std::move(storage), 0, size, name);
    return abi::kSuccess;
}
Status nrt_tensor_allocate_slice(const Tensor* source, size_t offset, size_t size, const char* name, Tensor** tensor) {
    const Status status = begin("nrt_tensor_allocate_slice", core_of(source));
    if (status != abi::kSuccess) return status;
    if (!is_tensor(source)) return 3;
    if (size == 0 || offset > source->size || size > source->size - offset) return abi::kInvalid;
    *tensor = new_tensor(source->storage, source->offset + offset, size, name);
    return abi::kSuccess;
}
void nrt_tensor_free(Tensor** tensor) {
    if (begin("nrt_tensor_free", core_of(*tensor)) != abi::kSuccess || !is_tensor(*tensor)) return;
    wait_for(**tensor, 0, 0);
    const std::lock_guard lock(machine().mutex);
    machine().retire(machine().tensors, *tensor);
    (*tensor)->storage.reset();
    *tensor = nullptr;
}

Status nrt_tensor_read(const Tensor* tensor, void* bytes, size_t offset, size_t count) {
    const Status status = begin("nrt_tensor_read", core_of(tensor));
    return status != abi::kSuccess ? status : read_tensor(tensor, bytes, offset, count);
}
Status nrt_tensor_write(Tensor* tensor, const void* bytes, size_t offset, size_t count) {
    const Status status = begin("nrt_tensor_write", core_of(tensor));
    return status != abi::kSuccess ? status : write_tensor(tensor, bytes, offset, count);
}
Status nrt_tensor_copy(const Tensor* from, size_t from_offset, Tensor* to, size_t to_offset, size_t count) {
    const Status status = begin("nrt_tensor_copy", core_of(from));
    if (status != abi::kSuccess) return status;
    if (!is_tensor(from) || !is_tensor(to)) return 3;
    if (from->storage->core() != to->storage->core()) return abi::kInvalid;
    if (!wait_for(*from, from_offset, count) || !wait_for(*to, to_offset, count)) return abi::kInvalid;
    std::memmove(to->bytes().data() + to_offset, from->bytes().data() + from_offset, count);
    return abi::kSuccess;
}
Status nrt_tensor_memset(Tensor* tensor, uint64_t offset, int value, size_t count) {
    const Status status = begin("nrt_tensor_memset", core_of(tensor));
    if (status != abi::kSuccess) return status;
    if (!is_tensor(tensor)) return 3;
    if (!wait_for(*tensor, offset, count)) return abi::kInvalid;
    std::memset(tensor->bytes().data() + offset, value, count);
    return abi::kSuccess;
}
size_t nrt_tensor_get_size(const Tensor* tensor) { return is_tensor(tensor) ? tensor->size : 0; }
void* nrt_tensor_get_va(const Tensor* tensor) { return is_tensor(tensor) ? tensor->bytes().data() : nullptr; }

Status nrt_get_vnc_memory_stats(uint32_t core, abi::MemoryStats* stats, size_t size, size_t* written) {
    const Status status = begin("nrt_get_vnc_memory_stats", static_cast<int32_t>(core));
    if (status != abi::kSuccess) return status;
    const std::lock_guard lock(machine().mutex);
    if (!is_core(static_cast<int32_t>(core))) return abi::kInvalid;
    const abi::MemoryStats all = {machine().taken(static_cast<int32_t>(core)), machine().settings().core_bytes};
    *written = std::min(size, sizeof all);
    std::memcpy(stats, &all, *written);
    return abi::kSuccess;
}

Status nrt_get_model_tensor_info(Model* model, abi::TensorInfoArray** infos) {
    const Status status = begin("nrt_get_model_tensor_info");
    if (status != abi::kSuccess) return status;
    const std::lock_guard lock(machine().mutex);
    if (!machine().models.contains(model)) return 3;
    const auto& tensors = model->neff.tensors;
    const size_t bytes = sizeof(abi::TensorInfoArray) + tensors.size() * sizeof(abi::TensorInfo);
    auto* array = static_cast<abi::TensorInfoArray*>(std::calloc(1, bytes));
    for (const auto& tensor : tensors) {
        const bool is_input = tensor.kind == gemmatrace::neuron::NeffTensor::Kind::input;
        if (!is_input && tensor.kind != gemmatrace::neuron::NeffTensor::Kind::output) continue;
        abi::TensorInfo& info = array->entries[array->count++];
        std::memcpy(info.name, tensor.name.data(), std::min(tensor.name.size(), sizeof info.name - 1));
        info.usage = is_input ? abi::kUsageInput : abi::kUsageOutput;
        info.size = tensor.bytes;
        info.dtype = machine().settings().is_older_generation() ? 3 : 6;  // a bf16, as either numbers it
    }
    *infos = array;
    return abi::kSuccess;
}
Status nrt_free_model_tensor_info(abi::TensorInfoArray* infos) {
    std::free(infos);
    return abi::kSuccess;
}

}  // extern "C"
