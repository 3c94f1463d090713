// A program that runs beside us in a process group of its own, so that all of it ends when we say so.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "neuron/failures.h"

namespace gemmatrace::neuron {

struct ProcessSpec {
    std::vector<std::string> arguments;    // the first is the program's path
    std::filesystem::path directory;       // where it runs
    std::filesystem::path output;          // file for its standard output and error
    std::vector<std::string> environment;  // "NAME=VALUE"
};

// Our environment without what steers the compiler behind our back (NEURON_CC_FLAGS and all else of NEURON and XLA),
// and with the folder of `program` in front of PATH, where its helpers lie.
std::vector<std::string> compiler_environment(const std::filesystem::path& program);

class Process {
  public:
    // Starts it, with nothing to read on standard input. It ends when we do, however that happens. Throws
    // Error(not_found) when it cannot be executed, Error(resource) when there can be no further process.
    explicit Process(const ProcessSpec& spec);
    ~Process();  // stops it
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;

    // How it ended, or nothing while it runs. What it has left running in its group is killed.
    std::optional<CompilerExit> poll();
    // Asks the group to end, and kills it after `patience_seconds`.
    void stop(double patience_seconds = 1.0);

    // Resident memory of the group now.
    uint64_t memory_bytes() const;
    // The most that one process of it held; once it ended.
    uint64_t largest_process_bytes() const { return largest_process_bytes_; }

  private:
    pid_t pid_ = -1;
    std::optional<CompilerExit> end_;
    uint64_t largest_process_bytes_ = 0;
};

}  // namespace gemmatrace::neuron
