// Text to ids through the whole pipeline of a file in Gemma's form.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <numeric>

#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "text/tokenizer_fixture.h"

namespace gemmatrace::text::testing {
namespace {

TEST(Tokenizer, SplitsTextByMergesWithSpacesMarked) {
    const Tokenizer tokenizer = parse(small_file());
    EXPECT_EQ(tokens_of(tokenizer, "hello world"), (Strings{"hello", kSpace + "world"}));
    EXPECT_EQ(tokens_of(tokenizer, "hell"), (Strings{"hell"}));
    EXPECT_TRUE(tokenizer.encode("").empty());
}

TEST(Tokenizer, NeverAddsBeginningOrEnd) {
    const Json config{{"bos_token", "<bos>"}, {"eos_token", "<eos>"}, {"add_bos_token", true}};
    EXPECT_EQ(tokens_of(parse(small_file(), config), "hello"), (Strings{"hello"}));
}

TEST(Tokenizer, F059_TakesRunsOfNewlinesAsTheirOwnTokens) {
    // Tokens of 1 to 4 newlines, shorter ones with lower ranks; what Hugging Face tokenizers makes of this file.
    const std::vector<std::vector<size_t>> lengths{{1}, {2}, {3}, {4}, {2, 3}, {4, 2}, {4, 3}, {4, 4}};
    const Tokenizer tokenizer = parse(small_file());
    for (const std::string before : {"", "a", "hello ", "}"}) {
        for (size_t run = 1; run <= lengths.size(); ++run) {
            Strings expected = tokens_of(tokenizer, before);
            for (const size_t length : lengths[run - 1]) expected.emplace_back(length, '\n');
            expected.push_back("b");
            EXPECT_EQ(tokens_of(tokenizer, before + std::string(run, '\n') + "b"), expected) << run;
        }
    }
}

TEST(Tokenizer, F059_MatchesRunsOfNewlinesThatAreAddedTokens) {
    Json file = small_file();
    for (int run = 1; run <= 4; ++run) {
        file["added_tokens"].push_back(added_token(6 + run, std::string(static_cast<size_t>(run), '\n'), false));
    }
    const Tokenizer tokenizer = parse(file);
    EXPECT_EQ(tokens_of(tokenizer, "a" + std::string(7, '\n') + "b"), (Strings{"a", "\n\n\n\n", "\n\n\n", "b"}));
    EXPECT_EQ(tokens_of(tokenizer, "\n\n", ControlText::plain), (Strings{"\n\n"}));
}

TEST(Tokenizer, F060_WorksOnRawCharactersAcrossWords) {
    // Byte-level code would write "é" as "Ã©"; code that splits into words could not make one token of "e w".
    const std::string across = "e" + kSpace + "w";
    Strings tokens = small_tokens();
    tokens.push_back(across);
    Json merges = all_merges(tokens);
    merges.insert(merges.begin(), Json{"e", kSpace + "w"});
    merges.insert(merges.begin(), Json{kSpace, "w"});
    const Tokenizer tokenizer = parse(gemma_file(tokens, merges));
    EXPECT_EQ(tokens_of(tokenizer, "be we"), (Strings{"b", across, "e"}));
    EXPECT_EQ(tokens_of(tokenizer, "é"), (Strings{"é"}));
}

TEST(Tokenizer, F061_KeepsIndentationOfEveryWidthAndTags) {
    const Tokenizer tokenizer = parse(small_file());
    for (size_t width = 1; width <= 40; ++width) {
        const Strings tokens = tokens_of(tokenizer, std::string(width, ' ') + "x");
        EXPECT_EQ(std::accumulate(tokens.begin(), tokens.end(), std::string()).size(), 3 * width + 1);
        EXPECT_EQ(tokens.size(), (width + 3) / 4 + 1) << width;
        EXPECT_EQ(round_trip(tokenizer, std::string(width, ' ') + "x"), std::string(width, ' ') + "x");
    }
    EXPECT_EQ(tokens_of(tokenizer, "  <b>\n"), (Strings{kSpace + kSpace, "<b", ">\n"}));
}

TEST(Tokenizer, F061_MatchesAddedTokensInTheRawTextBeforeSpacesAreReplaced) {
    Json file = small_file();
    const int id = static_cast<int>(small_tokens().size());
    file["added_tokens"].push_back(added_token(id, "a  b", false));
    EXPECT_EQ(parse(file).encode("xa  by").at(1), id);
}

TEST(Tokenizer, F063_KeepsAccentsAndEveryScript) {
    const Tokenizer tokenizer = parse(small_file());
    for (const std::string text :
         {"é", "ü", "中", "naïve café", "日本語", "Привет", "👨‍👩‍👧‍👦 e\u0301", "\u2028\ufeff\x7f"}) {
        EXPECT_EQ(round_trip(tokenizer, text), text);
    }
    EXPECT_EQ(tokens_of(tokenizer, "ï"), (Strings{"<0xC3>", "<0xAF>"}));
}

TEST(Tokenizer, F062_TokenisesAMillionBytesWithoutASpace) {
    const Tokenizer tokenizer = parse(small_file());
    std::string text;
    while (text.size() < 1'000'000) text += "hellow\u00f1";
    EXPECT_EQ(round_trip(tokenizer, text), text);
}

TEST(Tokenizer, CannotTellTheSpaceMarkFromASpaceAsInTheReference) {
    const Tokenizer tokenizer = parse(small_file());
    EXPECT_EQ(tokenizer.encode("a" + kSpace + "b"), tokenizer.encode("a b"));
    EXPECT_EQ(round_trip(tokenizer, "a" + kSpace + "b"), "a b");
}

TEST(Tokenizer, ReadsEachIllFormedStretchAsOneReplacementCharacter) {
    const Tokenizer tokenizer = parse(small_file());
    for (const std::string broken : {"a\xff", "a\xc3", "a\xe2\x82", "a\xf0\x9f\x98", "a\xed"}) {
        EXPECT_EQ(round_trip(tokenizer, broken), "a\ufffd");
    }
    EXPECT_EQ(round_trip(tokenizer, std::string("\0a\xc0\xaf", 4)), std::string("\0a\ufffd\ufffd", 8));
}

TEST(Tokenizer, ReadsMergesInTheOldStringForm) {
    Json file = small_file();
    Json strings = Json::array({"#version: 0.2"});
    for (const Json& pair : file["model"]["merges"])
        strings.push_back(pair[0].get<std::string>() + " " + pair[1].get<std::string>());
    file["model"]["merges"] = strings;
    EXPECT_EQ(tokens_of(parse(file), "hello world"), (Strings{"hello", kSpace + "world"}));
}

TEST(Tokenizer, ReadsMergesInFrontOfTheVocabulary) {
    Json file = small_file();
    Json model = Json::object();
    model["merges"] = file["model"]["merges"];
    model.update(file["model"]);
    file["model"] = model;
    EXPECT_EQ(tokens_of(parse(file), "hello"), (Strings{"hello"}));
}

TEST(Tokenizer, AllowsHolesBetweenIds) {
    Json file = small_file();
    Json moved = Json::object();
    for (const auto& [token, id] : file["model"]["vocab"].items()) moved[token] = id.get<int>() * 3 + 1;
    file["model"]["vocab"] = moved;
    for (Json& token : file["added_tokens"]) token["id"] = token["id"].get<int>() * 3 + 1;
    const Tokenizer tokenizer = parse(file);
    EXPECT_EQ(tokens_of(tokenizer, "<bos>hello"), (Strings{"<bos>", "hello"}));
    EXPECT_EQ(tokenizer.vocab_size(), static_cast<int32_t>(3 * (small_tokens().size() - 1) + 2));
    EXPECT_EQ(tokenizer.token(0), "");
    EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{0, 2}, false), "");
}

