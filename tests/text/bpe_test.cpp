// Byte-pair encoding: which merge comes first, what becomes of unknown characters, and that long lines stay cheap.
#include "text/bpe.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>

#include "base/utf8.h"
#include "support/expect_error.h"

namespace gemmatrace::text {
namespace {

using Strings = std::vector<std::string>;
using Pairs = std::vector<std::pair<std::string, std::string>>;

// A model with its vocabulary; ids are places in the list of tokens.
class Model {
  public:
    Model(const Strings& tokens, const Pairs& pairs, const BpeSettings& settings = {})
        : vocabulary_(vocabulary_of(tokens)), bpe_(vocabulary_, merges_of(pairs), settings) {}

    Vocabulary& vocabulary() { return vocabulary_; }
    std::vector<int32_t> ids(const TextView& text) const {
        Bpe::Workspace workspace;
        std::vector<int32_t> ids;
        bpe_.encode(vocabulary_, text, workspace, ids);
        return ids;
    }
    Strings tokens(const TextView& text) const {
        Strings tokens;
        for (const int32_t id : ids(text)) tokens.push_back(vocabulary_.token(id));
        return tokens;
    }

  private:
    static Vocabulary vocabulary_of(const Strings& tokens) {
        Vocabulary vocabulary;
        for (size_t id = 0; id < tokens.size(); ++id) vocabulary.add_model_token(tokens[id], id);
        return vocabulary;
    }
    static MergeList merges_of(const Pairs& pairs) {
        MergeList merges;
        for (const auto& [left, right] : pairs) merges.add(left, right);
        return merges;
    }
    Vocabulary vocabulary_;
    Bpe bpe_;
};

Strings with_bytes(Strings tokens) {
    for (int byte = 0; byte < 256; ++byte) tokens.push_back(fmt::format("<0x{:02X}>", byte));
    return tokens;
}

// The definition: again and again the pair of lowest rank, leftmost first. Quadratic, and obviously right.
Strings merged_naively(Strings symbols, const Pairs& pairs) {
    while (true) {
        size_t best_rank = pairs.size();
        size_t best_at = 0;
        for (size_t at = 0; at + 1 < symbols.size(); ++at) {
            for (size_t rank = 0; rank < best_rank; ++rank) {
                if (pairs[rank].first != symbols[at] || pairs[rank].second != symbols[at + 1]) continue;
                best_rank = rank;
                best_at = at;
            }
        }
        if (best_rank == pairs.size()) return symbols;
        symbols[best_at] += symbols[best_at + 1];
        symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best_at) + 1);
    }
}

TEST(Bpe, MakesTheMergeOfLowestRankFirst) {
    const Model model({"a", "b", "c", "ab", "bc"}, {{"b", "c"}, {"a", "b"}});
    EXPECT_EQ(model.tokens({"abc"}), (Strings{"a", "bc"}));
}

TEST(Bpe, MergesTheLeftmostPairOnTies) {
    const Model model({"a", "aa"}, {{"a", "a"}});
    EXPECT_EQ(model.tokens({"aaa"}), (Strings{"aa", "a"}));
}

TEST(Bpe, GoesOnWithWhatAMergeMade) {
    const Model model({"a", "b", "ab", "abab"}, {{"a", "b"}, {"ab", "ab"}});
    EXPECT_EQ(model.tokens({"ababab"}), (Strings{"abab", "ab"}));
}

TEST(Bpe, GivesAPairListedTwiceTheLaterRank) {
    const Model model({"a", "b", "c", "ab", "bc"}, {{"a", "b"}, {"b", "c"}, {"a", "b"}});
    EXPECT_EQ(model.tokens({"abc"}), (Strings{"a", "bc"}));
}

