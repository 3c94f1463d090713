// The accelerator as a device: compiled programs and buffers on one core a rank, through the Neuron runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "neuron/compiled.h"
#include "neuron/watchdog.h"
#include "trace/device.h"

namespace gemmatrace::neuron {

inline constexpr double kUsualTimeoutSeconds = 120.0;

// A compiled program's file. The bytes are needed until it is loaded.
struct NeffSource {
    std::string where;  // the file, for messages
    std::shared_ptr<const void> owner;
    std::span<const std::byte> bytes;
};

// For NeuronOptions::neff_of: the NEFFs of a compiled bundle, each verified when it is asked for.
std::function<NeffSource(const std::string& program_name)> neffs_of(std::filesystem::path bundle, Compiled compiled);

struct NeuronOptions {
    std::string cores;  // as NEURON_RT_VISIBLE_CORES; empty: see choose_cores()
    // For a step or a transfer; ten times as long for a load. Afterwards the process ends with kWatchdogStatus.
    double timeout_seconds = kUsualTimeoutSeconds;
    // The compiled form of a program, by its module's name.
    std::function<NeffSource(const std::string& program_name)> neff_of;
    // What one rank was planned to need, by name in bytes, for the message when there is no more memory.
    std::vector<std::pair<std::string, uint64_t>> planned;
    Watchdog::End end = end_process;
};

// Opens the runtime, takes the cores and makes them ready. One at a time in a process, which is a rule of the
// runtime's. Throws Error(not_found) and Error(mismatch) as NrtLibrary::open does, Error(unsupported) for a machine
// without such cores or with too few, Error(device) with the holder's process id when the cores are taken.
//
// The runtime is called on threads of the ranks, which have the stack that it needs. A status after which the core's
// memory cannot be trusted abandons the device: the call throws, as do all later ones, and a moment later the watchdog
// ends the process.
std::unique_ptr<trace::Device> make_neuron_device(int32_t ranks, NeuronOptions options);

// Why make_neuron_device would not work here for so many ranks on the cores of the option, or nothing. Takes no core.
std::string why_no_neuron(int32_t ranks, const std::string& cores);

}  // namespace gemmatrace::neuron
