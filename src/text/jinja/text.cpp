// Slicing, building and measuring of marked strings.
#include "text/jinja/text.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace gemmatrace::text::jinja {

namespace {

bool all_ascii(std::string_view bytes) {
    return std::all_of(bytes.begin(), bytes.end(), [](char byte) { return static_cast<unsigned char>(byte) < 0x80; });
}

}  // namespace

TextBuffer::TextBuffer(std::string text, Origin uniform, std::vector<Run> mixed, Meter* counted_by)
    : bytes(std::move(text)), origin(uniform), runs(std::move(mixed)), is_ascii(all_ascii(bytes)), meter(nullptr) {
    if (bytes.size() > std::numeric_limits<uint32_t>::max()) fail("a text of the request is larger than 4 GiB");
    if (counted_by == nullptr) return;
    counted_by->take(sizeof(TextBuffer) + bytes.size());
    meter = counted_by;
}

TextBuffer::~TextBuffer() {
    if (meter != nullptr) meter->give_back(sizeof(TextBuffer) + bytes.size());
}

Text::Text(std::string bytes, Origin origin)
    : Text(bytes.empty() ? nullptr
                         : std::make_shared<const TextBuffer>(std::move(bytes), origin, std::vector<TextBuffer::Run>{},
                                                              nullptr)) {}

Text::Text(std::shared_ptr<const TextBuffer> buffer) : buffer_(std::move(buffer)) {
    if (buffer_) size_ = static_cast<uint32_t>(buffer_->bytes.size());
}

size_t Text::code_points() const {
    if (is_ascii()) return size_;
    const std::string_view bytes = view();
    return static_cast<size_t>(std::count_if(
        bytes.begin(), bytes.end(), [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) != 0x80U; }));
}

size_t Text::offset_of(size_t index) const {
    if (is_ascii()) return std::min<size_t>(index, size_);
    const std::string_view bytes = view();
    size_t at = 0;
    for (; index > 0 && at < bytes.size(); --index) at += sequence_length(bytes[at]);
    return at;
}

Text Text::slice(size_t begin, size_t length) const {
    require(begin <= size_ && length <= size_ - begin, "a slice lies inside its text");
    Text part = *this;
    part.begin_ = begin_ + static_cast<uint32_t>(begin);
    part.size_ = static_cast<uint32_t>(length);
    return part;
}

Text Text::slice(std::string_view piece) const {
    if (piece.empty()) return slice(0, 0);
    return slice(static_cast<size_t>(piece.data() - view().data()), piece.size());
}

Text Text::as_markup(bool is_markup) const {
    Text copy = *this;
    copy.is_markup_ = is_markup;
    return copy;
}

Origin Text::origin_at(size_t at) const {
    Origin found = Origin::template_text;
    slice(at, 1).each_run([&](std::string_view, Origin origin) { found = origin; });
    return found;
}

void TextBuilder::append(std::string_view piece, Origin origin) {
    if (piece.empty()) return;
    meter_->check_text_size(bytes_.size() + piece.size());
    bytes_ += piece;
    if (!runs_.empty() && runs_.back().origin == origin) {
        runs_.back().end = bytes_.size();
    } else {
        runs_.push_back({bytes_.size(), origin});
    }
}

void TextBuilder::append(const Text& text) {
    text.each_run([&](std::string_view piece, Origin origin) { append(piece, origin); });
}

void TextBuilder::append(char32_t code_point, Origin origin) {
    std::string piece;
    append_utf8(piece, code_point);
    append(piece, origin);
}

Text TextBuilder::build() {
    if (bytes_.empty()) return {};
    meter_->work(bytes_.size());
    const Origin origin = runs_.front().origin;
    if (runs_.size() == 1) runs_.clear();
    Text text(std::make_shared<const TextBuffer>(std::move(bytes_), origin, std::move(runs_), meter_));
    bytes_.clear();
    runs_.clear();
    return text;
}

MarkedText TextBuilder::marked() const {
    MarkedText text;
    size_t begin = 0;
    for (const TextBuffer::Run& run : runs_) {
        text.append(std::string_view(bytes_).substr(begin, run.end - begin), run.origin);
        begin = run.end;
    }
    return text;
}

}  // namespace gemmatrace::text::jinja
