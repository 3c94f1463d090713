// Files that are on the disk when a function returns.
#pragma once

#include <filesystem>
#include <string_view>

namespace gemmatrace {

// Throws Error(resource) naming the path and what errno says about it.
[[noreturn]] void fail_writing(const std::filesystem::path& path, int error);

// Writes a new file and waits until the disk has it. Throws as fail_writing; what was written so far stays.
void write_durably(const std::filesystem::path& path, std::string_view bytes);

}  // namespace gemmatrace
