// Everything here is done before the runtime is started, or after it refused to.
#include "neuron/nrt_host.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"

namespace gemmatrace::neuron {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kMostCores = 128;
constexpr size_t kLongestListing = size_t{1} << 20;
constexpr size_t kLongestCommand = 120;  // of a holder's command line in a message
constexpr const char* kVisibleCores = "NEURON_RT_VISIBLE_CORES";

[[noreturn]] void refuse_cores(const std::string& text, const std::string& field) {
    throw Error(ErrorCode::bad_request, fmt::format("'{}' is no list of cores", printable(text)), {{"field", field}},
                "name neighbours in increasing order, e.g. 0-1 or 2,3");
}

int32_t core_number(std::string_view text, const std::string& whole, const std::string& field) {
    int32_t number = -1;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (fault != std::errc() || end != text.data() + text.size() || number < 0 || number >= kMostCores) {
        refuse_cores(whole, field);
    }
    return number;
}

int free_port() {
    const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    const bool is_bound =
        descriptor >= 0 && ::bind(descriptor, plain, size) == 0 && ::getsockname(descriptor, plain, &size) == 0;
    if (descriptor >= 0) ::close(descriptor);
    if (!is_bound) {
        throw Error(ErrorCode::resource, "there is no free port on 127.0.0.1 for the ranks to meet at", {},
                    "see that the loopback interface is up");
    }
    return ntohs(address.sin_port);
}

void refuse_logical_cores() {
    for (const std::string& name : logical_core_variables()) {
        throw Error(ErrorCode::unsupported,
                    fmt::format("{} is {}, and this chip has cores of one only", name, std::getenv(name.c_str())),
                    {{"variable", name}}, fmt::format("unset {}", name));
    }
}

std::string command_of(const fs::path& process) {
    std::ifstream file(process / "cmdline", std::ios::binary);
    std::string command(kLongestCommand, '\0');
    file.read(command.data(), static_cast<std::streamsize>(command.size()));
    command.resize(static_cast<size_t>(file.gcount()));
    std::ranges::replace(command, '\0', ' ');
    while (command.ends_with(' ')) command.pop_back();
    return printable(command);
}

bool has_open(const fs::path& process, const std::string& device_prefix) {
    std::error_code problem;
    for (fs::directory_iterator file(process / "fd", problem), end; !problem && file != end; file.increment(problem)) {
        std::error_code is_gone;
        if (fs::read_symlink(file->path(), is_gone).string().starts_with(device_prefix)) return true;
    }
    return false;
}

// The first lines of a program's output; empty when there is no such program.
std::string output_of(const char* command) {
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command, "r"), ::pclose);
    std::string text;
    char part[4096];
    while (pipe && text.size() < kLongestListing) {
        const size_t count = std::fread(part, 1, sizeof part, pipe.get());
        if (count == 0) break;
        text.append(part, count);
    }
    return text;
}

}  // namespace

std::vector<std::string> logical_core_variables() {
    std::vector<std::string> set;
    for (const char* name : {"NEURON_LOGICAL_NC_CONFIG", "NEURON_RT_VIRTUAL_CORE_SIZE"}) {
        const char* value = std::getenv(name);
        if (value != nullptr && *value != '\0' && std::string_view(value) != "1") set.emplace_back(name);
    }
    return set;
}

std::string CoreRange::text() const {
    return count == 1 ? std::to_string(first) : fmt::format("{}-{}", first, first + count - 1);
}

CoreRange parse_cores(const std::string& text, const std::string& field) {
    CoreRange range;
    for (size_t at = 0; at <= text.size();) {
        const size_t comma = std::min(text.find(',', at), text.size());
        const std::string_view part = std::string_view(text).substr(at, comma - at);
        const size_t dash = part.find('-');
        const int32_t first = core_number(part.substr(0, dash), text, field);
        const int32_t last = dash == part.npos ? first : core_number(part.substr(dash + 1), text, field);
        if (last < first || (range.count > 0 && first != range.first + range.count)) refuse_cores(text, field);
        if (range.count == 0) range.first = first;
        range.count = last - range.first + 1;
        at = comma + 1;
    }
    return range;
}

