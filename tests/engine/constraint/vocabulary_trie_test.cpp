// The trie holds each ordinary token under the bytes that the tokenizer's decoder makes of it.
#include "engine/constraint/vocabulary_trie.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/utf8.h"

namespace gemmatrace::engine {
namespace {

const text::Tokenizer& trie_tokenizer() {
    static const auto kTokenizer = text::Tokenizer::load(std::filesystem::path(GEMMATRACE_SOURCE_DIR) / "models/demo");
    return kTokenizer;
}

// The bytes along the path to every token, as a walk sees them.
std::map<int32_t, std::string> paths_of(const VocabularyTrie& trie) {
    std::map<int32_t, std::string> paths;
    std::string path;
    const auto nodes = trie.nodes();
    for (size_t index = 0; index + 1 < nodes.size(); ++index) {
        path.resize(nodes[index].depth - 1U);
        path.push_back(static_cast<char>(nodes[index].byte));
        for (uint32_t token = nodes[index].first_token; token < nodes[index + 1].first_token; ++token) {
            paths[trie.token_ids()[token]] = path;
        }
    }
    return paths;
}

TEST(VocabularyTrieTest, tokens_stand_under_their_bytes) {
    const text::Tokenizer& tokenizer = trie_tokenizer();
    const VocabularyTrie trie(tokenizer, tokenizer.vocab_size());
    const std::map<int32_t, std::string> paths = paths_of(trie);
    size_t ordinary = 0;
    for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
        if (tokenizer.is_control(id)) {
            EXPECT_EQ(paths.count(id), 0U) << tokenizer.token(id);
            EXPECT_TRUE(trie.bytes(id).empty());
            continue;
        }
        ++ordinary;
        ASSERT_EQ(paths.count(id), 1U) << id;
        EXPECT_EQ(paths.at(id), trie.bytes(id));
        const std::string decoded = tokenizer.decode({&id, 1}, false);
        if (is_valid_utf8(trie.bytes(id))) {
            EXPECT_EQ(trie.bytes(id), decoded);
        }
    }
    EXPECT_EQ(paths.size(), ordinary);
}

TEST(VocabularyTrieTest, every_byte_has_its_token_and_marks_of_spaces_are_spaces) {
    const text::Tokenizer& tokenizer = trie_tokenizer();
    const VocabularyTrie trie(tokenizer, tokenizer.vocab_size());
    for (int byte = 0; byte < 256; ++byte) EXPECT_TRUE(trie.has_single_byte(static_cast<uint8_t>(byte))) << byte;
    EXPECT_EQ(trie.bytes(tokenizer.id_of("<0xC3>").value()), "\xc3");
    EXPECT_EQ(trie.bytes(tokenizer.id_of("\xe2\x96\x81").value()), " ");
}

TEST(VocabularyTrieTest, ids_beyond_the_model_or_the_tokenizer_are_not_there) {
    const text::Tokenizer& tokenizer = trie_tokenizer();
    const VocabularyTrie small(tokenizer, 600);
    for (const int32_t id : small.token_ids()) EXPECT_LT(id, 600);
    const VocabularyTrie large(tokenizer, 5000);
    for (const int32_t id : large.token_ids()) EXPECT_LT(id, tokenizer.vocab_size());
    EXPECT_TRUE(large.bytes(4999).empty());
}

TEST(VocabularyTrieTest, a_decoder_that_joins_with_spaces_is_refused) {
    const auto tokenizer =
        text::Tokenizer::parse(R"({"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]},"added_tokens":[]})", "");
    EXPECT_THROW(VocabularyTrie(tokenizer, 2), Error);
}

TEST(VocabularyTrieTest, tokens_of_equal_bytes_are_all_found) {
    const VocabularyTrie trie({{0, "ab"}, {3, "a"}, {1, "ab"}, {4, "b"}, {2, "abc"}}, 5);
    const std::map<int32_t, std::string> expected{{0, "ab"}, {1, "ab"}, {2, "abc"}, {3, "a"}, {4, "b"}};
    EXPECT_EQ(paths_of(trie), expected);
    EXPECT_EQ(trie.max_depth(), 3U);
}

}  // namespace
}  // namespace gemmatrace::engine
