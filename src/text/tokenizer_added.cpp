// A trie of added tokens, walked from each place of the text where one may begin.
#include "text/tokenizer_added.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer_unicode.h"

namespace gemmatrace::text {
namespace {

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80; }

// Where the character that ends at `end` (above 0) begins.
size_t character_before(std::string_view text, size_t end) {
    size_t begin = end - 1;
    while (begin > 0 && is_continuation(text[begin])) --begin;
    return begin;
}

char32_t character_at(std::string_view text, size_t at) { return decode_utf8(text, at).code_point; }

// Whether no word character touches [begin, end).
bool stands_alone(std::string_view text, size_t begin, size_t end) {
    if (begin > 0 && is_word_character(character_at(text, character_before(text, begin)))) return false;
    return end == text.size() || !is_word_character(character_at(text, end));
}

// `begin` moved left over white space, not further than `limit`.
size_t strip_left(std::string_view text, size_t begin, size_t limit) {
    while (begin > limit) {
        const size_t before = character_before(text, begin);
        if (!is_white_space(character_at(text, before))) break;
        begin = before;
    }
    return std::max(begin, limit);
}

// `end` moved right over white space.
size_t strip_right(std::string_view text, size_t end) {
    while (end < text.size()) {
        const Utf8Step step = decode_utf8(text, end);
        if (!is_white_space(step.code_point)) break;
        end += static_cast<size_t>(step.length);
    }
    return end;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<Pattern> patterns) : patterns_(std::move(patterns)) {
    std::map<std::pair<uint32_t, uint8_t>, uint32_t> children;
    pattern_of_node_.push_back(-1);
    for (size_t index = 0; index < patterns_.size(); ++index) {
        check(patterns_[index]);
        uint32_t node = 0;
        for (const char byte : patterns_[index].text) {
            const auto [child, is_new] = children.try_emplace({node, static_cast<uint8_t>(byte)},
                                                              static_cast<uint32_t>(pattern_of_node_.size()));
            if (is_new) pattern_of_node_.push_back(-1);
            node = child->second;
        }
        if (pattern_of_node_[node] < 0) pattern_of_node_[node] = static_cast<int32_t>(index);
    }
    first_edge_.assign(pattern_of_node_.size() + 1, 0);
    for (const auto& [from, target] : children) {
        if (from.first == 0) root_[from.second] = target;
        ++first_edge_[from.first + 1];
        edges_.push_back({from.second, target});
    }
    for (size_t node = 1; node < first_edge_.size(); ++node) first_edge_[node] += first_edge_[node - 1];
}

void AddedTokenMatcher::check(const Pattern& pattern) const {
    if (!pattern.text.empty() && pattern.text.size() <= kMaxBytes) return;
    throw Error(ErrorCode::unsupported,
                pattern.text.empty()
                    ? std::string("an added token matches empty text")
                    : fmt::format("an added token has {} bytes, {} are allowed", pattern.text.size(), kMaxBytes),
                {{"field", "added_tokens"}, {"id", std::to_string(pattern.token.id)}},
                "use the tokenizer.json that was published with the checkpoint");
}

uint32_t AddedTokenMatcher::target_of(uint32_t node, uint8_t byte) const {
    const auto begin = edges_.begin() + static_cast<ptrdiff_t>(first_edge_[node]);
    const auto end = edges_.begin() + static_cast<ptrdiff_t>(first_edge_[node + 1]);
    const auto edge =
        std::lower_bound(begin, end, byte, [](const Edge& candidate, uint8_t value) { return candidate.byte < value; });
    return edge != end && edge->byte == byte ? edge->target : 0;
}

AddedTokenMatcher::Match AddedTokenMatcher::longest_match(const TextView& text, size_t at) const {
    Match longest;
    uint32_t node = root_[static_cast<uint8_t>(text.text[at])];
    size_t end = at + 1;
    while (node != 0) {
        const int32_t index = pattern_of_node_[node];
        if (index >= 0) {
            const Pattern& pattern = patterns_[static_cast<size_t>(index)];
            if (!pattern.is_control || !text.has_content(at, end)) longest = {&pattern, end};
        }
        if (end == text.size()) break;
        node = target_of(node, static_cast<uint8_t>(text.text[end]));
        ++end;
    }
    return longest;
}

std::vector<Section> AddedTokenMatcher::split(const TextView& text) const {
    std::vector<Section> sections;
    size_t rest = 0;  // the text before it is in sections
    for (size_t at = 0; at < text.size() && !patterns_.empty();) {
        const Match match = longest_match(text, at);
        if (match.pattern == nullptr) {
            ++at;
            continue;
        }
        size_t begin = at;
        size_t end = match.end;
        at = match.end;  // also when the match is discarded, and before white space taken on the right
        const AddedToken& token = match.pattern->token;
        if (token.single_word && !stands_alone(text.text, begin, end)) continue;
        if (token.lstrip) begin = strip_left(text.text, begin, rest);
        if (token.rstrip) end = strip_right(text.text, end);
        if (rest < begin) sections.push_back({std::nullopt, rest, begin});
        // A match whose text the one before it took as white space is lost, as in the reference.
        if (begin < end) sections.push_back({token.id, begin, end});
        rest = end;
    }
    if (rest < text.size()) sections.push_back({std::nullopt, rest, text.size()});
    return sections;
}

}  // namespace gemmatrace::text
