// The steps of tokenizer.json that change or cut a text before BPE: normaliser and pre-tokeniser.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "text/tokenizer_text.h"

namespace gemmatrace::text {

// The text with every occurrence of `pattern` (not empty; from the left, without overlap) replaced.
OwnedText replace_all(const TextView& text, std::string_view pattern, std::string_view content);

struct NormalizerStep {
    enum class Kind {
        replace,  // every `pattern` by `content`
        prepend,  // `content` in front of a text that is not empty
    };
    Kind kind = Kind::replace;
    std::string pattern;
    std::string content;
};

// The steps in order; none leaves the text as it is.
class Normalizer {
  public:
    explicit Normalizer(std::vector<NormalizerStep> steps = {}) : steps_(std::move(steps)) {}
    bool changes_nothing() const { return steps_.empty(); }
    OwnedText apply(const TextView& text) const;

  private:
    std::vector<NormalizerStep> steps_;
};

// What becomes of the delimiter at a cut (names as in tokenizer.json).
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

// When a Metaspace step puts its mark in front.
enum class PrependScheme { first, never, always };

struct PreTokenizerStep {
    enum class Kind {
        split,      // cuts at `pattern`
        metaspace,  // spaces become `pattern`, then a cut before each
    };
    Kind kind = Kind::split;
    std::string pattern;
    SplitBehavior behavior = SplitBehavior::isolated;
    bool is_inverted = false;  // the text between the patterns is the delimiter
    PrependScheme prepend_scheme = PrependScheme::always;
    bool is_cutting = true;  // a metaspace step may only mark
};

class PreTokenizer {
  public:
    explicit PreTokenizer(std::vector<PreTokenizerStep> steps = {}) : steps_(std::move(steps)) {}

    // Cuts a text into the stretches that BPE runs over; none is empty. `starts_input`: no character of the input is in
    // front of it. Stretches lie in `text` or in `storage`.
    std::vector<TextView> split(const TextView& text, bool starts_input, std::deque<OwnedText>& storage) const;

  private:
    std::vector<PreTokenizerStep> steps_;
};

}  // namespace gemmatrace::text
