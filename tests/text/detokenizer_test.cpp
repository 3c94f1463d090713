// Ids back to text: the same bytes whether they come at once or one by one.
#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "base/utf8.h"
#include "support/expect_error.h"
#include "text/tokenizer_fixture.h"

namespace gemmatrace::text::testing {
namespace {

// The text that comes after each id, and last what finish() gives.
Strings streamed(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool skip_special = false) {
    StreamingDetokenizer detokenizer(tokenizer, skip_special);
    Strings parts;
    for (const int32_t id : ids) parts.push_back(detokenizer.push(id));
    parts.push_back(detokenizer.finish());
    return parts;
}

std::string joined(const Strings& parts) {
    std::string text;
    for (const std::string& part : parts) text += part;
    return text;
}

std::vector<int32_t> ids_of(const Tokenizer& tokenizer, const Strings& tokens) {
    std::vector<int32_t> ids;
    for (const std::string& token : tokens) ids.push_back(tokenizer.id_of(token).value());
    return ids;
}

Tokenizer with_decoder(const Json& decoder) {
    Json file = small_file();
    file["decoder"] = decoder;
    return parse(file);
}

Json sequence(const std::vector<Json>& steps) { return {{"type", "Sequence"}, {"decoders", steps}}; }
Json strip_step(const std::string& content, int start, int stop) {
    return {{"type", "Strip"}, {"content", content}, {"start", start}, {"stop", stop}};
}
const Json kFuse{{"type", "Fuse"}};
const Json kByteFallback{{"type", "ByteFallback"}};

std::string decoded(const Json& decoder, const Strings& tokens) {
    const Tokenizer tokenizer = with_decoder(decoder);
    return tokenizer.decode(ids_of(tokenizer, tokens), false);
}

TEST(Detokenizer, F066_MapsTheSpaceMarkBack) {
    const Tokenizer tokenizer = parse(small_file());
    EXPECT_EQ(round_trip(tokenizer, "hello  world   x"), "hello  world   x");
    for (const Strings& parts : {streamed(tokenizer, tokenizer.encode(" hello world  "))}) {
        EXPECT_EQ(joined(parts).find(kSpace), std::string::npos);
    }
}

TEST(Detokenizer, ShowsATokenAtOnce) {
    const Tokenizer tokenizer = parse(small_file());
    EXPECT_EQ(streamed(tokenizer, ids_of(tokenizer, {"hello", kSpace + "world"})), (Strings{"hello", " world", ""}));
}

TEST(Detokenizer, F064_HoldsAnIncompleteCharacterAndGivesItUpOnceAtTheEnd) {
    const Tokenizer tokenizer = parse(small_file());
    EXPECT_EQ(streamed(tokenizer, ids_of(tokenizer, {"a", "<0xE2>", "<0x98>", "<0x83>", "b"})),
              (Strings{"a", "", "", "", "☃b", ""}));
    EXPECT_EQ(streamed(tokenizer, ids_of(tokenizer, {"a", "<0xE2>", "<0x98>"})),
              (Strings{"a", "", "", "\ufffd\ufffd"}));
    EXPECT_EQ(streamed(tokenizer, ids_of(tokenizer, {"<0xE2>", "<0x98>", "b"})),
              (Strings{"", "", "\ufffd\ufffdb", ""}));
}

TEST(Detokenizer, F064_SpoilsAWholeRunOfBytesForOneWrongByteAsTheReferenceDoes) {
    const Tokenizer tokenizer = parse(small_file());
    EXPECT_EQ(tokenizer.decode(ids_of(tokenizer, {"<0xC3>", "<0xA9>", "<0xFF>"}), false), "\ufffd\ufffd\ufffd");
    EXPECT_EQ(tokenizer.decode(ids_of(tokenizer, {"<0xC3>", "<0xA9>", "a", "<0xFF>"}), false), "éa\ufffd");
}

TEST(Detokenizer, F065_KeepsSequencesApart) {
    const Tokenizer tokenizer = parse(small_file());
    const std::vector<int32_t> first = tokenizer.encode("☃ naïve 日本");
    const std::vector<int32_t> second = tokenizer.encode("日本 ☃ ü");
    StreamingDetokenizer first_stream(tokenizer, false);
    StreamingDetokenizer second_stream(tokenizer, false);
    std::string first_text;
    std::string second_text;
    for (size_t at = 0; at < std::max(first.size(), second.size()); ++at) {
        if (at < first.size()) first_text += first_stream.push(first[at]);
        if (at < second.size()) second_text += second_stream.push(second[at]);
    }
    EXPECT_EQ(first_text + first_stream.finish(), "☃ naïve 日本");
    EXPECT_EQ(second_text + second_stream.finish(), "日本 ☃ ü");
}

TEST(Detokenizer, CanBeCopiedInTheMiddleOfACharacter) {
    const Tokenizer tokenizer = parse(small_file());
    StreamingDetokenizer stream(tokenizer, false);
    stream.push(*tokenizer.id_of("<0xC3>"));
    StreamingDetokenizer fork = stream;
    EXPECT_EQ(joined({stream.push(*tokenizer.id_of("<0xA9>")), stream.finish()}), "é");
    EXPECT_EQ(fork.finish(), "\ufffd");
}

TEST(Detokenizer, KeepsControlTokensUnlessTheyAreSkipped) {
    const Tokenizer tokenizer = parse(small_file());
    const std::vector<int32_t> ids = ids_of(tokenizer, {"<bos>", "<|turn>", "hello", "<turn|>"});
    EXPECT_EQ(tokenizer.decode(ids, false), "<bos><|turn>hello<turn|>");
    EXPECT_EQ(tokenizer.decode(ids, true), "hello");
}

TEST(Detokenizer, JoinsBytesAcrossASkippedControlTokenAsTheReferenceDoes) {
    const Tokenizer tokenizer = parse(small_file());
    const std::vector<int32_t> ids = ids_of(tokenizer, {"<0xC3>", "<eos>", "<0xA9>"});
    EXPECT_EQ(tokenizer.decode(ids, true), "é");
    EXPECT_EQ(tokenizer.decode(ids, false), "\ufffd<eos>\ufffd");
}

TEST(Detokenizer, RefusesIdsOutOfRange) {
    const Tokenizer tokenizer = parse(small_file());
    for (const int32_t id : {-1, tokenizer.vocab_size(), std::numeric_limits<int32_t>::max()}) {
        gemmatrace::testing::expect_error(ErrorCode::bad_request, {"id=" + std::to_string(id)},
                                          [&] { tokenizer.decode(std::vector<int32_t>{id}, false); });
    }
}

TEST(Detokenizer, JoinsWithSpacesWhenTheFileHasNoDecoder) {
    EXPECT_EQ(decoded(nullptr, {"he", "ll", "<0x0A>"}), "he ll <0x0A>");
    EXPECT_EQ(decoded(sequence({}), {"he", "ll"}), "hell");
}

TEST(Detokenizer, ReadsByteTokensOnlyThroughByteFallback) {
    EXPECT_EQ(decoded(kByteFallback, {"<0x41>", "<0x0A>", "b"}), "A\nb");
    EXPECT_EQ(decoded(kFuse, {"<0x41>", "b"}), "<0x41>b");
}

TEST(Detokenizer, StripsEachTokenOrTheWholeTextByThePlaceOfTheStep) {
    EXPECT_EQ(decoded(sequence({strip_step("l", 1, 0)}), {"ll", "he", "ld"}), "lhed");
    EXPECT_EQ(decoded(sequence({kFuse, strip_step("l", 2, 0)}), {"ll", "ll", "he"}), "llhe");
    EXPECT_EQ(decoded(sequence({kFuse, strip_step("l", 0, 3)}), {"he", "ll", "ll"}), "hel");
    EXPECT_EQ(decoded(sequence({kFuse, strip_step("l", 9, 9)}), {"ll", "ll"}), "");
}

TEST(Detokenizer, StripsTheFirstSpaceAsLlamaFilesAsk) {
    const Tokenizer tokenizer =
        with_decoder(sequence({replace_step(kSpace, " "), kByteFallback, kFuse, strip_step(" ", 1, 0)}));
    const std::vector<int32_t> ids = ids_of(tokenizer, {kSpace + "world", kSpace + "world"});
    EXPECT_EQ(streamed(tokenizer, ids), (Strings{"world", " world", ""}));
}

TEST(Detokenizer, HoldsWhatAStripAtTheEndMayTake) {
    const Tokenizer tokenizer = with_decoder(sequence({kFuse, strip_step("l", 0, 1)}));
    EXPECT_EQ(streamed(tokenizer, ids_of(tokenizer, {"he", "ll", "ll", "he"})), (Strings{"he", "l", "ll", "lhe", ""}));
    EXPECT_EQ(streamed(tokenizer, ids_of(tokenizer, {"hell"})), (Strings{"hel", ""}));
}

TEST(Detokenizer, ReplacesAcrossTokensOnlyBehindFuse) {
    EXPECT_EQ(decoded(sequence({replace_step("el", "X"), kFuse}), {"he", "ll"}), "hell");
    const Tokenizer tokenizer = with_decoder(sequence({kFuse, replace_step("ell", "X")}));
    EXPECT_EQ(streamed(tokenizer, ids_of(tokenizer, {"he", "ll", "o", "he"})), (Strings{"h", "X", "o", "h", "e"}));
}

TEST(Detokenizer, DropsTheFirstMarkAsMetaspaceDoes) {
    const Json metaspace{{"type", "Metaspace"}, {"replacement", kSpace}, {"prepend_scheme", "always"}};
    EXPECT_EQ(decoded(metaspace, {kSpace + "world", kSpace + "world"}), "world world");
    Json never = metaspace;
    never["prepend_scheme"] = "never";
    EXPECT_EQ(decoded(never, {kSpace + "world", kSpace + "world"}), " world world");
}

TEST(Detokenizer, F064_SplitsTextAnywhereWithoutAReplacementCharacter) {
    const Tokenizer tokenizer = parse(small_file());
    std::mt19937 random(9);
    const Strings parts{"é", "日本語", "👨‍👩‍👧‍👦", "hello", " ", "\n\n", "ñ", "e\u0301", "🇩🇪"};
    for (int round = 0; round < 300; ++round) {
        std::string text;
        for (size_t count = random() % 9; count > 0; --count) text += parts[random() % parts.size()];
        const Strings stream = streamed(tokenizer, tokenizer.encode(text));
        EXPECT_EQ(joined(stream), text);
        for (const std::string& part : stream) EXPECT_EQ(part.find("\ufffd"), std::string::npos);
    }
}

// A plain reading of the reference's decoder for Gemma's three steps.
std::string reference_text(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
    std::string text;
    std::string bytes;
    const auto flush = [&] {
        if (is_valid_utf8(bytes)) {
            text += bytes;
        } else {
            for (size_t count = 0; count < bytes.size(); ++count) text += "\ufffd";
        }
        bytes.clear();
    };
    for (const int32_t id : ids) {
        std::string token = tokenizer.token(id);
        if (token.size() == 6 && token.starts_with("<0x")) {
            bytes.push_back(static_cast<char>(std::stoi(token.substr(3, 2), nullptr, 16)));
            continue;
        }
        flush();
        for (size_t at = token.find(kSpace); at != std::string::npos; at = token.find(kSpace))
            token.replace(at, 3, " ");
        text += token;
    }
    flush();
    return text;
}

TEST(Detokenizer, StreamsAndDecodesAnyIdsAsTheReferenceDoes) {
    const Tokenizer tokenizer = parse(small_file());
    std::mt19937 random(13);
    const int32_t first_byte = tokenizer.id_of("<0x00>").value();
    for (int round = 0; round < 2000; ++round) {
        std::vector<int32_t> ids;
        for (size_t count = random() % 12; count > 0; --count) {
            ids.push_back(random() % 2 == 0
                              ? static_cast<int32_t>(random() % static_cast<uint32_t>(tokenizer.vocab_size()))
                              : first_byte + 0x80 + static_cast<int32_t>(random() % 0x80));
        }
        EXPECT_EQ(tokenizer.decode(ids, false), reference_text(tokenizer, ids));
        EXPECT_EQ(joined(streamed(tokenizer, ids)), tokenizer.decode(ids, false));
        EXPECT_EQ(joined(streamed(tokenizer, ids, true)), tokenizer.decode(ids, true));
    }
}

}  // namespace
}  // namespace gemmatrace::text::testing
