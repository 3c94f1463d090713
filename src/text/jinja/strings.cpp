// Stripping, splitting, replacing and padding.
#include "text/jinja/strings.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace gemmatrace::text::jinja {

namespace {

constexpr size_t kNone = std::string_view::npos;

// The start of the code point that ends before `end`.
size_t step_back(std::string_view bytes, size_t end) {
    do {
        --end;
    } while (end > 0 && (static_cast<unsigned char>(bytes[end]) & 0xc0U) == 0x80U);
    return end;
}

// Whether strip() removes the code point at [at, at + width).
bool is_stripped(std::string_view bytes, size_t at, const std::optional<Text>& characters) {
    const auto step = decode_utf8(bytes, at);
    if (!characters) return is_space(step.code_point);
    return characters->view().find(bytes.substr(at, static_cast<size_t>(step.length))) != kNone;
}

size_t skip_space(std::string_view bytes, size_t at) {
    while (at < bytes.size() && is_stripped(bytes, at, std::nullopt)) at += sequence_length(bytes[at]);
    return at;
}

size_t skip_word(std::string_view bytes, size_t at) {
    while (at < bytes.size() && !is_stripped(bytes, at, std::nullopt)) at += sequence_length(bytes[at]);
    return at;
}

std::vector<Text> split_words(const Text& text, int64_t limit) {
    std::vector<Text> words;
    const std::string_view bytes = text.view();
    for (size_t at = skip_space(bytes, 0); at < bytes.size(); at = skip_space(bytes, at)) {
        if (limit >= 0 && static_cast<int64_t>(words.size()) >= limit) {
            size_t end = bytes.size();
            while (end > at && is_stripped(bytes, step_back(bytes, end), std::nullopt)) end = step_back(bytes, end);
            words.push_back(text.slice(at, end - at));
            break;
        }
        const size_t end = skip_word(bytes, at);
        words.push_back(text.slice(at, end - at));
        at = end;
    }
    return words;
}

std::vector<Text> split_words_right(const Text& text, int64_t limit) {
    std::vector<Text> words;
    const std::string_view bytes = text.view();
    const auto is_space_before = [&](size_t end) { return is_stripped(bytes, step_back(bytes, end), std::nullopt); };
    size_t end = bytes.size();
    while (true) {
        while (end > 0 && is_space_before(end)) end = step_back(bytes, end);
        if (end == 0) break;
        size_t begin = end;
        if (limit >= 0 && static_cast<int64_t>(words.size()) >= limit) {
            begin = skip_space(bytes, 0);
        } else {
            while (begin > 0 && !is_space_before(begin)) begin = step_back(bytes, begin);
        }
        words.push_back(text.slice(begin, end - begin));
        if (limit >= 0 && static_cast<int64_t>(words.size()) > limit) break;
        end = begin;
    }
    std::reverse(words.begin(), words.end());
    return words;
}

}  // namespace

Text strip(Runtime& runtime, const Text& text, Side side, const std::optional<Text>& characters) {
    const std::string_view bytes = text.view();
    size_t begin = 0;
    size_t end = bytes.size();
    if (side != Side::right) {
        while (begin < end && is_stripped(bytes, begin, characters)) begin += sequence_length(bytes[begin]);
    }
    if (side != Side::left) {
        while (end > begin) {
            const size_t last = step_back(bytes, end);
            if (!is_stripped(bytes, last, characters)) break;
            end = last;
        }
    }
    runtime.meter.work((bytes.size() - (end - begin)) * (characters ? 1 + characters->size() : 1));
    return text.slice(begin, end - begin);
}

std::vector<Text> split(Runtime& runtime, const Text& text, const std::optional<Text>& separator, int64_t limit) {
    runtime.meter.work(text.size());
    std::vector<Text> parts;
    if (!separator) {
        parts = split_words(text, limit);
    } else {
        if (separator->empty()) fail("empty separator");
        size_t begin = 0;
        while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
            const size_t found = find_first(runtime, text, separator->view(), begin);
            if (found == kNone) break;
            parts.push_back(text.slice(begin, found - begin));
            begin = found + separator->size();
        }
        parts.push_back(text.slice(begin));
    }
    runtime.meter.step(static_cast<int64_t>(parts.size()));
    return parts;
}

std::vector<Text> split_right(Runtime& runtime, const Text& text, const std::optional<Text>& separator, int64_t limit) {
    runtime.meter.work(text.size());
    std::vector<Text> parts;
    if (!separator) {
        parts = split_words_right(text, limit);
    } else {
        if (separator->empty()) fail("empty separator");
        size_t end = text.size();
        while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
            const size_t found = find_last(runtime, text.slice(0, end), separator->view());
            if (found == kNone) break;
            parts.push_back(text.slice(found + separator->size(), end - found - separator->size()));
            end = found;
        }
        parts.push_back(text.slice(0, end));
        std::reverse(parts.begin(), parts.end());
    }
    runtime.meter.step(static_cast<int64_t>(parts.size()));
    return parts;
}

