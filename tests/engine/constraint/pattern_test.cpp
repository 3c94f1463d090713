// Regular expressions match as ECMA 262 says, or are refused with the byte where.
#include "engine/constraint/pattern.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "engine/constraint/grammar_matches.h"

namespace gemmatrace::engine {
namespace {

bool pattern_takes(std::string_view pattern, std::string_view text) {
    return takes(compile_regex(pattern, ConstraintLimits{}), text);
}

ErrorCode pattern_error(std::string_view pattern) {
    try {
        compile_regex(pattern, ConstraintLimits{});
    } catch (const Error& error) {
        return error.code();
    }
    return ErrorCode::internal;
}

TEST(PatternTest, the_whole_text_matches) {
    EXPECT_TRUE(pattern_takes("abc", "abc"));
    EXPECT_FALSE(pattern_takes("abc", "abcd"));
    EXPECT_FALSE(pattern_takes("abc", "ab"));
    EXPECT_TRUE(pattern_takes("^abc$", "abc"));
    EXPECT_TRUE(pattern_takes("", ""));
    EXPECT_TRUE(pattern_takes("a||b", ""));
}

TEST(PatternTest, repeats_count) {
    for (const char* text : {"aa", "aaa", "aaaa"}) EXPECT_TRUE(pattern_takes("a{2,4}", text)) << text;
    for (const char* text : {"a", "aaaaa"}) EXPECT_FALSE(pattern_takes("a{2,4}", text)) << text;
    EXPECT_TRUE(pattern_takes("(ab)*?c+d?", "ababcc"));
    EXPECT_TRUE(pattern_takes("a{3}", "aaa"));
    EXPECT_FALSE(pattern_takes("a{3,}", "aa"));
    EXPECT_TRUE(pattern_takes("(a{2}){3}", "aaaaaa"));
    EXPECT_FALSE(pattern_takes("(a{2}){3}", "aaaaa"));
    EXPECT_TRUE(pattern_takes("[ab]{1000}", std::string(1000, 'b')));
    EXPECT_FALSE(pattern_takes("[ab]{1000}", std::string(999, 'b')));
    EXPECT_TRUE(pattern_takes("a{0}", ""));
}

TEST(PatternTest, repeats_of_what_may_be_empty_come_to_an_end) {
    EXPECT_TRUE(pattern_takes("(a*)*", "aaa"));
    EXPECT_TRUE(pattern_takes("(a*)+b", "b"));
    EXPECT_TRUE(pattern_takes("(a?){3,5}", ""));
    EXPECT_FALSE(pattern_takes("(a?){3,5}", "aaaaaa"));
    EXPECT_TRUE(pattern_takes("((a|)*|b)*", "abba"));
}

TEST(PatternTest, classes_are_sets_of_characters) {
    EXPECT_TRUE(pattern_takes("[a-c\\d_-]+", "b7_-"));
    EXPECT_FALSE(pattern_takes("[a-c]", "d"));
    EXPECT_TRUE(pattern_takes("[^a-c]", "\xf0\x9f\x99\x82"));
    EXPECT_FALSE(pattern_takes("[^a-c]", "b"));
    EXPECT_FALSE(pattern_takes("[^a-c]", "\xf0\x9f\x99"));
    EXPECT_TRUE(pattern_takes("[\xc3\xa0-\xc3\xbc]", "\xc3\xa9"));
    EXPECT_TRUE(pattern_takes(".\\.", "\xc3\xa9."));
    EXPECT_FALSE(pattern_takes(".", "\n"));
    EXPECT_TRUE(pattern_takes("[\\s\\S]", "\n"));
    EXPECT_TRUE(pattern_takes("\\u00e9\\x41\\u{1F642}\\ud83d\\ude42",
                              "\xc3\xa9"
                              "A\xf0\x9f\x99\x82\xf0\x9f\x99\x82"));
    EXPECT_TRUE(pattern_takes("[]?a", "a"));  // an empty class is no character
}

TEST(PatternTest, shorthands_take_only_what_every_reader_agrees_on) {
    EXPECT_TRUE(pattern_takes("\\d\\w\\s", "7_ "));
    EXPECT_FALSE(pattern_takes("\\d", "\xd9\xa3"));     // an Arabic digit, which Python's \d takes
    EXPECT_FALSE(pattern_takes("[^\\d]", "\xd9\xa3"));  // and which ECMA's [^\d] takes
    EXPECT_FALSE(pattern_takes("\\D", "\xd9\xa3"));
    EXPECT_TRUE(pattern_takes("\\S", "\xc3\xa9"));
    EXPECT_FALSE(pattern_takes("\\S", "\xc2\xa0"));
    EXPECT_FALSE(pattern_takes("\\s", "\xc2\xa0"));
}

TEST(PatternTest, every_code_point_belongs_to_a_set_or_to_its_complement) {
    CodePointSet set{{5, 9}, {0x41, 0x41}, {0x7FE, 0x801}, {0xD000, 0xE010}, {0xFFF0, 0x10010}};
    const CodePointSet rest = set.complement();
    CodePointSet all = rest;
    all.add(set);
    EXPECT_EQ(all, CodePointSet::all());
    EXPECT_FALSE(set.contains(0xD800));
    EXPECT_FALSE(rest.contains(0xDFFF));
    GrammarBuilder builder{ConstraintLimits{}};
    CharacterNodes characters(builder);
    const GrammarPtr grammar = builder.finish(characters.of_set(set, TextForm::plain));
    for (uint32_t code_point = 0; code_point <= 0x10FFFF; code_point += code_point < 0x11000 ? 1 : 997) {
        if (code_point >= 0xD800 && code_point <= 0xDFFF) continue;
        std::string text;
        append_utf8(text, code_point);
        ASSERT_EQ(takes(grammar, text), set.contains(code_point)) << code_point;
    }
}

TEST(PatternTest, malformed_patterns_are_the_callers_mistake) {
    for (const char* pattern : {"(a", "a)", "[a", "*a", "a**", "a{2,1}", "a{x}", "a{1", "\\", "[z-a]", "\\q", "\\x4",
                                "\\u12", "\\ud800", "(?<n", "\xff", "a{999999}", "[\\d-z", "^*"}) {
        EXPECT_EQ(pattern_error(pattern), ErrorCode::bad_request) << pattern;
    }
    EXPECT_EQ(pattern_error(std::string(100, '(') + std::string(100, ')')), ErrorCode::bad_request);
}

TEST(PatternTest, what_no_grammar_can_follow_is_refused) {
    for (const char* pattern : {"(?=a)", "(?!a)", "(?<=a)b", "(?<!a)b", "(a)\\1", "\\bword\\b", "\\p{L}", "a^b",
                                "(?i)a", "a++", "\\k<n>", "\\Aa"}) {
        EXPECT_EQ(pattern_error(pattern), ErrorCode::unsupported) << pattern;
    }
}

TEST(PatternTest, a_pattern_that_matches_nothing_is_refused) { EXPECT_EQ(pattern_error("[]"), ErrorCode::bad_request); }

TEST(PatternTest, ambiguity_ends_in_an_error_not_in_a_hang) {
    ConstraintLimits limits;
    limits.max_steps = 100'000;
    const GrammarPtr grammar = compile_regex("(.{0,90000}){0,90000}x", limits);
    EXPECT_THROW(match_grammar(grammar, std::string(1000, 'a')), Error);
}

TEST(PatternTest, lengths_are_known) {
    const auto length_of = [](std::string_view pattern) {
        const PatternLength length = pattern_length(parse_pattern(pattern, PatternScope::whole, ConstraintLimits{}));
        return std::pair(length.min, length.max);
    };
    EXPECT_EQ(length_of("a(b|cde)f{2,4}"), std::pair(uint64_t{4}, uint64_t{8}));
    EXPECT_EQ(length_of("a*"), std::pair(uint64_t{0}, kUnbounded));
    EXPECT_EQ(length_of(""), std::pair(uint64_t{0}, uint64_t{0}));
}

}  // namespace
}  // namespace gemmatrace::engine
