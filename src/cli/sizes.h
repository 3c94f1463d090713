// Sizes as people read them.
#pragma once

#include <cstddef>
#include <string>

namespace gemmatrace::cli {

// Decimal and binary units together, because disks are sold in one and memory in the other: "10.25 GB (9.54 GiB)",
// "3.58 MB (3.41 MiB)", "512 bytes".
std::string size_text(size_t bytes);

}  // namespace gemmatrace::cli
