// The vocabulary as a trie of bytes: which tokens a text may go on with, found in one walk.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

namespace gemmatrace::engine {

// What bytes each ordinary token stands for. A byte token is its byte; another token is the text that the tokenizer's
// decoder makes of it. Control tokens have no bytes: a grammar names them as symbols. Immutable; made once a model.
class VocabularyTrie {
  public:
    // vocab_size: how many ids the model has; ids beyond the tokenizer's are never allowed, nor are tokens without
    // text. Throws Error(unsupported) when the decoder makes something else of tokens in a row than of each alone.
    VocabularyTrie(const text::Tokenizer& tokenizer, int32_t vocab_size);
    // From (id, bytes) pairs, for tests and benchmarks.
    VocabularyTrie(const std::vector<std::pair<int32_t, std::string>>& tokens, int32_t vocab_size);

    int32_t vocab_size() const { return vocab_size_; }
    // The bytes of an ordinary token; empty for control tokens and ids without text.
    std::string_view bytes(int32_t id) const;
    bool has_single_byte(uint8_t byte) const { return single_bytes_[byte]; }

    // A node of the trie other than the root, in the order of a walk from the top: a node's subtree follows it.
    struct Node {
        uint32_t end = 0;          // the node behind the subtree
        uint32_t first_token = 0;  // its tokens are token_ids()[first_token] up to the next node's
        uint16_t depth = 0;        // bytes from the root, the node's own included
        uint8_t byte = 0;
    };
    // The last node is a sentinel that closes the ranges.
    std::span<const Node> nodes() const { return nodes_; }
    std::span<const int32_t> token_ids() const { return token_ids_; }
    size_t max_depth() const { return max_depth_; }

  private:
    void build(std::vector<std::pair<std::string_view, int32_t>> tokens);
    void keep_bytes(const std::vector<std::pair<int32_t, std::string>>& tokens);

    int32_t vocab_size_;
    std::string pool_;               // the bytes of all tokens, one after the other
    std::vector<uint32_t> offsets_;  // [vocab_size + 1]
    std::vector<Node> nodes_;
    std::vector<int32_t> token_ids_;
    std::vector<bool> single_bytes_;
    size_t max_depth_ = 0;
};

}  // namespace gemmatrace::engine
