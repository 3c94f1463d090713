// The parts of libnrt's binary interface that we use: structs, numbers and signatures, declared by us because the
// library is opened at run time and its headers are never included.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gemmatrace::neuron::abi {

using Status = int32_t;  // meanings: nrt_status.h
inline constexpr Status kSuccess = 0;
inline constexpr Status kFailure = 1;
inline constexpr Status kInvalid = 2;
inline constexpr Status kResource = 4;

struct Model;   // incomplete: a handle
struct Tensor;  // incomplete: a handle
using TensorSet = void;

inline constexpr int32_t kFrameworkNone = 1;
inline constexpr int32_t kPlacementDevice = 0;
inline constexpr uint32_t kUsageInput = 0;
inline constexpr uint32_t kUsageOutput = 1;

struct Version {
    uint64_t major;
    uint64_t minor;
    uint64_t patch;
    uint64_t maintenance;
    char detail[128];
    char git_hash[64];
};
static_assert(sizeof(Version) == 224);

// The first two members are all that older libraries fill.
struct InstanceInfo {
    uint32_t family;
    uint32_t size;
    char arch_name[16];
    char device_revision[8];
};
static_assert(sizeof(InstanceInfo) == 32);

struct MemoryStats {
    size_t bytes_used;
    size_t bytes_limit;
};
static_assert(sizeof(MemoryStats) == 16);

// Of the experimental header. The number of dtype changed between releases, so it is never read.
struct TensorInfo {
    char name[256];
    uint32_t usage;
    size_t size;
    uint32_t dtype;
    uint32_t* shape;
    uint32_t dimensions;
};
static_assert(sizeof(TensorInfo) == 296 && offsetof(TensorInfo, size) == 264 && offsetof(TensorInfo, shape) == 280);
struct TensorInfoArray {
    uint64_t count;
    TensorInfo entries[1];  // count of them
};

// Instance families that have the core our programs are compiled for.
inline constexpr uint32_t kFamilyTrn1 = 2;
inline constexpr uint32_t kFamilyTrn1n = 3;
inline constexpr uint32_t kFamilyInf2 = 4;
inline constexpr uint32_t kFamilyInf2e = 7;

// The functions, named as in the library; null when an optional one is not there.
struct Functions {
    Status (*nrt_get_version)(Version* version, size_t size);
    Status (*nrt_init)(int32_t framework, const char* framework_version, const char* fal_version);
    void (*nrt_close)();
    Status (*nrt_load)(const void* neff, size_t bytes, int32_t core, int32_t core_count, Model** model);
    Status (*nrt_load_collectives)(const void* neff, size_t bytes, int32_t core, int32_t core_count, uint32_t rank,
                                   uint32_t ranks, Model** model);
    Status (*nrt_unload)(Model* model);
    Status (*nrt_allocate_tensor_set)(TensorSet** set);
    void (*nrt_destroy_tensor_set)(TensorSet** set);
    Status (*nrt_add_tensor_to_tensor_set)(TensorSet* set, const char* name, Tensor* tensor);
    Status (*nrt_execute)(Model* model, const TensorSet* inputs, TensorSet* outputs);
    Status (*nrt_tensor_allocate)(int32_t placement, int32_t core, size_t bytes, const char* name, Tensor** tensor);
    void (*nrt_tensor_free)(Tensor** tensor);
    Status (*nrt_tensor_read)(const Tensor* tensor, void* bytes, size_t offset, size_t count);
    Status (*nrt_tensor_write)(Tensor* tensor, const void* bytes, size_t offset, size_t count);

    // Optional. Cores are counted by one of the two spellings.
    Status (*nrt_get_total_vnc_count)(uint32_t* count);
    Status (*nrt_get_total_nc_count)(uint32_t* count);
    Status (*nrt_get_instance_info)(InstanceInfo* info, size_t bytes);
    Status (*nrt_tensor_memset)(Tensor* tensor, uint64_t offset, int value, size_t count);
    Status (*nrt_get_vnc_memory_stats)(uint32_t core, MemoryStats* stats, size_t bytes, size_t* written);
    Status (*nrt_get_model_tensor_info)(Model* model, TensorInfoArray** infos);
    Status (*nrt_free_model_tensor_info)(TensorInfoArray* infos);
};

}  // namespace gemmatrace::neuron::abi
