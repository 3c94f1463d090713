// Cores are locked files: the system lets them go when the process ends, however it ends.
#include "standin/libnrt/machine.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>
#include <sstream>

namespace gemmatrace::standin {
namespace {

std::string setting(const std::string& name, const std::string& usual) {
    const char* value = std::getenv(("GEMMATRACE_STANDIN_NRT_" + name).c_str());
    return value == nullptr ? usual : value;
}

constexpr const char* kRuntimeVariables[] = {
    "NEURON_RT_VISIBLE_CORES",  "NEURON_RT_NUM_CORES",          "NEURON_RT_ROOT_COMM_ID",
    "NEURON_RT_EXEC_TIMEOUT",   "NEURON_RT_IO_RING_CACHE_SIZE", "NEURON_RT_STOCHASTIC_ROUNDING_EN",
    "NEURON_LOGICAL_NC_CONFIG", "NEURON_RT_VIRTUAL_CORE_SIZE",  "NEURON_PROCESS_TAG"};

// "1", "0-1" or "0,1"; without any, all cores.
std::vector<int32_t> visible(const std::string& text, int32_t cores) {
    std::vector<int32_t> list;
    std::istringstream parts(text);
    for (std::string part; std::getline(parts, part, ',');) {
        const size_t dash = part.find('-');
        const int32_t first = std::stoi(part);
        const int32_t last = dash == std::string::npos ? first : std::stoi(part.substr(dash + 1));
        for (int32_t core = first; core <= last; ++core) list.push_back(core);
    }
    for (int32_t core = 0; text.empty() && core < cores; ++core) list.push_back(core);
    return list;
}

}  // namespace

Settings Settings::read() {
    Settings settings;
    settings.cores = std::stoi(setting("CORES", "2"));
    settings.core_bytes = std::stoull(setting("BYTES", "17179869184"));
    settings.folder = setting("FOLDER", (std::filesystem::temp_directory_path() / "gemmatrace-standin-nrt").string());
    settings.faults = setting("FAULTS", "");
    settings.log = setting("LOG", "");
    // That of the release which the stand-in for the compiler belongs to.
    std::istringstream version(setting("VERSION", "2.33.10"));
    char dot = 0;
    version >> settings.major >> dot >> settings.minor >> dot >> settings.patch;
    settings.core_count = std::stoi(setting("COUNT", "0"));
    return settings;
}

Storage::Storage(int32_t core, size_t bytes) : core_(core), size_(bytes) {
    void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<std::byte*>(address);
    std::memset(data_, 0xff, bytes);
}

Storage::~Storage() { ::munmap(data_, size_); }

Machine& Machine::instance() {
    static auto* machine = new Machine;  // threads that hang may outlive everything
    return *machine;
}

Status Machine::init() {
    if (life_ == Life::open) return neuron::abi::kFailure;
    settings_ = Settings::read();
    for (const char* name : kRuntimeVariables) {
        const char* value = std::getenv(name);
        environment_[name] = value == nullptr ? "" : value;
    }
    for (const char* name : {"NEURON_LOGICAL_NC_CONFIG", "NEURON_RT_VIRTUAL_CORE_SIZE"}) {
        if (!environment_[name].empty() && environment_[name] != "1") return neuron::abi::kInvalid;
    }
    std::error_code ignored;
    std::filesystem::create_directories(settings_.folder, ignored);
    for (const int32_t core : visible(environment_["NEURON_RT_VISIBLE_CORES"], settings_.cores)) {
        const std::string path = settings_.folder + "/core" + std::to_string(core);
        const int file = core < settings_.cores ? ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666) : -1;
        if (file < 0 || ::flock(file, LOCK_EX | LOCK_NB) != 0) {
            if (file >= 0) ::close(file);
            for (const int other : held_) ::close(other);
            held_.clear();
            return neuron::abi::kFailure;
        }
        const std::string owner = std::to_string(::getpid()) + "\n";
        if (::ftruncate(file, 0) != 0 || ::pwrite(file, owner.data(), owner.size(), 0) < 0)
            return neuron::abi::kFailure;
        held_.push_back(file);
    }
    taken_.assign(held_.size(), 0);
    most_taken_ = taken_;
    executions = bytes_written = bytes_read = 0;
    life_ = Life::open;
    return neuron::abi::kSuccess;
}

void Machine::close() {
    if (life_ != Life::open) return;
    write_log();
    for (const int file : held_) ::close(file);
    held_.clear();
    for (std::set<const void*>* handles : {&tensors, &sets, &models}) {
        retired.insert(retired.end(), handles->begin(), handles->end());
        handles->clear();
    }
    life_ = Life::closed;
}

Status Machine::life() const { return life_ == Life::open ? 0 : life_ == Life::unborn ? 13 : 14; }

Status Machine::take(int32_t core, size_t bytes) {
    size_t& taken_bytes = taken_.at(static_cast<size_t>(core));
    if (bytes > settings_.core_bytes - taken_bytes) return neuron::abi::kResource;
    taken_bytes += bytes;
    size_t& most = most_taken_.at(static_cast<size_t>(core));
    most = std::max(most, taken_bytes);
    return neuron::abi::kSuccess;
}

void Machine::give_back(int32_t core, size_t bytes) { taken_.at(static_cast<size_t>(core)) -= bytes; }

void Machine::write_log() const {
    if (settings_.log.empty()) return;
    const nlohmann::ordered_json line = {{"executions", executions},       {"bytes_written", bytes_written},
                                         {"bytes_read", bytes_read},       {"most_bytes", most_taken_},
                                         {"tensors_left", tensors.size()}, {"sets_left", sets.size()},
                                         {"models_left", models.size()},   {"environment", environment_}};
    std::ofstream(settings_.log, std::ios::app) << line.dump() << "\n";
}

}  // namespace gemmatrace::standin
