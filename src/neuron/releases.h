// The releases of AWS's Neuron software: which versions of driver, runtime and compiler belong together, and which
// version of islpy a compiler needs.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace gemmatrace::neuron {

// The first three numbers of a version; what follows them (a build, a hash) does not count.
struct Version {
    int32_t major = 0;
    int32_t minor = 0;
    int32_t patch = 0;
    auto operator<=>(const Version&) const = default;
    std::string text() const;
};

// The first run of "A.B" or "A.B.C…" in a text, or nothing.
std::optional<Version> parse_version(std::string_view text);

struct Release {
    std::string_view sdk;
    Version driver;
    Version runtime;
    Version collectives;
    Version tools;
    Version compiler;
    std::string_view islpy;  // the version that goes with this compiler; empty: any before 2026, which is not pinned
};

// Oldest first. Source: AWS's version manifests; islpy from aws-neuron-sdk#1391.
std::span<const Release> known_releases();

// Null when no release has this compiler.
const Release* release_of_compiler(const Version& compiler);

// The compilers with their islpy, for messages: "2.26.6360 with islpy 2023.2.5, …", the newest first.
std::string known_compilers_text();

}  // namespace gemmatrace::neuron