CoreRange choose_cores(const std::string& option, int32_t ranks) {
    const char* variable = std::getenv(kVisibleCores);
    const bool is_named = !option.empty();
    if (!is_named && (variable == nullptr || *variable == '\0')) return {0, ranks};
    const std::string field = is_named ? "--cores" : kVisibleCores;
    CoreRange range = parse_cores(is_named ? option : variable, field);
    if (range.count < ranks) {
        throw Error(ErrorCode::bad_request,
                    fmt::format("the programs are for {} ranks, and {} names {}", ranks, field,
                                range.count == 1 ? "one core" : fmt::format("{} cores", range.count)),
                    {{"field", field}}, "name a core for each rank, or compile for fewer ranks");
    }
    range.count = ranks;
    return range;
}

std::vector<std::pair<std::string, std::string>> runtime_environment(const CoreRange& cores, double timeout_seconds) {
    refuse_logical_cores();
    // The runtime is to report before our own deadline, for it knows more.
    const auto runtime_seconds = static_cast<int64_t>(std::max(1.0, std::floor(timeout_seconds * 0.75)));
    return {{kVisibleCores, cores.text()},
            {"NEURON_RT_NUM_CORES", ""},
            {"NEURON_RT_ROOT_COMM_ID", fmt::format("127.0.0.1:{}", free_port())},
            {"NEURON_RT_EXEC_TIMEOUT", std::to_string(runtime_seconds)},
            {"NEURON_RT_IO_RING_CACHE_SIZE", "1"},
            {"NEURON_RT_STOCHASTIC_ROUNDING_EN", "0"},
            {"NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS", ""},
            {"NEURON_PROCESS_TAG", "gemmatrace"}};
}

void set_environment(const std::vector<std::pair<std::string, std::string>>& variables) {
    for (const auto& [name, value] : variables) {
        if (value.empty())
            ::unsetenv(name.c_str());
        else
            ::setenv(name.c_str(), value.c_str(), 1);
    }
}

std::vector<CoreHolder> holders_in_listing(const std::string& neuron_ls_output) {
    std::vector<CoreHolder> holders;
    nlohmann::ordered_json devices;
    try {
        devices = parse_json(neuron_ls_output, "neuron-ls", ErrorCode::corrupt);
    } catch (const Error&) {
        return holders;  // another version, or none: it only helps a message
    }
    if (!devices.is_array()) return holders;
    for (const auto& device : devices) {
        if (!device.is_object() || !device.contains("neuron_processes")) continue;
        for (const auto& process : device["neuron_processes"]) {
            if (!process.is_object() || !process.contains("pid") || !process["pid"].is_number_integer()) continue;
            CoreHolder holder{process["pid"].get<int64_t>(), {}};
            if (process.contains("command") && process["command"].is_string()) {
                holder.command = printable(process["command"].get<std::string>());
            }
            holders.push_back(std::move(holder));
        }
    }
    return holders;
}

std::vector<CoreHolder> holders_in_proc(const fs::path& proc, const std::string& device_prefix) {
    std::vector<CoreHolder> holders;
    std::error_code problem;
    for (fs::directory_iterator process(proc, problem), end; !problem && process != end; process.increment(problem)) {
        const std::string name = process->path().filename().string();
        if (name.find_first_not_of("0123456789") != name.npos || name.size() > 18) continue;
        if (has_open(process->path(), device_prefix)) {
            holders.push_back({std::stoll(name), command_of(process->path())});
        }
    }
    return holders;
}

std::vector<CoreHolder> find_core_holders() {
    std::vector<CoreHolder> holders =
        holders_in_listing(output_of("PATH=\"$PATH:/opt/aws/neuron/bin\" neuron-ls -j 2>/dev/null"));
    for (CoreHolder& holder : holders_in_proc("/proc", "/dev/neuron")) holders.push_back(std::move(holder));
    std::ranges::sort(holders, {}, &CoreHolder::pid);
    const auto again = std::ranges::unique(holders, {}, &CoreHolder::pid);
    holders.erase(again.begin(), again.end());
    std::erase_if(holders, [](const CoreHolder& holder) { return holder.pid == ::getpid(); });
    return holders;
}

std::string holders_text(const std::vector<CoreHolder>& holders) {
    std::string text;
    for (const CoreHolder& holder : holders) {
        text += fmt::format("{} {}{}", text.empty() ? "held by process" : ", process", holder.pid,
                            holder.command.empty() ? "" : " (" + holder.command + ")");
    }
    return text;
}

}  // namespace gemmatrace::neuron
