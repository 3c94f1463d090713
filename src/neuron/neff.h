// A NEFF, what the Neuron compiler makes of a program: its header, and the tensors that its archive names.
//
// The layout is AWS's: a header of 1,024 bytes, little endian, then a tar archive, plain or gzip-compressed, whose
// member sg00/def.json lists every variable of the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gemmatrace::neuron {

struct NeffTensor {
    enum class Kind {
        input,
        output,
        scratch,  // "virtual": memory of the scratchpad
        other,    // constants, queues and whatever else the compiler lists
    };
    std::string name;
    Kind kind = Kind::other;
    uint64_t bytes = 0;
    bool operator==(const NeffTensor&) const = default;
};

struct NeffInfo {
    uint64_t version_major = 0;
    uint64_t version_minor = 0;
    uint64_t feature_bits = 0;  // what a runtime must know; one that does not refuses the file
    uint32_t lnc_size = 0;      // physical cores that act as one
    std::string build_version;  // of the compiler
    std::string name;
    uint64_t scratchpad_bytes = 0;    // where the last variable of the scratchpad ends
    std::vector<NeffTensor> tensors;  // in the file's order
};

// Bytes before the archive.
inline constexpr size_t kNeffHeaderBytes = 1024;

// Reads a whole NEFF; `where` is the file, for messages. Throws Error(corrupt) when the header's sizes are not those of
// the file, the archive is damaged or has no list of variables, or an input or output has no size or stands there
// twice.
NeffInfo read_neff(std::span<const std::byte> file, const std::string& where);

// A tensor that a NEFF and a list of inputs and outputs have in different sizes, or only one of them has.
struct TensorDifference {
    NeffTensor::Kind kind = NeffTensor::Kind::other;
    std::string name;
    std::optional<uint64_t> bytes_in_neff, bytes_expected;

    const char* side() const { return kind == NeffTensor::Kind::input ? "input" : "output"; }
};
// The first one, those of the list before what only the NEFF has.
std::optional<TensorDifference> first_difference(const NeffInfo& info, std::span<const NeffTensor> expected);

// Throws Error(mismatch), naming the first that differs with both values, unless the NEFF takes and gives exactly the
// inputs and outputs in `expected`, each of its size.
void check_neff_tensors(const NeffInfo& info, std::span<const NeffTensor> expected, const std::string& where);

// The content of an archive member. Throws Error(not_found) when there is none of that name, Error(corrupt) as above.
std::string neff_member(std::span<const std::byte> file, std::string_view member, const std::string& where);

}  // namespace gemmatrace::neuron