TEST(Tokenizer, KnowsItsTokens) {
    const Tokenizer tokenizer = parse(small_file(), {{"bos_token", {{"content", "<bos>"}}}, {"eos_token", "<eos>"}});
    EXPECT_EQ(tokenizer.vocab_size(), static_cast<int32_t>(small_tokens().size()));
    EXPECT_EQ(tokenizer.id_of("<|turn>"), 5);
    EXPECT_EQ(tokenizer.id_of("no such token"), std::nullopt);
    EXPECT_EQ(tokenizer.token(5), "<|turn>");
    EXPECT_EQ(tokenizer.bos_id(), 2);
    EXPECT_EQ(tokenizer.eos_id(), 1);
    EXPECT_EQ(parse(small_file()).bos_id(), std::nullopt);
    EXPECT_TRUE(tokenizer.is_control(5));
    EXPECT_FALSE(tokenizer.is_control(*tokenizer.id_of("hello")));
    EXPECT_FALSE(tokenizer.is_control(-1));
}

TEST(Tokenizer, LoadsAFolderWithOrWithoutConfig) {
    const gemmatrace::testing::TemporaryFolder folder;
    std::ofstream(folder / "tokenizer.json") << small_file().dump();
    EXPECT_EQ(Tokenizer::load(folder.path()).bos_id(), std::nullopt);
    std::ofstream(folder / "tokenizer_config.json") << R"({"bos_token": "<bos>"})";
    EXPECT_EQ(Tokenizer::load(folder.path()).bos_id(), 2);
}