std::vector<Text> split_lines(Runtime& runtime, const Text& text, bool keep_ends) {
    runtime.meter.work(text.size());
    std::vector<Text> lines;
    const std::string_view bytes = text.view();
    for (size_t begin = 0; begin < bytes.size();) {
        size_t end = begin;
        size_t next = bytes.size();
        for (; end < bytes.size(); end += sequence_length(bytes[end])) {
            const auto step = decode_utf8(bytes, end);
            if (!is_line_break(step.code_point)) continue;
            next = end + static_cast<size_t>(step.length);
            if (step.code_point == U'\r' && next < bytes.size() && bytes[next] == '\n') ++next;
            break;
        }
        lines.push_back(text.slice(begin, (keep_ends ? next : end) - begin));
        begin = next;
    }
    runtime.meter.step(static_cast<int64_t>(lines.size()));
    return lines;
}

Text replace(Runtime& runtime, const Text& text, const Text& old, const Text& fresh, int64_t limit) {
    runtime.meter.work(text.size());
    if (limit == 0) return text;
    TextBuilder out(runtime.meter);
    size_t begin = 0;
    int64_t count = 0;
    if (old.empty()) {  // between all characters, and at both ends
        for (; limit < 0 || count < limit; ++count) {
            out.append(fresh);
            if (begin >= text.size()) return out.build();
            const size_t width = sequence_length(text.view()[begin]);
            out.append(text.slice(begin, width));
            begin += width;
            runtime.meter.step();
        }
        out.append(text.slice(begin));
        return out.build();
    }
    for (; limit < 0 || count < limit; ++count) {
        const size_t found = find_first(runtime, text, old.view(), begin);
        if (found == kNone) break;
        out.append(text.slice(begin, found - begin));
        out.append(fresh);
        begin = found + old.size();
    }
    if (count == 0) return text;
    out.append(text.slice(begin));
    return out.build();
}

size_t find_first(Runtime& runtime, const Text& text, std::string_view wanted, size_t from) {
    const std::string_view bytes = text.view();
    if (wanted.empty()) return from <= bytes.size() ? from : kNone;
    if (from >= bytes.size()) return kNone;
    // memmem is linear for any needle, which string_view::find is not.
    const void* found = ::memmem(bytes.data() + from, bytes.size() - from, wanted.data(), wanted.size());
    const size_t at = found == nullptr ? kNone : static_cast<size_t>(static_cast<const char*>(found) - bytes.data());
    runtime.meter.work((at == kNone ? bytes.size() : at) - from);
    return at;
}

size_t find_last(Runtime& runtime, const Text& text, std::string_view wanted) {
    const std::string_view bytes = text.view();
    const size_t at = bytes.rfind(wanted);
    const size_t walked = bytes.size() - (at == kNone ? 0 : at);
    runtime.meter.work(walked * std::min<size_t>(wanted.size() + 1, 64));
    return at;
}

Text pad(Runtime& runtime, const Text& text, Integer width, const Text& fill, size_t before, size_t after) {
    if (fill.code_points() != 1) fail("The fill character must be exactly one character long");
    const auto size = static_cast<Integer>(length(runtime, Value(text)));
    if (width <= size) return text;
    runtime.meter.check_text_size(width > INT64_MAX ? SIZE_MAX : static_cast<size_t>(width));
    runtime.meter.step(static_cast<int64_t>(width - size));
    TextBuilder out(runtime.meter);
    for (size_t count = before; count > 0; --count) out.append(fill);
    out.append(text);
    for (size_t count = after; count > 0; --count) out.append(fill);
    return out.build();
}

Text center(Runtime& runtime, const Text& text, Integer width, const Text& fill) {
    const auto size = static_cast<Integer>(length(runtime, Value(text)));
    if (width <= size || width > INT64_MAX) return pad(runtime, text, width, fill, 0, 0);
    const auto margin = static_cast<size_t>(width - size);
    const size_t before = margin / 2 + (margin & static_cast<size_t>(width) & 1U);  // as CPython places the odd one
    return pad(runtime, text, width, fill, before, margin - before);
}

Text escape_html(Runtime& runtime, const Value& value) {
    const Text text = to_text(runtime, value);
    if (text.is_markup()) return text;
    if (text.view().find_first_of("&<>'\"") == kNone) return text.as_markup();
    runtime.meter.work(text.size());
    TextBuilder out(runtime.meter);
    text.each_run([&](std::string_view run, Origin origin) {
        for (const char& byte : run) {
            switch (byte) {
                case '&':
                    out.append("&amp;", origin);
                    break;
                case '<':
                    out.append("&lt;", origin);
                    break;
                case '>':
                    out.append("&gt;", origin);
                    break;
                case '\'':
                    out.append("&#39;", origin);
                    break;
                case '"':
                    out.append("&#34;", origin);
                    break;
                default:
                    out.append(std::string_view(&byte, 1), origin);
            }
        }
    });
    return out.build().as_markup();
}

}  // namespace gemmatrace::text::jinja
