// Bytes in words.
#include "cli/sizes.h"

#include <fmt/format.h>

namespace gemmatrace::cli {

std::string size_text(size_t bytes) {
    const auto value = static_cast<double>(bytes);
    if (value >= 1e9) return fmt::format("{:.2f} GB ({:.2f} GiB)", value / 1e9, value / 0x1p30);
    if (value >= 1e6) return fmt::format("{:.2f} MB ({:.2f} MiB)", value / 1e6, value / 0x1p20);
    if (value >= 1e4) return fmt::format("{:.1f} kB ({:.1f} KiB)", value / 1e3, value / 0x1p10);
    return fmt::format("{} bytes", bytes);
}

}  // namespace gemmatrace::cli
