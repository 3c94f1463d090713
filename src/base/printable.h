// Foreign names and values, made fit for an error message: short, one line, no control characters, valid UTF-8.
#pragma once

#include <string>
#include <string_view>

#include "base/utf8.h"

namespace gemmatrace {

// The text with control characters as '?', cut at 120 bytes: no file and no server writes to the terminal through an
// error.
inline std::string printable(std::string_view text) {
    constexpr size_t kLongest = 120;
    std::string shown(text.substr(0, kLongest));
    for (char& character : shown) {
        const auto byte = static_cast<unsigned char>(character);
        if (byte < 0x20 || byte == 0x7f) character = '?';
    }
    return replace_invalid_utf8(shown) + (text.size() > kLongest ? "…" : "");
}

}  // namespace gemmatrace
