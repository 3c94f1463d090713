// A tokenizer.json that is absent, damaged or not understood ends in one clear error that names the field.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "text/tokenizer.h"
#include "text/tokenizer_fixture.h"

namespace gemmatrace::text::testing {
namespace {

using gemmatrace::testing::expect_error;
using gemmatrace::testing::thrown_error;

// The small file with one thing changed must be refused with this code and these words.
void expect_refused(ErrorCode code, const Strings& fragments, const std::function<void(Json&)>& change) {
    Json file = small_file();
    change(file);
    expect_error(code, fragments, [&] { parse(file); });
}

void expect_unsupported(const Strings& fragments, const std::function<void(Json&)>& change) {
    expect_refused(ErrorCode::unsupported, fragments, change);
}

void expect_corrupt(const Strings& fragments, const std::function<void(Json&)>& change) {
    expect_refused(ErrorCode::corrupt, fragments, change);
}

void expect_text_corrupt(const Strings& fragments, const std::string& text) {
    expect_error(ErrorCode::corrupt, fragments, [&] { Tokenizer::parse(text, ""); });
}

TEST(TokenizerRefusal, F001_AbsentFile) {
    const gemmatrace::testing::TemporaryFolder folder;
    expect_error(ErrorCode::not_found, {"tokenizer.json"}, [&] { Tokenizer::load(folder.path()); });
    expect_error(ErrorCode::not_found, {"tokenizer.json"}, [&] { Tokenizer::load(folder / "missing"); });
}

TEST(TokenizerRefusal, F001_EmptyFile) {
    const gemmatrace::testing::TemporaryFolder folder;
    std::ofstream(folder / "tokenizer.json").close();
    expect_error(ErrorCode::corrupt, {"empty", "tokenizer.json", folder.path().string()},
                 [&] { Tokenizer::load(folder.path()); });
    expect_text_corrupt({"empty"}, " \n");
}

TEST(TokenizerRefusal, F001_EmptyVocabulary) {
    expect_corrupt({"vocabulary is empty", "model.vocab"}, [](Json& file) {
        file["model"]["vocab"] = Json::object();
        file["model"]["merges"] = Json::array();
    });
}

TEST(TokenizerRefusal, F001_FileCutAtAnyByte) {
    const std::string text = small_file().dump();
    for (size_t length = 0; length < text.size(); length += length < 3000 ? 1 : 37) {
        const auto error = thrown_error([&] { Tokenizer::parse(std::string_view(text).substr(0, length), ""); });
        ASSERT_TRUE(error.has_value()) << length;
        ASSERT_EQ(error->code(), ErrorCode::corrupt) << error->what();
    }
}

TEST(TokenizerRefusal, WhatIsNoJsonOrNoObject) {
    expect_text_corrupt({"not valid JSON", "byte="}, "{\"version\" 1}");
    expect_text_corrupt({"not a JSON object"}, "[]");
    expect_text_corrupt({"not a JSON object"}, "3");
    expect_text_corrupt({"nested deeper"}, std::string(100, '['));
    expect_text_corrupt({"there twice", "version"}, R"({"version": "1.0", "version": "1.0"})");
    expect_text_corrupt({"not valid JSON"}, small_file().dump() + "x");
}

TEST(TokenizerRefusal, ModelsOtherThanBpe) {
    for (const std::string type : {"Unigram", "WordPiece", "WordLevel"}) {
        expect_unsupported({"model.type", type}, [&](Json& file) { file["model"]["type"] = type; });
    }
    expect_unsupported({"model.type", "Unigram"}, [](Json& file) {
        file["model"] = Json::parse(R"({"type": "Unigram", "unk_id": 0, "vocab": [["a", -1.0], ["b", -2.0]]})");
    });
}

TEST(TokenizerRefusal, ModelSettingsThatWouldChangeIds) {
    expect_unsupported({"model.dropout"}, [](Json& file) { file["model"]["dropout"] = 0.1; });
    expect_unsupported({"model.continuing_subword_prefix"},
                       [](Json& file) { file["model"]["continuing_subword_prefix"] = "##"; });
    expect_unsupported({"model.end_of_word_suffix"}, [](Json& file) { file["model"]["end_of_word_suffix"] = "</w>"; });
    expect_unsupported({"model.new_setting"}, [](Json& file) { file["model"]["new_setting"] = true; });
    expect_corrupt({"model.fuse_unk"}, [](Json& file) { file["model"]["fuse_unk"] = "yes"; });
    Json harmless = small_file();
    harmless["model"].update({{"dropout", 0.0}, {"continuing_subword_prefix", ""}, {"end_of_word_suffix", ""}});
    harmless["model"].erase("type");
    EXPECT_NO_THROW(parse(harmless));
}

TEST(TokenizerRefusal, VocabulariesThatContradictThemselves) {
    expect_corrupt({"two tokens have the id 7"}, [](Json& file) { file["model"]["vocab"]["new"] = 7; });
    expect_corrupt({"not a whole number", "new"}, [](Json& file) { file["model"]["vocab"]["new"] = "7"; });
    expect_corrupt({"not a whole number", "new"}, [](Json& file) { file["model"]["vocab"]["new"] = -1; });
    expect_corrupt({"not a whole number", "new"}, [](Json& file) { file["model"]["vocab"]["new"] = Json::array({1}); });
    expect_corrupt({"above the", "new"}, [](Json& file) { file["model"]["vocab"]["new"] = int64_t{1} << 40; });
    expect_corrupt({"model.vocab", "missing"}, [](Json& file) { file["model"].erase("vocab"); });
    expect_corrupt({"model", "missing"}, [](Json& file) { file.erase("model"); });
    expect_text_corrupt({"there twice", "ids 0 and 1"}, R"({"model": {"vocab": {"a": 0, "a": 1}}})");
    expect_text_corrupt({"there twice", "vocab"}, R"({"model": {"vocab": {"a": 0}, "vocab": {"b": 1}}})");
}

TEST(TokenizerRefusal, MergesThatAreNoPairs) {
    const auto with = [](const std::string& merges) {
        return [merges](Json& file) { file["model"]["merges"] = Json::parse(merges); };
    };
    expect_corrupt({"model.merges", "missing"}, [](Json& file) { file["model"].erase("merges"); });
    expect_corrupt({"model.merges"}, with(R"("a b")"));
    expect_corrupt({"model.merges"}, with(R"({"a": "b"})"));
    expect_corrupt({"model.merges"}, with(R"([["h", 1]])"));
    expect_corrupt({"model.merges"}, with(R"([{"h": "e"}])"));
    expect_corrupt({"fewer than two"}, with(R"([["h"]])"));
    expect_corrupt({"more than two"}, with(R"([["h", "e", "l"]])"));
    expect_corrupt({"mix"}, with(R"([["h", "e"], "h e"])"));
    expect_corrupt({"two pieces"}, with(R"(["he"])"));
    expect_corrupt({"two pieces"}, with(R"(["h e l"])"));
    expect_corrupt({"not a string"}, with(R"([[["h"], "e"]])"));
    expect_corrupt({"lacks", "token=hh"}, with(R"([["h", "e"], ["h", "h"]])"));
}

TEST(TokenizerRefusal, NormalizersThatAreNotUnderstood) {
    const auto with = [](const Json& step) { return [step](Json& file) { file["normalizer"] = step; }; };
    for (const std::string type : {"NFC", "NFKC", "Lowercase", "Strip", "ByteLevel", "Precompiled", "BertNormalizer"}) {
        expect_unsupported({"normalizer.type", type}, with({{"type", type}}));
    }
    expect_unsupported(
        {"normalizer.normalizers[1].type", "NFC"},
        with({{"type", "Sequence"}, {"normalizers", Json::array({replace_step(" ", kSpace), Json{{"type", "NFC"}}})}}));
    expect_unsupported({"normalizer.pattern.Regex"},
                       with({{"type", "Replace"}, {"pattern", {{"Regex", "\\s+"}}}, {"content", " "}}));
    expect_unsupported({"normalizer.pattern", "empty"}, with(replace_step("", "x")));
    expect_unsupported({"normalizer", "times as long"}, with(replace_step("a", std::string(100, 'b'))));
    expect_unsupported({"normalizer.mode"}, with({{"type", "Prepend"}, {"prepend", "x"}, {"mode", 1}}));
    expect_corrupt({"normalizer.content", "missing"}, with({{"type", "Replace"}, {"pattern", {{"String", " "}}}}));
    expect_corrupt({"normalizer", "not an object"}, with("NFC"));
}

TEST(TokenizerRefusal, SequencesWithoutEnd) {
    Json nested = replace_step(" ", kSpace);
    for (int depth = 0; depth < 20; ++depth) nested = {{"type", "Sequence"}, {"normalizers", Json::array({nested})}};
    Json file = small_file();
    file["normalizer"] = nested;
    EXPECT_NO_THROW(parse(file));
    expect_unsupported({"more than 64 steps"}, [](Json& json) {
        json["normalizer"] = {{"type", "Sequence"}, {"normalizers", Json(100, replace_step(" ", " "))}};
    });
}

TEST(TokenizerRefusal, PreTokenizersThatAreNotUnderstood) {
    const auto with = [](const Json& step) { return [step](Json& file) { file["pre_tokenizer"] = step; }; };
    for (const std::string type :
         {"ByteLevel", "Whitespace", "WhitespaceSplit", "Digits", "Punctuation", "BertPreTokenizer"}) {
        expect_unsupported({"pre_tokenizer.type", type}, with({{"type", type}}));
    }
    const Json split{{"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "Isolated"}, {"invert", false}};
    Json regex = split;
    regex["pattern"] = {{"Regex", "[0-9]"}};
    expect_unsupported({"pre_tokenizer.pattern.Regex"}, with(regex));
    Json behavior = split;
    behavior["behavior"] = "Merged";
    expect_corrupt({"pre_tokenizer.behavior"}, with(behavior));
    Json metaspace{{"type", "Metaspace"}, {"replacement", kSpace}, {"prepend_scheme", "first"}};
    expect_unsupported({"pre_tokenizer.prepend_scheme"}, with(metaspace));  // behind a normaliser
    metaspace["replacement"] = "ab";
    expect_corrupt({"pre_tokenizer.replacement"}, with(metaspace));
    expect_corrupt({"pre_tokenizer.add_prefix_space", "contradicts"},
                   with({{"type", "Metaspace"}, {"replacement", "_"}, {"add_prefix_space", false}}));
}

TEST(TokenizerRefusal, DecodersThatAreNotUnderstood) {
    const auto with = [](const Json& step) { return [step](Json& file) { file["decoder"] = step; }; };
    for (const std::string type : {"ByteLevel", "WordPiece", "BPEDecoder", "CTC"}) {
        expect_unsupported({"decoder.type", type}, with({{"type", type}}));
    }
    expect_unsupported({"decoder.decoders[1].type", "Fuse"},
                       with({{"type", "Sequence"},
                             {"decoders", Json::array({Json{{"type", "Fuse"}}, Json{{"type", "ByteFallback"}}})}}));
    expect_corrupt({"decoder.content"}, with({{"type", "Strip"}, {"content", "  "}, {"start", 1}, {"stop", 0}}));
    expect_corrupt({"decoder.start"}, with({{"type", "Strip"}, {"content", " "}, {"start", -1}, {"stop", 0}}));
}

TEST(TokenizerRefusal, PostProcessorsThatDoMoreThanAddSpecialTokens) {
    expect_unsupported({"post_processor.type", "ByteLevel"}, [](Json& file) {
        file["post_processor"] = {{"type", "ByteLevel"}, {"trim_offsets", true}};
    });
    Json file = small_file();
    file["post_processor"] = {{"type", "TemplateProcessing"}, {"single", Json::array()}};
    EXPECT_EQ(tokens_of(parse(file), "hello"), (Strings{"hello"}));
}

TEST(TokenizerRefusal, FilesThatCutOrPadTexts) {
    expect_unsupported({"truncation"}, [](Json& file) { file["truncation"] = {{"max_length", 5}}; });
    expect_unsupported({"padding"}, [](Json& file) { file["padding"] = {{"strategy", {{"Fixed", 5}}}}; });
    Json file = small_file();
    file["padding"] = {{"strategy", "BatchLongest"}, {"pad_to_multiple_of", nullptr}};
    EXPECT_NO_THROW(parse(file));
}

TEST(TokenizerRefusal, AddedTokensThatContradictTheVocabulary) {
    const auto with = [](const Json& token) { return [token](Json& file) { file["added_tokens"].push_back(token); }; };
    const int next = static_cast<int>(small_tokens().size());
    expect_corrupt({"added_tokens[7].id", "hello"}, with(added_token(9, "hello")));
    expect_corrupt({"added_tokens[7].id", "would give it " + std::to_string(next)},
                   with(added_token(next + 5, "<new>")));
    expect_corrupt({"added_tokens[7]", "twice"}, with(added_token(2, "<bos>")));
    expect_corrupt({"added_tokens[7].content", "empty"}, with(added_token(next, "")));
    Json incomplete = added_token(next, "<new>");
    incomplete.erase("lstrip");
    expect_corrupt({"added_tokens[7].lstrip", "missing"}, with(incomplete));
    expect_unsupported({"added_tokens", "4096"}, with(added_token(next, std::string(5000, 'x'))));
    expect_corrupt({"added_tokens"}, [](Json& file) { file["added_tokens"] = Json::object(); });
    EXPECT_NO_THROW(parse(small_file()));
}

TEST(TokenizerRefusal, AnAddedTokenThatTheNormaliserEmpties) {
    expect_unsupported({"empty text"}, [](Json& file) {
        file["normalizer"] = replace_step("z", "");
        Json token = added_token(static_cast<int>(small_tokens().size()), "zz", false);
        token["normalized"] = true;
        file["added_tokens"].push_back(token);
    });
}

TEST(TokenizerRefusal, UnknownFieldsAndVersions) {
    expect_unsupported({"new_part"}, [](Json& file) { file["new_part"] = 1; });
    expect_unsupported({"version"}, [](Json& file) { file["version"] = "2.0"; });
}

TEST(TokenizerRefusal, AConfigThatIsNoObject) {
    expect_error(ErrorCode::corrupt, {"tokenizer_config.json"}, [] { Tokenizer::parse(small_file().dump(), "[]"); });
    expect_error(ErrorCode::corrupt, {"tokenizer_config.json"}, [] { Tokenizer::parse(small_file().dump(), "{"); });
}

}  // namespace
}  // namespace gemmatrace::text::testing
