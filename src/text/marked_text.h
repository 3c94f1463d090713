// Text that remembers where it came from: written by the chat template, or by whoever wrote the messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace gemmatrace::text {

enum class Origin : unsigned char {
    template_text,  // literal text of the template: may name control tokens
    content,        // came in with the request: never becomes a control token unless asked for
};

// UTF-8 text in runs of one origin each; runs are non-empty, adjacent ones differ, their lengths sum to text().size().
class MarkedText {
  public:
    struct Run {
        Origin origin;
        size_t length;  // bytes
    };

    MarkedText() = default;
    MarkedText(std::string text, Origin origin);

    const std::string& text() const { return text_; }
    const std::vector<Run>& runs() const { return runs_; }
    bool empty() const { return text_.empty(); }
    size_t size() const { return text_.size(); }

    void append(const MarkedText& other);
    void append(std::string_view text, Origin origin);
    // Bytes [begin, begin + length); the caller cuts at code point borders.
    MarkedText slice(size_t begin, size_t length) const;
    // The origin of the byte at `at`.
    Origin origin_at(size_t at) const;

  private:
    std::string text_;
    std::vector<Run> runs_;
};

}  // namespace gemmatrace::text
