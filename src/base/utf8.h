// UTF-8 as bytes and code points: decoding that never reads past the end and never guesses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gemmatrace {

// One step of decoding.
struct Utf8Step {
    char32_t code_point = 0;
    int length = 0;         // bytes taken; for an invalid sequence, the bytes one U+FFFD stands for
    bool is_valid = false;  // false: ill-formed at this place
    bool is_cut = false;    // ill-formed only because the text ends inside a sequence that began well
};

// Decodes the sequence at `at` (which must be below text.size()). Overlong forms, surrogates and values above U+10FFFF
// are invalid; an invalid stretch is the maximal subpart of the Unicode standard, as Python and Rust replace it.
Utf8Step decode_utf8(std::string_view text, size_t at);

// Appends a code point; values that are no scalar become U+FFFD.
void append_utf8(std::string& text, char32_t code_point);

// Whether the whole text is well-formed.
bool is_valid_utf8(std::string_view text);

// Each ill-formed stretch replaced by U+FFFD.
std::string replace_invalid_utf8(std::string_view text);

}  // namespace gemmatrace
