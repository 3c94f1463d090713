// The tokens of a checkpoint: strings to ids and back, and which of them are control tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gemmatrace::text {

class Vocabulary {
  public:
    // One more than the largest id that is accepted; the table of tokens is dense.
    static constexpr int32_t kMaxSize = int32_t{1} << 21;

    // Adds a token of the model, or one known only as an added token. Throws Error(corrupt) when the string or the id
    // is already there or the id is too large.
    void add_model_token(std::string token, uint64_t id) { add(std::move(token), id, true); }
    void add_extra_token(std::string token, uint64_t id) { add(std::move(token), id, false); }

    // The id of a token of either kind.
    std::optional<int32_t> find(std::string_view token) const;
    // The id of a token of the model: what BPE sees.
    std::optional<int32_t> find_in_model(std::string_view token) const;

    // One more than the largest id; 0 when empty.
    int32_t size() const { return static_cast<int32_t>(tokens_.size()); }
    // Number of tokens of the model.
    int32_t model_size() const { return model_size_; }
    // Whether a token has this id.
    bool contains(int32_t id) const {
        return id >= 0 && id < size() && (kinds_[static_cast<size_t>(id)] & kPresent) != 0;
    }
    // The token's string; empty for an id without a token.
    const std::string& token(int32_t id) const;

    void mark_control(int32_t id) { kinds_[static_cast<size_t>(id)] |= kControl; }
    bool is_control(int32_t id) const {
        return id >= 0 && id < size() && (kinds_[static_cast<size_t>(id)] & kControl) != 0;
    }

  private:
    static constexpr uint8_t kPresent = 1;
    static constexpr uint8_t kModel = 2;
    static constexpr uint8_t kControl = 4;

    // A place of the hash table: the id and a part of the hash that saves most comparisons of strings.
    struct Place {
        int32_t id = -1;
        uint32_t tag = 0;
    };

    void add(std::string token, uint64_t id, bool is_of_model);
    size_t place_of(std::string_view token, size_t hash) const;
    void grow();

    std::vector<std::string> tokens_;  // by id
    std::vector<uint8_t> kinds_;       // by id
    std::vector<Place> places_;        // open addressing; a power of two, at most half full
    size_t used_ = 0;
    int32_t model_size_ = 0;
};

}  // namespace gemmatrace::text
