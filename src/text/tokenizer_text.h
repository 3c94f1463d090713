// Text on its way through the tokenizer's pipeline, every byte with its origin.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/marked_text.h"

namespace gemmatrace::text {

// A part of a text owned elsewhere. `origins` holds one entry a byte, or is null when all bytes are of `origin`.
struct TextView {
    std::string_view text;
    const Origin* origins = nullptr;
    Origin origin = Origin::template_text;

    bool empty() const { return text.empty(); }
    size_t size() const { return text.size(); }
    TextView slice(size_t begin, size_t end) const {
        return {text.substr(begin, end - begin), origins == nullptr ? nullptr : origins + begin, origin};
    }
    // Whether a byte of [begin, end) came in with the request.
    bool has_content(size_t begin, size_t end) const;
};

// A text that a step of the pipeline made. `origins` is empty when all bytes are of `origin`.
struct OwnedText {
    std::string text;
    std::vector<Origin> origins;
    Origin origin = Origin::template_text;

    // An empty text that takes parts of `source`.
    static OwnedText like(const TextView& source);
    TextView view() const { return {text, origins.empty() ? nullptr : origins.data(), origin}; }
    // Appends [begin, end) of the source.
    void append(const TextView& source, size_t begin, size_t end);
    // Appends new bytes in place of [begin, end) of the source: content if a byte of that is content.
    void append_instead(std::string_view bytes, const TextView& source, size_t begin, size_t end);

  private:
    bool is_mixed_ = false;
};

// The text with each ill-formed stretch as U+FFFD, origins expanded.
OwnedText well_formed(const MarkedText& text);

}  // namespace gemmatrace::text
