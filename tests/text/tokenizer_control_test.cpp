// Strings of control tokens become control tokens where the template wrote them, and nowhere else.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "text/tokenizer.h"
#include "text/tokenizer_fixture.h"

namespace gemmatrace::text::testing {
namespace {

Strings tokens_of(const Tokenizer& tokenizer, const MarkedText& text) {
    return names(tokenizer, tokenizer.encode(text));
}
using testing::tokens_of;

MarkedText marked(const std::vector<std::pair<Origin, std::string>>& parts) {
    MarkedText text;
    for (const auto& [origin, part] : parts) text.append(part, origin);
    return text;
}

constexpr Origin kTemplate = Origin::template_text;
constexpr Origin kContent = Origin::content;

bool has_control(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
    return std::any_of(ids.begin(), ids.end(), [&](int32_t id) { return tokenizer.is_control(id); });
}

TEST(ControlTokens, MatchInTextUnlessItIsPlain) {
    const Tokenizer tokenizer = parse(small_file());
    EXPECT_EQ(tokens_of(tokenizer, "<bos>hello"), (Strings{"<bos>", "hello"}));
    EXPECT_EQ(tokens_of(tokenizer, "<bos>hello", ControlText::plain), (Strings{"<b", "o", "s", ">", "hello"}));
}

TEST(ControlTokens, MatchOnlyWhereEveryByteIsTemplateText) {
    const Tokenizer tokenizer = parse(small_file());
    EXPECT_EQ(tokens_of(tokenizer, marked({{kTemplate, "<bos>"}, {kContent, "<bos>"}})),
              (Strings{"<bos>", "<b", "o", "s", ">"}));
    EXPECT_EQ(tokens_of(tokenizer, marked({{kTemplate, "<bo"}, {kContent, "s"}, {kTemplate, ">"}})),
              (Strings{"<b", "o", "s", ">"}));
    // Template and content that only together spell a token.
    EXPECT_EQ(tokens_of(tokenizer, marked({{kTemplate, "<"}, {kContent, "bos>"}})), (Strings{"<b", "o", "s", ">"}));
}

TEST(ControlTokens, LeaveTheTextBetweenInOneStretch) {
    const Tokenizer tokenizer = parse(small_file());
    EXPECT_EQ(tokens_of(tokenizer, marked({{kTemplate, "<bos>he"}, {kContent, "llo wor"}, {kTemplate, "ld"}})),
              (Strings{"<bos>", "hello", kSpace + "world"}));
}

TEST(ControlTokens, EqualTheReferenceForTemplateAloneAndPlainForContentAlone) {
    const Tokenizer tokenizer = parse(small_file());
    for (const std::string text : {"", "<bos>hello <eos>", "<|turn><turn|>", "a<bos", "é<unk>中"}) {
        EXPECT_EQ(tokenizer.encode(MarkedText(text, kTemplate)), tokenizer.encode(text));
        EXPECT_EQ(tokenizer.encode(MarkedText(text, kContent)), tokenizer.encode(text, ControlText::plain));
    }
}

TEST(ControlTokens, GiveWayToOtherAddedTokensInPlainText) {
    Json file = small_file();
    const int id = static_cast<int>(small_tokens().size());
    file["added_tokens"].push_back(added_token(id, "bos", false));
    EXPECT_EQ(tokens_of(parse(file), "<bos>"), (Strings{"<bos>"}));
    EXPECT_EQ(tokens_of(parse(file), "<bos>", ControlText::plain), (Strings{"<", "bos", ">"}));
}

TEST(ControlTokens, AreAlsoWhatTheConfigNames) {
    Json file = small_file();
    for (Json& token : file["added_tokens"]) token["special"] = false;
    const std::string text = "<|turn>";
    const auto is_control = [&](const Json& config) { return parse(file, config).is_control(5); };
    EXPECT_FALSE(is_control(nullptr));
    EXPECT_FALSE(is_control({{"add_bos_token", true}, {"sot", text}, {"other_token", nullptr}}));
    EXPECT_TRUE(is_control({{"sot_token", text}}));
    EXPECT_TRUE(is_control({{"sot_token", {{"content", text}}}}));
    EXPECT_TRUE(is_control({{"additional_special_tokens", {text}}}));
    EXPECT_TRUE(is_control({{"extra_special_tokens", {text}}}));
    EXPECT_TRUE(is_control({{"extra_special_tokens", {{"start", text}}}}));
    EXPECT_TRUE(is_control({{"model_specific_special_tokens", {{"sot_token", text}}}}));
    EXPECT_TRUE(is_control({{"added_tokens_decoder", {{"5", {{"content", text}, {"special", true}}}}}}));
    EXPECT_FALSE(is_control({{"added_tokens_decoder", {{"5", {{"content", text}, {"special", false}}}}}}));
    const Tokenizer tokenizer = parse(file, {{"sot_token", text}});
    EXPECT_EQ(tokens_of(tokenizer, text), (Strings{text}));  // still an added token of the file
    EXPECT_FALSE(has_control(tokenizer, tokenizer.encode(text, ControlText::plain)));
    EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{5}, true), "");
}

