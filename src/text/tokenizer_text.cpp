// Copying text together with the origin of its bytes.
#include "text/tokenizer_text.h"

#include <algorithm>

#include "base/utf8.h"

namespace gemmatrace::text {

bool TextView::has_content(size_t begin, size_t end) const {
    if (origins == nullptr) return origin == Origin::content;
    return std::find(origins + begin, origins + end, Origin::content) != origins + end;
}

OwnedText OwnedText::like(const TextView& source) {
    OwnedText empty;
    empty.origin = source.origin;
    empty.is_mixed_ = source.origins != nullptr;
    return empty;
}

void OwnedText::append(const TextView& source, size_t begin, size_t end) {
    text.append(source.text, begin, end - begin);
    if (is_mixed_) origins.insert(origins.end(), source.origins + begin, source.origins + end);
}

void OwnedText::append_instead(std::string_view bytes, const TextView& source, size_t begin, size_t end) {
    text.append(bytes);
    if (!is_mixed_) return;
    origins.insert(origins.end(), bytes.size(),
                   source.has_content(begin, end) ? Origin::content : Origin::template_text);
}

OwnedText well_formed(const MarkedText& marked) {
    std::vector<Origin> origins;
    origins.reserve(marked.size());
    for (const MarkedText::Run& run : marked.runs()) origins.insert(origins.end(), run.length, run.origin);
    const TextView source{marked.text(), origins.data(), Origin::template_text};
    OwnedText clean = OwnedText::like(source);
    for (size_t at = 0; at < source.size();) {
        const Utf8Step step = decode_utf8(source.text, at);
        const size_t end = at + static_cast<size_t>(step.length);
        if (step.is_valid) {
            clean.append(source, at, end);
        } else {
            clean.append_instead("\xef\xbf\xbd", source, at, end);
        }
        at = end;
    }
    return clean;
}

}  // namespace gemmatrace::text
