// The strings of a template: immutable UTF-8 slices that remember which bytes came with the request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "text/jinja/meter.h"
#include "text/marked_text.h"

namespace gemmatrace::text::jinja {

// The bytes that slices share. Uniform buffers have no runs; mixed ones list where each run ends.
struct TextBuffer {
    struct Run {
        size_t end;
        Origin origin;
    };

    TextBuffer(std::string text, Origin uniform, std::vector<Run> mixed, Meter* counted_by);
    ~TextBuffer();
    TextBuffer(const TextBuffer&) = delete;
    TextBuffer& operator=(const TextBuffer&) = delete;

    std::string bytes;
    Origin origin;
    std::vector<Run> runs;
    bool is_ascii;
    Meter* meter;  // may be null: text that outlives a render
};

// A slice of a buffer: copying and slicing copy no bytes.
class Text {
  public:
    Text() = default;
    // Text of one origin that no meter counts.
    Text(std::string bytes, Origin origin);
    explicit Text(std::shared_ptr<const TextBuffer> buffer);

    std::string_view view() const { return buffer_ ? std::string_view(buffer_->bytes).substr(begin_, size_) : ""; }
    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    // Whether every byte is known to be ASCII, so that bytes and code points are the same.
    bool is_ascii() const { return !buffer_ || buffer_->is_ascii; }
    // Python's len().
    size_t code_points() const;
    // Byte offset of the code point at `index`; size() when the text is not longer than that.
    size_t offset_of(size_t index) const;

    // Bytes [begin, begin + length); the caller cuts at code point borders.
    Text slice(size_t begin, size_t length) const;
    Text slice(size_t begin) const { return slice(begin, size_ - begin); }
    // The part that `piece`, a view into view(), covers.
    Text slice(std::string_view piece) const;

    // HTML that |escape or |safe made, which Python keeps apart from plain text (markupsafe.Markup).
    bool is_markup() const { return is_markup_; }
    Text as_markup(bool is_markup = true) const;

    // Calls visit(piece, origin) for each run in order.
    template <class Visit>
    void each_run(Visit visit) const;
    // The origin of the byte at `at`.
    Origin origin_at(size_t at) const;

    bool operator==(const Text& other) const { return view() == other.view(); }

  private:
    std::shared_ptr<const TextBuffer> buffer_;
    uint32_t begin_ = 0;
    uint32_t size_ = 0;
    bool is_markup_ = false;
};

// Grows a text piece by piece; the meter refuses what grows too large.
class TextBuilder {
  public:
    explicit TextBuilder(Meter& meter) : meter_(&meter) {}

    void append(std::string_view piece, Origin origin);
    void append(const Text& text);
    void append(char32_t code_point, Origin origin);
    size_t size() const { return bytes_.size(); }
    bool empty() const { return bytes_.empty(); }

    // The text; leaves the builder empty.
    Text build();
    // The same bytes as the public form, copied out of the render.
    MarkedText marked() const;

  private:
    Meter* meter_;
    std::string bytes_;
    std::vector<TextBuffer::Run> runs_;
};

// The bytes of a UTF-8 sequence that starts with this byte; the text is well-formed.
inline size_t sequence_length(char lead) {
    const auto byte = static_cast<unsigned char>(lead);
    return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

// Calls visit(code_point, piece, origin) for each code point in order.
template <class Visit>
void each_code_point(const Text& text, Visit visit) {
    text.each_run([&](std::string_view run, Origin origin) {
        for (size_t at = 0; at < run.size();) {
            const Utf8Step step = decode_utf8(run, at);
            visit(step.code_point, run.substr(at, static_cast<size_t>(step.length)), origin);
            at += static_cast<size_t>(step.length);
        }
    });
}

template <class Visit>
void Text::each_run(Visit visit) const {
    if (size_ == 0) return;
    if (buffer_->runs.empty()) {
        visit(view(), buffer_->origin);
        return;
    }
    const auto& runs = buffer_->runs;
    size_t first = 0;
    for (size_t high = runs.size(); first < high;) {  // the first run that ends after begin_
        const size_t middle = (first + high) / 2;
        if (runs[middle].end <= begin_) {
            first = middle + 1;
        } else {
            high = middle;
        }
    }
    const size_t end = size_t{begin_} + size_;
    for (size_t at = begin_; at < end; ++first) {
        const size_t stop = runs[first].end < end ? runs[first].end : end;
        visit(std::string_view(buffer_->bytes).substr(at, stop - at), runs[first].origin);
        at = stop;
    }
}

}  // namespace gemmatrace::text::jinja
