// What the runtime finds on the host when it starts: the environment that we set for it, the cores that are asked for,
// and who else holds them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace gemmatrace::neuron {

// Cores beside each other.
struct CoreRange {
    int32_t first = 0;
    int32_t count = 0;
    // As the runtime reads it: "3", "0-1".
    std::string text() const;
    bool operator==(const CoreRange&) const = default;
};

// Reads "3", "0-1" or "0,1,2". Throws Error(bad_request) for what is no list of increasing neighbours; `field` says
// where it stood.
CoreRange parse_cores(const std::string& text, const std::string& field);

// The cores for so many ranks: those of `option`, else those of NEURON_RT_VISIBLE_CORES, of either the first ones, else
// the machine's first. Throws Error(bad_request) when they are fewer.
CoreRange choose_cores(const std::string& option, int32_t ranks);

// Variables of the environment that ask for logical cores of several physical ones. Those exist on later chips only; a
// runtime that is told to make them fails oddly.
std::vector<std::string> logical_core_variables();

// The variables that the runtime is to see, by name; an empty value: none. Throws Error(unsupported) when the
// environment asks for logical cores of several physical ones. Finds a free port for the ranks to meet at.
std::vector<std::pair<std::string, std::string>> runtime_environment(const CoreRange& cores, double timeout_seconds);
// Sets them. For a process without other threads that read the environment.
void set_environment(const std::vector<std::pair<std::string, std::string>>& variables);

struct CoreHolder {
    int64_t pid = 0;
    std::string command;
    bool operator==(const CoreHolder&) const = default;
};

// Other processes that use the machine's accelerators: what `neuron-ls -j` prints, where that program is, and whose
// open files are its device nodes. Those of other users are only seen by root.
std::vector<CoreHolder> find_core_holders();

// The parts of it. Text that is no such output has no holders.
std::vector<CoreHolder> holders_in_listing(const std::string& neuron_ls_output);
std::vector<CoreHolder> holders_in_proc(const std::filesystem::path& proc, const std::string& device_prefix);

// "held by process 4711 (python3 serve.py)"; empty without any.
std::string holders_text(const std::vector<CoreHolder>& holders);

}  // namespace gemmatrace::neuron
