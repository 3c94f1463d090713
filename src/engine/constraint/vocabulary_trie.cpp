// Finding out what each token stands for, and laying the tokens out as a trie.
#include "engine/constraint/vocabulary_trie.h"

#include <algorithm>
#include <optional>

#include "base/error.h"

namespace gemmatrace::engine {
namespace {

using TokenBytes = std::vector<std::pair<int32_t, std::string>>;

constexpr size_t kMaxTokenBytes = 4096;  // a longer token is never allowed

std::optional<int> hex_digit_value(char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    return std::nullopt;
}

// The byte of a token like <0x0A>, if the decoder reads it so: alone it is that byte, or U+FFFD where a byte alone is
// no character.
std::optional<std::string> fallback_byte(const std::string& token, const std::string& decoded) {
    if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
    const std::optional<int> high = hex_digit_value(token[3]);
    const std::optional<int> low = hex_digit_value(token[4]);
    if (!high || !low) return std::nullopt;
    std::string byte(1, static_cast<char>(*high * 16 + *low));
    const bool is_read_as_byte = decoded == byte || decoded == "\xef\xbf\xbd";
    return is_read_as_byte ? std::optional(byte) : std::nullopt;
}

// Decoders that treat the first or last token differently, or put spaces between, would make the bytes wrong.
void check_joining(const text::Tokenizer& tokenizer, const std::vector<int32_t>& ids, const std::string& expected) {
    if (tokenizer.decode(ids, false) == expected) return;
    throw Error(ErrorCode::unsupported,
                "this tokenizer's decoder gives tokens in a row another text than each alone, so that answers cannot "
                "be constrained",
                {{"in", "tokenizer.json"}, {"field", "decoder"}}, "ask for an answer without a format");
}

TokenBytes token_bytes_of(const text::Tokenizer& tokenizer, int32_t vocab_size) {
    constexpr size_t kChecked = 256;  // tokens joined in one check
    TokenBytes tokens;
    std::vector<int32_t> run;
    std::string expected;
    const int32_t count = std::min(vocab_size, tokenizer.vocab_size());
    for (int32_t id = 0; id < count; ++id) {
        if (tokenizer.token(id).empty() || tokenizer.is_control(id)) continue;
        std::string decoded = tokenizer.decode({&id, 1}, false);
        if (std::optional<std::string> byte = fallback_byte(tokenizer.token(id), decoded)) {
            tokens.emplace_back(id, std::move(*byte));
            continue;
        }
        run.push_back(id);
        expected += decoded;
        if (run.size() == kChecked) {
            check_joining(tokenizer, run, expected);
            run.clear();
            expected.clear();
        }
        if (!decoded.empty() && decoded.size() <= kMaxTokenBytes) tokens.emplace_back(id, std::move(decoded));
    }
    check_joining(tokenizer, run, expected);
    return tokens;
}

}  // namespace

VocabularyTrie::VocabularyTrie(const text::Tokenizer& tokenizer, int32_t vocab_size)
    : VocabularyTrie(token_bytes_of(tokenizer, vocab_size), vocab_size) {}

VocabularyTrie::VocabularyTrie(const TokenBytes& tokens, int32_t vocab_size)
    : vocab_size_(vocab_size), single_bytes_(256) {
    keep_bytes(tokens);
    std::vector<std::pair<std::string_view, int32_t>> sorted;
    for (int32_t id = 0; id < vocab_size_; ++id) {
        const std::string_view text = bytes(id);
        if (text.empty()) continue;
        sorted.emplace_back(text, id);
        if (text.size() == 1) single_bytes_[static_cast<uint8_t>(text.front())] = true;
    }
    build(std::move(sorted));
}

void VocabularyTrie::keep_bytes(const TokenBytes& tokens) {
    std::vector<std::string_view> of_id(static_cast<size_t>(vocab_size_));
    for (const auto& [id, text] : tokens) {
        require(id >= 0 && id < vocab_size_, "token ids are below vocab_size");
        of_id[static_cast<size_t>(id)] = text;
    }
    for (const std::string_view text : of_id) {
        offsets_.push_back(static_cast<uint32_t>(pool_.size()));
        pool_ += text;
    }
    offsets_.push_back(static_cast<uint32_t>(pool_.size()));
}

std::string_view VocabularyTrie::bytes(int32_t id) const {
    require(id >= 0 && id < vocab_size_, "the token id is below vocab_size");
    const auto index = static_cast<size_t>(id);
    return std::string_view(pool_).substr(offsets_[index], offsets_[index + 1] - offsets_[index]);
}

// In sorted order each token shares a beginning with the one before it and adds nodes for the rest.
void VocabularyTrie::build(std::vector<std::pair<std::string_view, int32_t>> tokens) {
    std::sort(tokens.begin(), tokens.end(), [](const auto& one, const auto& other) {
        // As unsigned bytes; ties by id, so that a walk meets ids of equal text in order.
        const int order = one.first.compare(other.first);
        return order != 0 ? order < 0 : one.second < other.second;
    });
    std::vector<uint32_t> open;  // the path of nodes to the last token
    const auto close_to = [&](size_t depth) {
        for (; open.size() > depth; open.pop_back()) nodes_[open.back()].end = static_cast<uint32_t>(nodes_.size());
    };
    std::string_view before;
    for (const auto& [text, id] : tokens) {
        size_t shared = 0;
        while (shared < std::min(before.size(), text.size()) && before[shared] == text[shared]) ++shared;
        close_to(shared);
        for (size_t depth = shared; depth < text.size(); ++depth) {
            open.push_back(static_cast<uint32_t>(nodes_.size()));
            nodes_.push_back({0, static_cast<uint32_t>(token_ids_.size()), static_cast<uint16_t>(depth + 1),
                              static_cast<uint8_t>(text[depth])});
        }
        token_ids_.push_back(id);
        max_depth_ = std::max(max_depth_, text.size());
        before = text;
    }
    close_to(0);
    nodes_.push_back({static_cast<uint32_t>(nodes_.size() + 1), static_cast<uint32_t>(token_ids_.size()), 0, 0});
}

}  // namespace gemmatrace::engine