TEST(Bpe, EqualsTheDefinitionOnRandomMergesAndTexts) {
    std::mt19937 random(11);
    for (int round = 0; round < 60; ++round) {
        Strings tokens{"a", "b", "c", "é"};
        const Strings characters = tokens;
        Pairs pairs;
        for (int count = 0; count < 25; ++count) {
            const std::string left = tokens[random() % tokens.size()];
            const std::string right = tokens[random() % tokens.size()];
            const std::pair<std::string, std::string> pair{left, right};
            if (left.size() + right.size() > 8 || std::find(pairs.begin(), pairs.end(), pair) != pairs.end()) continue;
            if (std::find(tokens.begin(), tokens.end(), left + right) == tokens.end()) tokens.push_back(left + right);
            pairs.push_back(pair);
        }
        std::shuffle(pairs.begin(), pairs.end(), random);
        const Model model(tokens, pairs);
        for (int text_number = 0; text_number < 40; ++text_number) {
            Strings symbols;
            std::string text;
            for (size_t length = random() % 30; length > 0; --length) {
                symbols.push_back(characters[random() % characters.size()]);
                text += symbols.back();
            }
            ASSERT_EQ(model.tokens({text}), merged_naively(symbols, pairs)) << text;
        }
    }
}

TEST(Bpe, WritesACharacterOutsideTheVocabularyAsItsBytes) {
    const Model model(with_bytes({"<unk>", "a"}), {}, {"<unk>", true, true, false});
    EXPECT_EQ(model.tokens({"a\u00e9a"}), (Strings{"a", "<0xC3>", "<0xA9>", "a"}));
    EXPECT_EQ(model.tokens({"\U0010ffff"}), (Strings{"<0xF4>", "<0x8F>", "<0xBF>", "<0xBF>"}));
}

TEST(Bpe, DoesNotTakeBytesWhenTheFileSaysNo) {
    const Model model(with_bytes({"<unk>", "a"}), {}, {"<unk>", true, false, false});
    EXPECT_EQ(model.tokens({"a\u00e9a"}), (Strings{"a", "<unk>", "a"}));
}

TEST(Bpe, FusesUnknownCharactersOnlyWhenTheFileSaysSo) {
    EXPECT_EQ(Model({"<unk>", "a"}, {}, {"<unk>", true, false, false}).tokens({"xyaz"}),
              (Strings{"<unk>", "a", "<unk>"}));
    EXPECT_EQ(Model({"<unk>", "a"}, {}, {"<unk>", false, false, false}).tokens({"xya"}),
              (Strings{"<unk>", "<unk>", "a"}));
}

TEST(Bpe, LetsBytesOvertakeAWaitingUnknownTokenAsTheReferenceDoes) {
    const Model model({"<unk>", "a", "<0x62>"}, {}, {"<unk>", true, true, false});
    EXPECT_EQ(model.tokens({"xba"}), (Strings{"<0x62>", "<unk>", "a"}));
}

TEST(Bpe, LeavesOutUnknownCharactersWithoutAnUnknownTokenAsTheReferenceDoes) {
    EXPECT_EQ(Model({"a"}, {}).tokens({"axa"}), (Strings{"a", "a"}));
}

TEST(Bpe, TakesAWholeStretchAsOneTokenWhenMergesAreIgnored) {
    const Strings tokens{"a", "b", "ab", "aab"};
    EXPECT_EQ(Model(tokens, {{"a", "b"}}, {std::nullopt, false, false, true}).tokens({"aab"}), (Strings{"aab"}));
    EXPECT_EQ(Model(tokens, {{"a", "b"}}).tokens({"aab"}), (Strings{"a", "ab"}));
}

TEST(Bpe, NeverMakesAControlTokenOfContent) {
    Model model(with_bytes({"<", "s", ">", "<s", "<s>", "§"}), {{"<", "s"}, {"<s", ">"}},
                {std::nullopt, true, true, false});
    model.vocabulary().mark_control(4);
    model.vocabulary().mark_control(5);
    EXPECT_EQ(model.tokens({"<s>"}), (Strings{"<s>"}));
    EXPECT_EQ(model.tokens({"<s>", nullptr, Origin::content}), (Strings{"<s", ">"}));
    EXPECT_EQ(model.tokens({"§"}), (Strings{"§"}));
    EXPECT_EQ(model.tokens({"§", nullptr, Origin::content}), (Strings{"<0xC2>", "<0xA7>"}));
    const std::vector<Origin> one_byte{Origin::template_text, Origin::content, Origin::template_text};
    EXPECT_EQ(model.tokens({"<s>", one_byte.data()}), (Strings{"<s", ">"}));
}

