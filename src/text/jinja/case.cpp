// Changes of case by Unicode's full mappings, with the final sigma as CPython places it.
#include "text/jinja/strings.h"
#include "text/jinja/unicode.h"

namespace gemmatrace::text::jinja {

namespace {

constexpr char32_t kCapitalSigma = 0x3a3;
constexpr char32_t kSmallSigma = 0x3c3;
constexpr char32_t kFinalSigma = 0x3c2;

void append_case(TextBuilder& out, const CaseResult& result, Origin origin) {
    for (int index = 0; index < result.count; ++index) out.append(result.code_points[index], origin);
}

// Whether the sigma at `at` ends a word: a cased letter before it and none after it, letting ignorable marks pass.
bool is_final_sigma(std::string_view bytes, size_t at) {
    size_t before = at;
    bool is_after_cased = false;
    while (before > 0) {
        do {
            --before;
        } while (before > 0 && (static_cast<unsigned char>(bytes[before]) & 0xc0U) == 0x80U);
        const char32_t code_point = decode_utf8(bytes, before).code_point;
        if (is_case_ignorable(code_point)) continue;
        is_after_cased = is_cased(code_point);
        break;
    }
    if (!is_after_cased) return false;
    for (size_t after = at + 2; after < bytes.size(); after += sequence_length(bytes[after])) {
        const char32_t code_point = decode_utf8(bytes, after).code_point;
        if (is_case_ignorable(code_point)) continue;
        return !is_cased(code_point);
    }
    return true;
}

// Walks a text with a function (code_point, offset) -> CaseResult; ASCII letters go without table look-ups.
template <class Map>
Text map_code_points(Runtime& runtime, const Text& text, Map map) {
    runtime.meter.work(text.size() * 2);
    TextBuilder out(runtime.meter);
    size_t offset = 0;
    each_code_point(text, [&](char32_t code_point, std::string_view piece, Origin origin) {
        append_case(out, map(code_point, offset), origin);
        offset += piece.size();
    });
    return out.build().as_markup(text.is_markup());
}

CaseResult one(char32_t code_point) { return {{code_point}, 1}; }

CaseResult lower_at(std::string_view bytes, char32_t code_point, size_t offset) {
    if (code_point < 0x80) return one(code_point >= U'A' && code_point <= U'Z' ? code_point + 32 : code_point);
    if (code_point == kCapitalSigma) return one(is_final_sigma(bytes, offset) ? kFinalSigma : kSmallSigma);
    return to_lower(code_point);
}

CaseResult upper_at(char32_t code_point) {
    if (code_point < 0x80) return one(code_point >= U'a' && code_point <= U'z' ? code_point - 32 : code_point);
    return to_upper(code_point);
}

}  // namespace

Text to_upper(Runtime& runtime, const Text& text) {
    return map_code_points(runtime, text, [](char32_t code_point, size_t) { return upper_at(code_point); });
}

Text to_lower(Runtime& runtime, const Text& text) {
    const std::string_view bytes = text.view();
    return map_code_points(runtime, text,
                           [&](char32_t code_point, size_t offset) { return lower_at(bytes, code_point, offset); });
}

Text to_fold(Runtime& runtime, const Text& text) {
    return map_code_points(runtime, text, [](char32_t code_point, size_t) { return to_fold(code_point); });
}

Text swap_case(Runtime& runtime, const Text& text) {
    const std::string_view bytes = text.view();
    return map_code_points(runtime, text, [&](char32_t code_point, size_t offset) {
        if (is_upper(code_point)) return lower_at(bytes, code_point, offset);
        return is_lower(code_point) ? upper_at(code_point) : one(code_point);
    });
}

Text to_title(Runtime& runtime, const Text& text) {
    const std::string_view bytes = text.view();
    bool is_inside = false;
    return map_code_points(runtime, text, [&](char32_t code_point, size_t offset) {
        const bool is_letter_before = is_inside;
        is_inside = is_cased(code_point);
        return is_letter_before ? lower_at(bytes, code_point, offset) : to_title(code_point);
    });
}

Text capitalize(Runtime& runtime, const Text& text) {
    const std::string_view bytes = text.view();
    return map_code_points(runtime, text, [&](char32_t code_point, size_t offset) {
        return offset == 0 ? to_title(code_point) : lower_at(bytes, code_point, offset);
    });
}

}  // namespace gemmatrace::text::jinja
