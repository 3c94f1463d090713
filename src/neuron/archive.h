// The tar archive inside a NEFF, plain or compressed by gzip, read from front to back without unpacking it to disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace gemmatrace::neuron {

inline constexpr uint64_t kLargestMemberBytes = uint64_t{256} << 20;  // of a member that is wanted; larger is refused
inline constexpr uint64_t kLargestArchiveBytes = uint64_t{2} << 30;   // unpacked; a bomb ends here

// Calls wants(name) for each file of the archive and take(name, content) for those that are wanted, in their order.
// Reads the archive to its end, so that a compressed one is checked by its checksum. Names lose a leading "./"; pax
// headers and long names are passed over, as no member that a NEFF is read for has any. Throws Error(corrupt) with
// `where`, the file for messages, for anything that is no such archive or passes a limit.
void read_archive(std::span<const std::byte> archive, const std::string& where,
                  const std::function<bool(std::string_view name)>& wants,
                  const std::function<void(const std::string& name, std::string content)>& take);

}  // namespace gemmatrace::neuron
