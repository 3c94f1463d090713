// Table 3-7 of the Unicode standard as code.
#include "base/utf8.h"

namespace gemmatrace {

Utf8Step decode_utf8(std::string_view text, size_t at) {
    const auto byte_at = [&](size_t index) { return static_cast<unsigned char>(text[index]); };
    const unsigned char lead = byte_at(at);
    if (lead < 0x80) return {lead, 1, true, false};
    int length = 0;
    unsigned char low = 0x80;  // bounds of the second byte, which exclude overlong forms and surrogates
    unsigned char high = 0xbf;
    char32_t value = 0;
    if (lead >= 0xc2 && lead <= 0xdf) {
        length = 2;
        value = lead & 0x1fU;
    } else if (lead >= 0xe0 && lead <= 0xef) {
        length = 3;
        value = lead & 0x0fU;
        if (lead == 0xe0) low = 0xa0;
        if (lead == 0xed) high = 0x9f;
    } else if (lead >= 0xf0 && lead <= 0xf4) {
        length = 4;
        value = lead & 0x07U;
        if (lead == 0xf0) low = 0x90;
        if (lead == 0xf4) high = 0x8f;
    } else {
        return {0xfffd, 1, false, false};
    }
    for (int index = 1; index < length; ++index) {
        if (at + index >= text.size()) return {0xfffd, index, false, true};
        const unsigned char next = byte_at(at + index);
        if (next < low || next > high) return {0xfffd, index, false, false};
        value = (value << 6) | (next & 0x3fU);
        low = 0x80;
        high = 0xbf;
    }
    return {value, length, true, false};
}

void append_utf8(std::string& text, char32_t code_point) {
    if (code_point > 0x10ffff || (code_point >= 0xd800 && code_point <= 0xdfff)) code_point = 0xfffd;
    const auto push = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
    if (code_point < 0x80) {
        push(code_point);
    } else if (code_point < 0x800) {
        push(0xc0 | (code_point >> 6));
        push(0x80 | (code_point & 0x3f));
    } else if (code_point < 0x10000) {
        push(0xe0 | (code_point >> 12));
        push(0x80 | ((code_point >> 6) & 0x3f));
        push(0x80 | (code_point & 0x3f));
    } else {
        push(0xf0 | (code_point >> 18));
        push(0x80 | ((code_point >> 12) & 0x3f));
        push(0x80 | ((code_point >> 6) & 0x3f));
        push(0x80 | (code_point & 0x3f));
    }
}

bool is_valid_utf8(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
        const Utf8Step step = decode_utf8(text, at);
        if (!step.is_valid) return false;
        at += static_cast<size_t>(step.length);
    }
    return true;
}

std::string replace_invalid_utf8(std::string_view text) {
    std::string clean;
    clean.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
        const Utf8Step step = decode_utf8(text, at);
        if (step.is_valid) {
            clean.append(text.substr(at, static_cast<size_t>(step.length)));
        } else {
            append_utf8(clean, 0xfffd);
        }
        at += static_cast<size_t>(step.length);
    }
    return clean;
}

}  // namespace gemmatrace
