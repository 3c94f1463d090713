// Added tokens: strings that are taken out of a text before BPE sees it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer_text.h"

namespace gemmatrace::text {

// An entry of added_tokens with its flags, by their names in the file.
struct AddedToken {
    int32_t id = 0;
    std::string content;
    bool single_word = false;  // only where no word character touches it
    bool lstrip = false;       // takes the white space on its left with it
    bool rstrip = false;
    bool normalized = false;  // matched after the normaliser, as the normaliser writes it
    bool special = false;
};

// A part of a text: an added token, or text that goes on to the next step.
struct Section {
    std::optional<int32_t> id;
    size_t begin = 0;
    size_t end = 0;
};

// Finds a set of added tokens in a text: at the leftmost place the longest one.
class AddedTokenMatcher {
  public:
    // Longer strings are refused: the search looks ahead this far at most.
    static constexpr size_t kMaxBytes = 4096;

    // What a token looks like in the text that is searched.
    struct Pattern {
        std::string text;
        AddedToken token;
        bool is_control = false;
    };

    // Of two tokens with one text the first counts. Throws Error(unsupported) when a text is empty or too long.
    explicit AddedTokenMatcher(std::vector<Pattern> patterns);

    // Cuts well-formed text into sections in order of their place. A control token needs every byte of its pattern to
    // be template text; where it does not match, other tokens may. Source: AddedVocabulary::find_matches of tokenizers.
    std::vector<Section> split(const TextView& text) const;

  private:
    struct Edge {
        uint8_t byte;
        uint32_t target;
    };
    struct Match {
        const Pattern* pattern = nullptr;
        size_t end = 0;
    };

    void check(const Pattern& pattern) const;
    uint32_t target_of(uint32_t node, uint8_t byte) const;
    Match longest_match(const TextView& text, size_t at) const;

    std::vector<Pattern> patterns_;
    std::vector<int32_t> pattern_of_node_;  // -1: none ends here; node 0 is the root
    std::vector<Edge> edges_;               // by node, then byte
    std::vector<size_t> first_edge_;        // of each node, and one past the last
    std::array<uint32_t, 256> root_{};      // targets of the root; 0: none
};

}  // namespace gemmatrace::text
