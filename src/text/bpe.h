// Byte-pair encoding of one stretch of text, merge for merge as Hugging Face tokenizers does it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer_text.h"
#include "text/tokenizer_vocabulary.h"

namespace gemmatrace::text {

// The pairs of a file in the order of their ranks, as text, until the whole vocabulary is known.
class MergeList {
  public:
    void add(std::string_view left, std::string_view right);
    size_t size() const { return ends_.size() / 2; }
    // The two sides joined, and the length of the left one.
    std::string_view joined(size_t rank) const { return text_at(2 * rank, 2 * rank + 2); }
    std::string_view left(size_t rank) const { return text_at(2 * rank, 2 * rank + 1); }
    std::string_view right(size_t rank) const { return text_at(2 * rank + 1, 2 * rank + 2); }

  private:
    std::string_view text_at(size_t from, size_t to) const {
        const size_t begin = from == 0 ? 0 : ends_[from - 1];
        return std::string_view(text_).substr(begin, ends_[to - 1] - begin);
    }
    std::string text_;
    std::vector<uint32_t> ends_;  // of each side in text_
};

// The settings of the model in tokenizer.json, by their names there.
struct BpeSettings {
    std::optional<std::string> unk_token;
    bool fuse_unk = false;
    bool byte_fallback = false;
    bool ignore_merges = false;
};

class Bpe {
  public:
    // Throws Error(corrupt) when a merge names or makes a token that the vocabulary lacks, or when the unknown token is
    // needed and missing.
    Bpe(const Vocabulary& vocabulary, const MergeList& merges, const BpeSettings& settings);

    // A symbol of the stretch being merged, linked to its neighbours.
    struct Symbol {
        int32_t id = 0;
        uint32_t previous = 0;
        uint32_t next = 0;
        bool is_removed = false;
        bool is_content = false;  // a byte of it came in with the request
    };
    // Memory that one call of the tokenizer reuses for all its stretches.
    struct Workspace {
        std::vector<Symbol> symbols;
        std::vector<uint64_t> queue;
    };

    // Appends the ids of a stretch of well-formed text: symbols are its characters (their bytes, or the unknown token,
    // where the vocabulary lacks them); then always the merge of lowest rank, leftmost first. Time grows with
    // n log n. A control token never results from a stretch with a byte of content in it; the unknown token does,
    // because it stands for what cannot be said otherwise.
    void encode(const Vocabulary& vocabulary, const TextView& stretch, Workspace& workspace,
                std::vector<int32_t>& ids) const;

  private:
    // A place of the merge table.
    struct Entry {
        int32_t left = -1;
        int32_t right = -1;
        uint32_t rank = 0;
    };

    size_t place_of(int32_t left, int32_t right) const;
    void insert(int32_t left, int32_t right, uint32_t rank);
    void split(const Vocabulary& vocabulary, const TextView& stretch, std::vector<Symbol>& symbols) const;
    bool append_bytes(const Vocabulary& vocabulary, std::string_view character, bool is_content,
                      std::vector<Symbol>& symbols) const;
    std::optional<uint32_t> rank_of(const Vocabulary& vocabulary, const Symbol& left, const Symbol& right) const;
    void queue_pair(const Vocabulary& vocabulary, uint32_t position, Workspace& workspace) const;
    void merge(const Vocabulary& vocabulary, Workspace& workspace) const;

    std::vector<Entry> entries_;           // open addressing; a power of two, at most half full
    std::vector<int32_t> results_;         // the id that the merge of a rank makes
    std::array<int32_t, 256> byte_ids_{};  // -1 where the vocabulary has no token for the byte
    std::optional<int32_t> unk_id_;
    bool fuse_unk_ = false;
    bool byte_fallback_ = false;
    bool ignore_merges_ = false;
};

}  // namespace gemmatrace::text
