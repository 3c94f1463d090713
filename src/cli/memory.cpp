// The kernel's estimate of free memory.
#include "cli/memory.h"

#include <fstream>
#include <string>

namespace gemmatrace::cli {

size_t available_memory_bytes() {
    constexpr size_t kWithoutAnEstimate = size_t{1} << 30;
    std::ifstream file("/proc/meminfo");
    std::string key;
    size_t kibibytes = 0;
    std::string unit;
    while (file >> key >> kibibytes) {
        if (key == "MemAvailable:") return kibibytes * 1024;
        std::getline(file, unit);
    }
    return kWithoutAnEstimate;
}

}  // namespace gemmatrace::cli