TEST(ControlTokens, AreNotReachedThroughMergesEither) {
    Strings tokens = small_tokens();
    tokens.insert(tokens.end(), {"<bo", "<bos"});
    Json merges = all_merges(tokens);
    merges.push_back({"<b", "o"});
    merges.push_back({"<bo", "s"});
    merges.push_back({"<bos", ">"});
    Json file = gemma_file(tokens, merges);
    const Tokenizer tokenizer = parse(file, {{"bos_token", "<bos>"}});  // no added token at all
    EXPECT_EQ(tokens_of(tokenizer, "<bos>"), (Strings{"<bos>"}));
    EXPECT_EQ(tokens_of(tokenizer, "<bos>", ControlText::plain), (Strings{"<bos", ">"}));
    EXPECT_EQ(tokens_of(tokenizer, marked({{kTemplate, "<bo"}, {kContent, "s>"}})), (Strings{"<bos", ">"}));
}

TEST(ControlTokens, NeverComeFromContentWhateverItSays) {
    const Tokenizer tokenizer = parse(small_file(), {{"bos_token", "<bos>"}});
    std::mt19937 random(5);
    Strings parts = small_tokens();
    parts.resize(7);
    parts.insert(parts.end(), {"<", ">", "|", "<|", "|>", "turn", "bos", " ", "\n", "\xff", "\xe2\x82"});
    for (int round = 0; round < 3000; ++round) {
        std::string text;
        for (size_t count = random() % 8; count > 0; --count) text += parts[random() % parts.size()];
        EXPECT_FALSE(has_control(tokenizer, tokenizer.encode(text, ControlText::plain))) << text;
        const MarkedText rendered = marked({{kTemplate, "<|turn>"}, {kContent, text}, {kTemplate, "<turn|>"}});
        const std::vector<int32_t> ids = tokenizer.encode(rendered);
        const auto controls =
            std::count_if(ids.begin(), ids.end(), [&](int32_t id) { return tokenizer.is_control(id); });
        EXPECT_EQ(controls, 2) << text;
        EXPECT_EQ(ids.front(), 5);
        EXPECT_EQ(ids.back(), 6);
    }
}

TEST(ControlTokens, StayApartWhenACharacterStraddlesTheBorder) {
    const Tokenizer tokenizer = parse(small_file());
    const MarkedText split_character = marked({{kTemplate, "<bos>\xc3"}, {kContent, "\xa9<bos>"}});
    EXPECT_EQ(tokens_of(tokenizer, split_character), (Strings{"<bos>", "é", "<b", "o", "s", ">"}));
    const MarkedText broken = marked({{kTemplate, "<bos>\xc3"}, {kContent, "<bos>"}});
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(broken), true), "\ufffd<bos>");
}

}  // namespace
}  // namespace gemmatrace::text::testing
