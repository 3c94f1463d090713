// dlopen and dlsym; what a release lacks is known before anything is called.
#include "neuron/nrt_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

#include "base/error.h"
#include "neuron/nrt_status.h"

namespace gemmatrace::neuron {
namespace {

constexpr const char* kUsualPath = "/opt/aws/neuron/lib/libnrt.so.1";
constexpr uint64_t kOldestMinor = 25;  // of SDK 2.23: before it, failures were reported as success

std::string load_fault() {
    const char* fault = ::dlerror();
    return fault == nullptr ? "unknown reason" : fault;
}

struct OpenedLibrary {
    void* handle = nullptr;
    std::string path;
};

OpenedLibrary open_first() {
    const char* chosen = std::getenv(kLibraryVariable);
    const bool is_chosen = chosen != nullptr && *chosen != '\0';
    const std::vector<std::string> paths =
        is_chosen ? std::vector<std::string>{chosen} : std::vector<std::string>{kLibraryName, kUsualPath};
    std::string faults;
    for (const std::string& path : paths) {
        void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (handle != nullptr) return {handle, path};
        faults += (faults.empty() ? "" : "; ") + load_fault();
    }
    throw Error(
        ErrorCode::not_found, "the Neuron runtime cannot be opened", {{"library", paths.front()}, {"reason", faults}},
        is_chosen ? fmt::format("let {} name a libnrt.so.1, or unset it", kLibraryVariable)
                  : fmt::format("install aws-neuronx-runtime-lib, or name the library in {}", kLibraryVariable));
}

// Looks functions up and notes what is not there.
class Symbols {
  public:
    explicit Symbols(void* handle) : handle_(handle) {}

    template <typename Function>
    void find(Function& function, const char* name, bool is_required) {
        void* address = ::dlsym(handle_, name);
        function = reinterpret_cast<Function>(address);
        if (address == nullptr) (is_required ? absent : missing).emplace_back(name);
    }

    std::vector<std::string> absent;   // required
    std::vector<std::string> missing;  // optional

  private:
    void* handle_;
};

void find_all(Symbols& symbols, abi::Functions& f) {
    symbols.find(f.nrt_get_version, "nrt_get_version", true);
    symbols.find(f.nrt_init, "nrt_init", true);
    symbols.find(f.nrt_close, "nrt_close", true);
    symbols.find(f.nrt_load, "nrt_load", true);
    symbols.find(f.nrt_load_collectives, "nrt_load_collectives", true);
    symbols.find(f.nrt_unload, "nrt_unload", true);
    symbols.find(f.nrt_allocate_tensor_set, "nrt_allocate_tensor_set", true);
    symbols.find(f.nrt_destroy_tensor_set, "nrt_destroy_tensor_set", true);
    symbols.find(f.nrt_add_tensor_to_tensor_set, "nrt_add_tensor_to_tensor_set", true);
    symbols.find(f.nrt_execute, "nrt_execute", true);
    symbols.find(f.nrt_tensor_allocate, "nrt_tensor_allocate", true);
    symbols.find(f.nrt_tensor_free, "nrt_tensor_free", true);
    symbols.find(f.nrt_tensor_read, "nrt_tensor_read", true);
    symbols.find(f.nrt_tensor_write, "nrt_tensor_write", true);
    symbols.find(f.nrt_get_total_vnc_count, "nrt_get_total_vnc_count", false);
    symbols.find(f.nrt_get_total_nc_count, "nrt_get_total_nc_count", false);
    symbols.find(f.nrt_get_instance_info, "nrt_get_instance_info", false);
    symbols.find(f.nrt_tensor_memset, "nrt_tensor_memset", false);
    symbols.find(f.nrt_get_vnc_memory_stats, "nrt_get_vnc_memory_stats", false);
    symbols.find(f.nrt_get_model_tensor_info, "nrt_get_model_tensor_info", false);
    symbols.find(f.nrt_free_model_tensor_info, "nrt_free_model_tensor_info", false);
}

}  // namespace

NrtLibrary NrtLibrary::open() {
    const OpenedLibrary opened = open_first();
    NrtLibrary library;
    library.path_ = opened.path;
    Symbols symbols(opened.handle);
    find_all(symbols, library.functions_);
    if (!symbols.absent.empty()) {
        throw Error(ErrorCode::mismatch,
                    fmt::format("the Neuron runtime lacks {} and {} more functions that every release has",
                                symbols.absent.front(), symbols.absent.size() - 1),
                    {{"library", library.path_}},
                    "reinstall aws-neuronx-runtime-lib, and see that only one release of it is installed");
    }
    library.missing_ = std::move(symbols.missing);
    const abi::Status status = library.functions_.nrt_get_version(&library.version_, sizeof library.version_);
    if (status != abi::kSuccess) throw error_of({"nrt_get_version"}, status);
    if (library.version_.major != 2 || library.version_.minor < kOldestMinor) {
        throw Error(ErrorCode::mismatch,
                    fmt::format("the Neuron runtime is version {}; this program knows 2.{} and later of 2",
                                library.version_text(), kOldestMinor),
                    {{"library", library.path_}}, "upgrade aws-neuronx-runtime-lib");
    }
    return library;
}

std::string NrtLibrary::version_text() const {
    return fmt::format("{}.{}.{}", version_.major, version_.minor, version_.patch);
}

std::optional<abi::MemoryStats> NrtLibrary::memory_stats(int32_t core) const {
    abi::MemoryStats stats = {};
    size_t written = 0;
    const auto ask = functions_.nrt_get_vnc_memory_stats;
    if (ask == nullptr || ask(static_cast<uint32_t>(core), &stats, sizeof stats, &written) != abi::kSuccess) {
        return std::nullopt;
    }
    return stats;
}

uint32_t NrtLibrary::core_count() const {
    const auto count_cores = functions_.nrt_get_total_vnc_count != nullptr ? functions_.nrt_get_total_vnc_count
                                                                           : functions_.nrt_get_total_nc_count;
    if (count_cores == nullptr) {
        throw Error(ErrorCode::mismatch, "the Neuron runtime cannot count its cores", {{"library", path_}},
                    "reinstall aws-neuronx-runtime-lib");
    }
    uint32_t count = 0;
    const abi::Status status = count_cores(&count);
    if (status != abi::kSuccess) throw error_of({"nrt_get_total_nc_count"}, status);
    return count;
}

abi::InstanceInfo NrtLibrary::instance() const {
    abi::InstanceInfo info = {};
    if (functions_.nrt_get_instance_info == nullptr) return info;
    if (functions_.nrt_get_instance_info(&info, sizeof info) == abi::kSuccess) return info;
    // Releases that know the short form may refuse a longer one.
    info = {};
    if (functions_.nrt_get_instance_info(&info, offsetof(abi::InstanceInfo, arch_name)) != abi::kSuccess) info = {};
    return info;
}

}  // namespace gemmatrace::neuron
