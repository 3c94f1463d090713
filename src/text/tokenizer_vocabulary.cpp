// An open-addressing table over the dense list of tokens: 8 bytes a place instead of a node a token.
#include "text/tokenizer_vocabulary.h"

#include <fmt/format.h>

#include <functional>
#include <utility>

#include "base/error.h"

namespace gemmatrace::text {
namespace {

constexpr size_t kFirstPlaces = 1024;
constexpr const char* kVocabularyRemedy = "fetch tokenizer.json again; if it stays so, the file was made wrongly";

size_t hash_of(std::string_view token) { return std::hash<std::string_view>{}(token); }
uint32_t tag_of(size_t hash) { return static_cast<uint32_t>(hash >> 32); }

}  // namespace

size_t Vocabulary::place_of(std::string_view token, size_t hash) const {
    const size_t mask = places_.size() - 1;
    size_t at = hash & mask;
    while (places_[at].id >= 0) {
        const Place& place = places_[at];
        if (place.tag == tag_of(hash) && tokens_[static_cast<size_t>(place.id)] == token) break;
        at = (at + 1) & mask;
    }
    return at;
}

void Vocabulary::grow() {
    const std::vector<Place> old =
        std::exchange(places_, std::vector<Place>(places_.empty() ? kFirstPlaces : 2 * places_.size()));
    for (const Place& place : old) {
        if (place.id < 0) continue;
        const std::string& token = tokens_[static_cast<size_t>(place.id)];
        places_[place_of(token, hash_of(token))] = place;
    }
}

void Vocabulary::add(std::string token, uint64_t id, bool is_of_model) {
    if (id >= static_cast<uint64_t>(kMaxSize)) {
        throw Error(ErrorCode::corrupt, fmt::format("the id {} of a token is above the {} allowed", id, kMaxSize - 1),
                    {{"token", token}}, kVocabularyRemedy);
    }
    if (contains(static_cast<int32_t>(id))) {
        throw Error(ErrorCode::corrupt, fmt::format("two tokens have the id {}", id),
                    {{"token", tokens_[id]}, {"other_token", token}}, kVocabularyRemedy);
    }
    if (2 * (used_ + 1) > places_.size()) grow();
    const size_t hash = hash_of(token);
    Place& place = places_[place_of(token, hash)];
    if (place.id >= 0) {
        throw Error(ErrorCode::corrupt, fmt::format("the token is there twice, with ids {} and {}", place.id, id),
                    {{"token", token}}, kVocabularyRemedy);
    }
    if (id >= tokens_.size()) {
        tokens_.resize(id + 1);
        kinds_.resize(id + 1, 0);
    }
    place = {static_cast<int32_t>(id), tag_of(hash)};
    ++used_;
    model_size_ += is_of_model ? 1 : 0;
    kinds_[id] = is_of_model ? kPresent | kModel : kPresent;
    tokens_[id] = std::move(token);
}

std::optional<int32_t> Vocabulary::find(std::string_view token) const {
    if (places_.empty()) return std::nullopt;
    const Place& place = places_[place_of(token, hash_of(token))];
    if (place.id < 0) return std::nullopt;
    return place.id;
}

std::optional<int32_t> Vocabulary::find_in_model(std::string_view token) const {
    const std::optional<int32_t> id = find(token);
    if (id && (kinds_[static_cast<size_t>(*id)] & kModel) == 0) return std::nullopt;
    return id;
}

const std::string& Vocabulary::token(int32_t id) const {
    static const std::string none;
    return id >= 0 && id < size() ? tokens_[static_cast<size_t>(id)] : none;
}

}  // namespace gemmatrace::text
