// UTF-8: every code point both ways, and ill-formed text cut into the stretches of the Unicode standard.
#include "base/utf8.h"

#include <gtest/gtest.h>

#include <vector>

namespace gemmatrace {
namespace {

constexpr const char* kReplacement = "\xef\xbf\xbd";

TEST(Utf8, EveryScalarSurvivesTheRoundTrip) {
    for (char32_t code_point = 0; code_point <= 0x10ffff; ++code_point) {
        if (code_point >= 0xd800 && code_point <= 0xdfff) continue;
        std::string text;
        append_utf8(text, code_point);
        const Utf8Step step = decode_utf8(text, 0);
        ASSERT_TRUE(step.is_valid) << static_cast<uint32_t>(code_point);
        ASSERT_EQ(step.code_point, code_point);
        ASSERT_EQ(static_cast<size_t>(step.length), text.size());
        ASSERT_EQ(text.size(), code_point < 0x80 ? 1U : code_point < 0x800 ? 2U : code_point < 0x10000 ? 3U : 4U);
        // Each beginning is recognised as cut, with one stretch for all of it.
        for (size_t length = 1; length < text.size(); ++length) {
            const Utf8Step cut = decode_utf8(std::string_view(text).substr(0, length), 0);
            ASSERT_TRUE(!cut.is_valid && cut.is_cut && static_cast<size_t>(cut.length) == length);
        }
    }
}

TEST(Utf8, WhatIsNoScalarIsWrittenAsTheReplacement) {
    for (const char32_t code_point : {char32_t{0xd800}, char32_t{0xdfff}, char32_t{0x110000}, char32_t{0xffffffff}}) {
        std::string text;
        append_utf8(text, code_point);
        EXPECT_EQ(text, kReplacement);
    }
}

// The examples of the standard's section 3.9 and what Python's errors="replace" makes of them.
TEST(Utf8, IllFormedTextIsReplacedByMaximalSubparts) {
    const std::string r = kReplacement;
    const std::vector<std::pair<std::string, std::string>> examples{
        {"a\x80z", "a" + r + "z"},                                      // a lone continuation
        {"\xc0\xaf", r + r},                                            // overlong '/': neither byte begins anything
        {"\xc1\xbf\xf5\xff\xfe", r + r + r + r + r},                    // bytes that never occur
        {"\xe0\x80\xaf", r + r + r},                                    // overlong in three bytes
        {"\xed\xa0\x80", r + r + r},                                    // a surrogate
        {"\xf4\x90\x80\x80", r + r + r + r},                            // above U+10FFFF
        {"\xf0\x9f\x98", r},                                            // cut at the end: one stretch
        {"\xf0\x9f\x98x", r + "x"},                                     // broken off by another character
        {"\xe2\x82\xe2\x82\xac", r + "\xe2\x82\xac"},                   // broken off by a whole one
        {"\xf0\x80\x80\x41", r + r + r + "A"},                          // Table 3-8
        {"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", r + r + r + r + "A"},  // Table 3-11
        {"\xc2", r},
        {"plain \xc3\xa9", "plain \xc3\xa9"},
        {std::string("\0", 1), std::string("\0", 1)},
    };
    for (const auto& [text, expected] : examples) {
        EXPECT_EQ(replace_invalid_utf8(text), expected);
        EXPECT_EQ(is_valid_utf8(text), text == expected);
        EXPECT_TRUE(is_valid_utf8(replace_invalid_utf8(text)));
    }
}

TEST(Utf8, CutMeansThatMoreBytesCouldMendIt) {
    EXPECT_TRUE(decode_utf8("\xe2\x82", 0).is_cut);
    EXPECT_FALSE(decode_utf8("\xe2\x41", 0).is_cut);
    EXPECT_FALSE(decode_utf8("\xff", 0).is_cut);
    EXPECT_FALSE(decode_utf8("\xed\xa0", 0).is_cut);  // already a surrogate
    EXPECT_FALSE(decode_utf8("\x80", 0).is_cut);
}

TEST(Utf8, DecodingEveryPairAndTripleOfBytesStaysInsideAndMakesProgress) {
    for (uint32_t bytes = 0; bytes < (1U << 16); ++bytes) {
        for (const char third : {'\0', '\x80', '\xbf'}) {
            const std::string text{static_cast<char>(bytes >> 8), static_cast<char>(bytes), third};
            for (size_t at = 0; at < text.size();) {
                const Utf8Step step = decode_utf8(text, at);
                ASSERT_GE(step.length, 1);
                at += static_cast<size_t>(step.length);
                ASSERT_LE(at, text.size());
            }
        }
    }
}

}  // namespace
}  // namespace gemmatrace