TEST(Bpe, NeverTakesAWholeControlTokenOfContentWhenMergesAreIgnored) {
    Model model({"<", "s", ">", "<s>"}, {}, {std::nullopt, false, false, true});
    model.vocabulary().mark_control(3);
    EXPECT_EQ(model.tokens({"<s>", nullptr, Origin::content}), (Strings{"<", "s", ">"}));
}

// The time limit of the test is what a quadratic queue or a recursion would break.
TEST(Bpe, F062_KeepsALineOfAMillionBytesCheap) {
    Strings tokens = with_bytes({"a", "aa", "aaaa", "b", "ab", "é", "éé"});
    const Pairs pairs{{"a", "a"}, {"aa", "aa"}, {"a", "b"}, {"é", "é"}};
    const Model model(tokens, pairs, {std::nullopt, true, true, false});
    EXPECT_EQ(model.ids({std::string(1'000'000, 'a')}).size(), 250'000U);
    std::string accents;
    for (int count = 0; count < 500'000; ++count) accents += "é";
    EXPECT_EQ(model.ids({accents}).size(), 250'000U);
    std::string chinese;  // not in the vocabulary: three bytes each
    for (int count = 0; count < 333'000; ++count) chinese += "中";
    EXPECT_EQ(model.ids({chinese}).size(), 999'000U);
    std::mt19937 random(3);
    std::string mixed;
    while (mixed.size() < 1'000'000) mixed += "ab"[random() % 2];
    std::string joined;
    for (const std::string& token : model.tokens({mixed})) joined += token;
    EXPECT_EQ(joined, mixed);
}

TEST(Bpe, RefusesMergesOfPiecesTheVocabularyLacks) {
    const auto expect_refused = [](const Pairs& pairs, const std::string& piece) {
        testing::expect_error(ErrorCode::corrupt, {"model.merges", "rank=1", "token=" + piece}, [&] {
            Model({"a", "b", "ab"}, pairs);
        });
    };
    expect_refused({{"a", "b"}, {"a", "x"}}, "x");
    expect_refused({{"a", "b"}, {"y", "b"}}, "y");
    expect_refused({{"a", "b"}, {"b", "a"}}, "ba");
}

TEST(Bpe, RefusesAnUnknownTokenThatIsNeededAndMissing) {
    testing::expect_error(ErrorCode::corrupt, {"model.unk_token", "<unk>"}, [] {
        Model({"a"}, {}, {"<unk>", true, true, false});
    });
    EXPECT_NO_THROW(Model(with_bytes({"a"}), {}, {"<unk>", true, true, false}));  // bytes can say everything
}

TEST(Vocabulary, FindsTokensAndLeavesHoles) {
    Vocabulary vocabulary;
    vocabulary.add_model_token("a", 5);
    vocabulary.add_extra_token("<x>", 2);
    EXPECT_EQ(vocabulary.size(), 6);
    EXPECT_EQ(vocabulary.model_size(), 1);
    EXPECT_EQ(vocabulary.find("<x>"), 2);
    EXPECT_EQ(vocabulary.find_in_model("<x>"), std::nullopt);
    EXPECT_EQ(vocabulary.token(5), "a");
    EXPECT_EQ(vocabulary.token(0), "");
    EXPECT_EQ(vocabulary.token(-1), "");
    EXPECT_FALSE(vocabulary.contains(0));
    EXPECT_FALSE(vocabulary.is_control(99));
}

TEST(Vocabulary, RefusesTwoTokensOfOneIdAndOneTokenOfTwoIds) {
    Vocabulary vocabulary;
    vocabulary.add_model_token("a", 0);
    testing::expect_error(ErrorCode::corrupt, {"two tokens have the id 0"},
                          [&] { vocabulary.add_model_token("b", 0); });
    testing::expect_error(ErrorCode::corrupt, {"twice", "ids 0 and 1"}, [&] { vocabulary.add_model_token("a", 1); });
    testing::expect_error(ErrorCode::corrupt, {"above"}, [&] { vocabulary.add_model_token("c", uint64_t{1} << 40); });
}

}  // namespace
}  // namespace gemmatrace::text
