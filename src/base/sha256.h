// SHA-256 of bytes in memory, for files of ours that name each other's content.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace gemmatrace {

// The digest in 64 lower-case hexadecimal digits. Source: FIPS 180-4, section 6.2.
std::string sha256(std::span<const std::byte> bytes);
std::string sha256(std::string_view text);

}  // namespace gemmatrace
