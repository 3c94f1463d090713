// What a program costs before anything is compiled: its size, what a step reads against what it must read, memory.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "hlo/statistics.h"
#include "trace/bundle.h"

namespace gemmatrace::trace {

// Of one rank.
struct ProgramFigures {
    ProgramSpec spec;
    double seconds = 0.0;  // to trace and write it
    size_t proto_bytes = 0;
    int64_t instructions = 0;
    int64_t inputs = 0;
    int64_t weight_inputs = 0;
    size_t findings = 0;         // of the verifier
    size_t bytes_read = 0;       // of inputs in one step (hlo::Statistics says how it is counted)
    size_t floor_bytes = 0;      // what a decode step cannot do without: decode_floor_bytes; 0 for other kinds
    size_t step_bytes = 0;       // its inputs and outputs that are neither weights nor caches
    size_t temporary_bytes = 0;  // held at once while it runs
    size_t memory_bytes = 0;     // weights, caches, this program's own inputs, outputs and temporaries, when its bucket
                                 // is the whole context
    std::map<std::string, hlo::Buffer> largest;  // of each operation the largest result that takes memory of its own
};

// Every weight once (of experts those that the rows choose, all different), and of the caches what the rows of a full
// bucket see: all of it in full layers, the window in sliding ones. Caches that several layers read count once.
size_t decode_floor_bytes(const BundleEmitter& emitter, const ProgramSpec& spec);

ProgramFigures figures_of(const BundleEmitter& emitter, const EmittedProgram& program);

// What serving takes of the host. Pages of the checkpoint are the kernel's to drop and read again; own memory is not.
struct HostFigures {
    size_t stored_bytes = 0;    // the checkpoint's tensors in bf16, which pass through the page cache once
    size_t table_bytes = 0;     // of them the tables that steps look rows up in; the pages of others are given back
    size_t transfer_bytes = 0;  // of own memory: weights on their way to all ranks
    size_t step_bytes = 0;      // of own memory: inputs and outputs of steps, of all ranks
    size_t own_bytes = 0;       // these two and kHostBaseBytes
    bool fits = false;          // own memory and the tables fit in kHostMemoryBytes
};

// For a bundle of these programs.
HostFigures host_figures(const BundleEmitter& emitter, std::span<const ProgramFigures> programs);

// What the smallest host, inf2.xlarge, has for programs of its 16 GB.
inline constexpr size_t kHostMemoryBytes = size_t{29} << 29;
// Program, tokenizer, server and runtime; beside weights 146 MiB were the most that was seen (docs/neuron.md).
inline constexpr size_t kHostBaseBytes = size_t{256} << 20;

// HBM of a core of the target, and what is kept free in it for the code of the programs, the runtime, its rings and
// collectives (neuron.md 7.3).
inline constexpr size_t kCoreMemoryBytes = size_t{16} << 30;
inline constexpr size_t kReservedBytes = size_t{1500} * 1000 * 1000;

}  // namespace gemmatrace::trace
