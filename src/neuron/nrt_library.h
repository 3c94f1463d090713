// libnrt opened at run time: its functions, its version, and what the machine it runs on has.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "neuron/nrt_abi.h"

namespace gemmatrace::neuron {

inline constexpr const char* kLibraryVariable = "GEMMATRACE_LIBNRT";  // a path to use instead of the search
inline constexpr const char* kLibraryName = "libnrt.so.1";

// Stays open as long as the process: its threads outlive whoever opened it.
class NrtLibrary {
  public:
    // Opens the file that GEMMATRACE_LIBNRT names, or else libnrt.so.1 where the system looks and in
    // /opt/aws/neuron/lib. Throws Error(not_found) when there is none, Error(mismatch) when a function that every
    // release has is missing or its version cannot be told.
    static NrtLibrary open();

    const abi::Functions& call() const { return functions_; }
    const std::string& path() const { return path_; }
    const abi::Version& version() const { return version_; }
    // "2.30.51"
    std::string version_text() const;
    // Names of optional functions that this release lacks.
    const std::vector<std::string>& missing() const { return missing_; }

    // Cores of this machine's driver, whether in use or not. Throws Error(device) with the status.
    uint32_t core_count() const;
    // What the runtime counts on one of our cores; nothing when it does not tell.
    std::optional<abi::MemoryStats> memory_stats(int32_t core) const;
    // Family and size as the library numbers them; zeros when it cannot tell.
    abi::InstanceInfo instance() const;

  private:
    NrtLibrary() = default;

    std::string path_;
    abi::Functions functions_ = {};
    abi::Version version_ = {};
    std::vector<std::string> missing_;
};

}  // namespace gemmatrace::neuron
