// What a bundle says of its compiled programs: compiled.json beside the manifest, and programs/NAME.neff.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "neuron/neff.h"
#include "trace/manifest.h"

namespace gemmatrace::neuron {

inline constexpr int32_t kCompiledSchema = 1;
inline constexpr size_t kLargestNeffBytes = size_t{4} << 30;

struct CompiledProgram {
    std::string name;  // "decode_c512"
    uint64_t bytes = 0;
    std::string sha256;
    std::string program_sha256;  // of the HLO that it was made of
    std::string key;             // in the cache
    double seconds = 0.0;        // that its compile took
    uint64_t peak_memory_bytes = 0;
    uint64_t feature_bits = 0;
    uint64_t scratchpad_bytes = 0;

    // "programs/decode_c512.neff"
    std::string file() const;
    bool operator==(const CompiledProgram&) const = default;
};

struct Compiled {
    std::string manifest_hash;
    std::string target;
    std::string compiler;  // its version
    std::string islpy;
    std::vector<std::string> flags;
    std::vector<CompiledProgram> programs;  // as in the manifest

    // Throws Error(mismatch) when there is no such program.
    const CompiledProgram& find(const std::string& name) const;
    bool operator==(const Compiled&) const = default;
};

std::string compiled_text(const Compiled& compiled);

// Reads compiled.json of a bundle. Throws Error(not_found) when the bundle was not compiled, Error(corrupt) for
// anything that this program does not write, Error(mismatch) when it belongs to another manifest or not to all of its
// programs.
Compiled read_compiled(const std::filesystem::path& bundle, const trace::Manifest& manifest);

// The bytes of a program's NEFF, verified. Throws Error(not_found), Error(corrupt).
std::string neff_of(const std::filesystem::path& bundle, const CompiledProgram& program);

// The inputs and outputs that the NEFF of a program must have.
std::vector<NeffTensor> expected_tensors(const trace::ProgramEntry& program);

}  // namespace gemmatrace::neuron
