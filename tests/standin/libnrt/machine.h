// The machine that the stand-in runtime pretends to have: cores with memory of their own, held by one process at a
// time.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "neuron/nrt_abi.h"
#include "standin/libnrt/faults.h"

namespace gemmatrace::standin {

using neuron::abi::Status;

// What is read from the environment, each as GEMMATRACE_STANDIN_NRT_NAME.
struct Settings {
    int32_t cores = 2;                           // CORES of the machine
    size_t core_bytes = 17'179'869'184;          // BYTES of a core's memory
    std::string folder;                          // FOLDER of the files that are locked while a core is held
    std::string faults;                          // FAULTS
    std::string log;                             // LOG: a line of JSON is added to this file when the runtime is closed
    uint64_t major = 2, minor = 32, patch = 10;  // VERSION
    int32_t core_count = 0;                      // COUNT that loads must give: -1 or 1; otherwise either will do

    static Settings read();
    // Element types were renumbered and the instance's description grew.
    bool is_older_generation() const { return minor < 30; }
};

// Memory of a core. Bytes that nobody has written are NaN in every floating type.
class Storage {
  public:
    Storage(int32_t core, size_t bytes);
    ~Storage();
    Storage(const Storage&) = delete;
    Storage& operator=(const Storage&) = delete;

    int32_t core() const { return core_; }
    std::span<std::byte> bytes() const { return {data_, size_}; }
    int32_t users = 0;  // executions that run on it

  private:
    int32_t core_;
    std::byte* data_;
    size_t size_;
};

// Life of the runtime in this process, and everything that has a handle.
class Machine {
  public:
    static Machine& instance();

    std::mutex mutex;  // of everything below
    std::condition_variable changed;

    Status init();
    void close();
    // 13 before init, 14 after close, otherwise 0.
    Status life() const;
    int32_t visible_cores() const { return static_cast<int32_t>(held_.size()); }
    const Settings& settings() const { return settings_; }
    FaultScript& faults() { return faults_; }
    // Of the environment when the runtime was started.
    const std::string& variable(const std::string& name) { return environment_[name]; }

    // RESOURCE when the core has not so much left.
    Status take(int32_t core, size_t bytes);
    void give_back(int32_t core, size_t bytes);
    size_t taken(int32_t core) const { return taken_.at(static_cast<size_t>(core)); }

    // Handles that may be used. One that may not any more keeps its address, so that no other gets it.
    std::set<const void*> tensors, sets, models;
    std::vector<const void*> retired;
    bool retire(std::set<const void*>& handles, const void* handle) {
        if (handles.erase(handle) == 0) return false;
        retired.push_back(handle);
        return true;
    }
    uint64_t executions = 0, bytes_written = 0, bytes_read = 0;

  private:
    enum class Life { unborn, open, closed };
    void write_log() const;

    Life life_ = Life::unborn;
    Settings settings_ = Settings::read();
    FaultScript faults_;
    std::map<std::string, std::string> environment_;
    std::vector<int> held_;  // descriptors of the locked files, by visible core
    std::vector<size_t> taken_, most_taken_;
};

}  // namespace gemmatrace::standin
