// Memory as /proc and the control group's files show it.
#include "base/host_memory.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>

namespace gemmatrace {
namespace {

// A member of /proc/meminfo in bytes.
std::optional<size_t> meminfo(const std::string& member) {
    std::ifstream file("/proc/meminfo");
    std::string key;
    size_t kibibytes = 0;
    std::string unit;
    while (file >> key >> kibibytes) {
        if (key == member) return kibibytes * 1024;
        std::getline(file, unit);
    }
    return std::nullopt;
}

std::optional<size_t> number_in(const std::string& path) {
    std::ifstream file(path);
    size_t value = 0;
    if (file >> value) return value;
    return std::nullopt;  // not there, or "max"
}

// What our own control group leaves; file pages that it can drop count as free.
std::optional<size_t> group_leaves() {
    const std::string folder = "/sys/fs/cgroup/";  // in a container the container's own
    const auto limit = number_in(folder + "memory.max");
    const auto used = number_in(folder + "memory.current");
    if (!limit || !used) return std::nullopt;
    size_t droppable = 0;
    std::ifstream file(folder + "memory.stat");
    std::string key;
    size_t value = 0;
    while (file >> key >> value) {
        if (key == "inactive_file") droppable = value;
    }
    const size_t held = *used - std::min(*used, droppable);
    return *limit - std::min(*limit, held);
}

}  // namespace

size_t available_memory_bytes() {
    constexpr size_t kWithoutAnEstimate = size_t{1} << 30;
    const size_t free = meminfo("MemAvailable:").value_or(kWithoutAnEstimate);
    return std::min(free, group_leaves().value_or(free));
}

size_t free_swap_bytes() { return meminfo("SwapFree:").value_or(0); }

uint64_t group_memory_bytes(int group) {
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc"), closedir);
    if (!folder) return 0;
    uint64_t pages = 0;
    while (const dirent* entry = readdir(folder.get())) {
        if (std::isdigit(static_cast<unsigned char>(entry->d_name[0])) == 0) continue;
        std::ifstream file(std::string("/proc/") + entry->d_name + "/stat");
        std::string line;
        std::getline(file, line);
        const size_t name_end = line.rfind(')');  // a process may be called anything
        if (name_end == std::string::npos) continue;
        // After the name: state, parent, group (fields 3 to 5) … resident pages (24).
        std::istringstream fields(line.substr(name_end + 1));
        std::string field;
        long long of_group = -1;
        long long resident = 0;
        for (int number = 3; number <= 24 && fields >> field; ++number) {
            if (number == 5) of_group = std::atoll(field.c_str());
            if (number == 5 && of_group != group) break;
            if (number == 24) resident = std::atoll(field.c_str());
        }
        if (of_group == group && resident > 0) pages += static_cast<uint64_t>(resident);
    }
    return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace gemmatrace
