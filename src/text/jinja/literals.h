// Numbers and string escapes of template source.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace gemmatrace::text::jinja {

// A number literal at a place of the source; `end` equals the place when there is none.
struct NumberMatch {
    size_t end = 0;
    bool is_real = false;
    bool is_too_large = false;
    Integer integer = 0;
    double real = 0;
};

// Python's literals: 1_000, 0x1f, 1.5e3. Behind a dot (x.0.1) only whole numbers count.
NumberMatch match_number(std::string_view source, size_t at, bool is_after_dot);

// Resolves \n, \x41, \u00e4 and the others. Returns what is wrong with them, or null.
const char* resolve_escapes(std::string_view quoted, std::string& text);

}  // namespace gemmatrace::text::jinja