// One added token "<x>" with flags, behind the vocabulary.
Tokenizer with_flags(const std::string& content, const Json& flags,
                     const Json& normalizer = replace_step(" ", kSpace)) {
    Json file = gemma_file(small_tokens(), all_merges(small_tokens()));
    file["normalizer"] = normalizer;
    file["added_tokens"].push_back(added_token(static_cast<int>(small_tokens().size()), content, false));
    file["added_tokens"][0].update(flags);
    return parse(file);
}

TEST(AddedTokens, MatchTheLongestAtTheLeftmostPlace) {
    Json file = small_file();
    const int id = static_cast<int>(small_tokens().size());
    int next = id;
    for (const std::string content : {"ab", "abc", "bcd"})
        file["added_tokens"].push_back(added_token(next++, content, false));
    EXPECT_EQ(tokens_of(parse(file), "abcd"), (Strings{"abc", "d"}));
    EXPECT_EQ(tokens_of(parse(file), "bcdab"), (Strings{"bcd", "ab"}));
}

TEST(AddedTokens, StripWhiteSpaceOfEveryKindOnTheSideTheyName) {
    EXPECT_EQ(tokens_of(with_flags("<x>", {{"lstrip", true}}), "a \n\u3000<x> b"), (Strings{"a", "<x>", kSpace, "b"}));
    EXPECT_EQ(tokens_of(with_flags("<x>", {{"rstrip", true}}), "a <x> \t\u00a0b"), (Strings{"a", kSpace, "<x>", "b"}));
    EXPECT_EQ(tokens_of(with_flags("<x>", {{"lstrip", true}, {"rstrip", true}}), "<x> <x> "), (Strings{"<x>", "<x>"}));
}

TEST(AddedTokens, MatchWholeWordsOnlyWhenAsked) {
    const Tokenizer tokenizer = with_flags("yes", {{"single_word", true}});
    EXPECT_EQ(tokens_of(tokenizer, "yes,yes!"), (Strings{"yes", ",", "yes", "!"}));
    EXPECT_EQ(tokens_of(tokenizer, "yes"), (Strings{"yes"}));
    for (const std::string text : {"eyes", "yes1", "_yes", "yesé", "中yes", "yes\u0301"}) {
        const Strings tokens = tokens_of(tokenizer, text);
        EXPECT_EQ(std::count(tokens.begin(), tokens.end(), "yes"), 0) << text;
    }
}

TEST(AddedTokens, MatchBehindTheNormaliserWhenTheyAreNormalized) {
    // The token's text is normalised too, so it matches a space as well as the mark.
    const Tokenizer tokenizer = with_flags("a b", {{"normalized", true}});
    EXPECT_EQ(tokens_of(tokenizer, "xa by"), (Strings{"x", "a b", "y"}));
    EXPECT_EQ(tokens_of(tokenizer, "xa" + kSpace + "by"), (Strings{"x", "a b", "y"}));
    EXPECT_EQ(tokens_of(with_flags("a b", Json::object()), "a" + kSpace + "b"), (Strings{"a", kSpace, "b"}));
}

TEST(AddedTokens, AreLostWhereTheOneBeforeStripsThemAwayAsInTheReference) {
    EXPECT_EQ(tokens_of(with_flags("\t", {{"lstrip", true}, {"rstrip", true}}), "a\t\tb"), (Strings{"a", "\t", "b"}));
}

