// The decoder of tokenizer.json as steps that take tokens as they come.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace gemmatrace::text {

struct DecoderStep {
    enum class Kind {
        replace,        // every `pattern` by `content`
        byte_fallback,  // runs of <0xNN> become the text that these bytes are, or one U+FFFD a byte
        fuse,           // all tokens become one
        strip,          // up to `start` and `stop` characters `pattern` go from the ends
        metaspace,      // `pattern` becomes a space, in the first token nothing if `drops_first`
    };
    Kind kind = Kind::fuse;
    std::string pattern;
    std::string content;
    size_t start = 0;
    size_t stop = 0;
    bool drops_first = false;
};

// Runs tokens through the steps. After a fuse step what follows sees parts of one long token instead of tokens.
// Source: decoders/ of tokenizers 0.22.2.
class Decoder {
  public:
    // Without a decoder in the file tokens are joined with spaces; with one they are joined with nothing.
    Decoder() = default;
    explicit Decoder(std::vector<DecoderStep> steps) : steps_(std::move(steps)), joins_with_spaces_(false) {}

    // One state a step, for one sequence.
    std::vector<DecoderState> start() const { return std::vector<DecoderState>(steps_.size()); }
    // What the tokens complete.
    std::string push(std::vector<DecoderState>& states, std::vector<std::string> tokens) const {
        return advance(states, std::move(tokens), false);
    }
    // What is still held.
    std::string finish(std::vector<DecoderState>& states) const { return advance(states, {}, true); }
    bool joins_with_spaces() const { return joins_with_spaces_; }

  private:
    std::string advance(std::vector<DecoderState>& states, std::vector<std::string> tokens, bool is_end) const;

    std::vector<DecoderStep> steps_;
    bool joins_with_spaces_ = true;
};

}  // namespace gemmatrace::text
