// The Neuron compiler of this machine: where it is, which version it has and with which islpy.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "neuron/releases.h"

namespace gemmatrace::neuron {

struct Toolchain {
    std::filesystem::path compiler;
    std::string version_text;  // "2.26.6360.0+1d2a3b", as it calls itself
    Version version;
    std::string islpy;                 // "2023.2.5"; empty: not found
    const Release* release = nullptr;  // that it belongs to; null: none that we know
};

struct CompilerSearch {
    std::filesystem::path compiler;  // what the user named; empty: GEMMATRACE_NEURONX_CC, else a search
    std::function<std::optional<std::string>(const char*)> environment;  // of the process
    std::filesystem::path environments = "/opt";                         // where AWS's images keep virtual environments
};

// The compiler that the user named; else the first in PATH, in the active virtual environment, in those of AWS's images
// (newest name first) and in ~/.local/bin. Throws Error(not_found) with the places that were looked at.
std::filesystem::path find_compiler(const CompilerSearch& search);

// Asks the compiler for its version; islpy's comes from there or from the packages installed beside it. `scratch` is a
// folder to run in. Throws Error(not_found) when it does not run, Error(corrupt) when it says no version.
Toolchain read_toolchain(const std::filesystem::path& compiler, const std::filesystem::path& scratch);

// What is wrong with compiler and islpy together, or nothing: a compiler that no release has, an islpy that does not go
// with it, or one that was not found.
std::optional<std::string> toolchain_fault(const Toolchain& toolchain);

// Throws Error(mismatch) with the fault and the compilers that are known.
void require_known(const Toolchain& toolchain);

}  // namespace gemmatrace::neuron