TEST(Normalizer, RunsTheStepsOfASequenceOnEachStretch) {
    const Json steps{{"type", "Sequence"},
                     {"normalizers", {{{"type", "Prepend"}, {"prepend", kSpace}}, replace_step(" ", kSpace)}}};
    EXPECT_EQ(tokens_of(with_flags("<x>", Json::object(), steps), "world<x>world"),
              (Strings{kSpace + "world", "<x>", kSpace + "world"}));
    EXPECT_TRUE(with_flags("<x>", Json::object(), steps).encode("").empty());
    EXPECT_EQ(tokens_of(with_flags("<x>", Json::object(), nullptr), "a"), (Strings{"a"}));
}

TEST(Normalizer, TakesARegexThatMeansItsOwnText) {
    const Json step{{"type", "Replace"}, {"pattern", {{"Regex", " "}}}, {"content", kSpace}};
    EXPECT_EQ(tokens_of(with_flags("<x>", Json::object(), step), "hello world"), (Strings{"hello", kSpace + "world"}));
}

// The stretches that a pre-tokeniser makes, seen through a model that takes each of these as one token.
Strings stretches(const Json& pre_tokenizer, const std::string& text) {
    Strings tokens{"<unk>"};
    for (size_t begin = 0; begin < text.size(); ++begin) {
        for (size_t length = 1; begin + length <= text.size(); ++length) {
            const std::string piece = text.substr(begin, length);
            if (std::find(tokens.begin(), tokens.end(), piece) == tokens.end()) tokens.push_back(piece);
        }
    }
    Json file = gemma_file(tokens, Json::array());
    file["normalizer"] = nullptr;
    file["model"]["byte_fallback"] = false;
    file["model"]["ignore_merges"] = true;
    file["pre_tokenizer"] = pre_tokenizer;
    return tokens_of(parse(file), text);
}

Json split_step(const std::string& behavior, bool is_inverted = false) {
    return {{"type", "Split"}, {"pattern", {{"String", "-"}}}, {"behavior", behavior}, {"invert", is_inverted}};
}

TEST(PreTokenizer, SplitsWithEveryBehaviour) {
    const std::string text = "the-final--countdown";
    EXPECT_EQ(stretches(split_step("Removed"), text), (Strings{"the", "final", "countdown"}));
    EXPECT_EQ(stretches(split_step("Isolated"), text), (Strings{"the", "-", "final", "-", "-", "countdown"}));
    EXPECT_EQ(stretches(split_step("MergedWithPrevious"), text), (Strings{"the-", "final-", "-", "countdown"}));
    EXPECT_EQ(stretches(split_step("MergedWithNext"), text), (Strings{"the", "-final", "-", "-countdown"}));
    EXPECT_EQ(stretches(split_step("Contiguous"), text), (Strings{"the", "-", "final", "--", "countdown"}));
    EXPECT_EQ(stretches(split_step("Removed", true), text), (Strings{"-", "-", "-"}));
    EXPECT_EQ(stretches(nullptr, text), (Strings{text}));
    EXPECT_EQ(
        stretches({{"type", "Sequence"}, {"pretokenizers", {split_step("Removed"), split_step("Isolated")}}}, "a-b"),
        (Strings{"a", "b"}));
}

TEST(PreTokenizer, MarksSpacesAsMetaspaceDoes) {
    const auto split = [](const std::string& scheme, const std::string& text) {
        Json file = gemma_file(small_tokens(), all_merges(small_tokens()));
        file["normalizer"] = nullptr;
        file["pre_tokenizer"] = {
            {"type", "Metaspace"}, {"replacement", kSpace}, {"prepend_scheme", scheme}, {"split", true}};
        file["added_tokens"].push_back(added_token(2, "<bos>"));
        return tokens_of(parse(file), text);
    };
    const std::string world = kSpace + "world";
    EXPECT_EQ(split("always", "world world<bos>world"), (Strings{world, world, "<bos>", world}));
    EXPECT_EQ(split("first", "world<bos>world").front(), world);
    EXPECT_EQ(split("first", "world<bos>world").back(), "orld");
    EXPECT_EQ(split("never", "world world").back(), world);
    EXPECT_EQ(split("never", "world").front(), "w");
}

}  // namespace
}  // namespace gemmatrace::text::testing
