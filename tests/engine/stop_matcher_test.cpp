// Stop strings end the text exactly before the match, however the text is cut into pieces.
#include "engine/stop_matcher.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gemmatrace::engine {
namespace {

struct Outcome {
    std::string shown;
    std::string match;

    bool operator==(const Outcome&) const = default;
};

Outcome run(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
    StopMatcher matcher(stops);
    Outcome outcome;
    for (const std::string& piece : pieces) outcome.shown += matcher.push(piece);
    outcome.shown += matcher.finish();
    outcome.match = matcher.match().value_or("");
    return outcome;
}

// What the definition says, letter by letter: the match that is complete first, of those the longest.
Outcome by_definition(const std::vector<std::string>& stops, const std::string& text) {
    for (size_t end = 0; end <= text.size(); ++end) {
        std::string best;
        for (const std::string& stop : stops) {
            if (!stop.empty() && text.substr(0, end).ends_with(stop) && stop.size() > best.size()) best = stop;
        }
        if (!best.empty()) return {text.substr(0, end - best.size()), best};
    }
    return {text, ""};
}

TEST(StopMatcherTest, F070_F071_every_cut_of_the_text_gives_the_same_result) {
    const std::vector<std::vector<std::string>> stop_sets = {{"STOP"},      {"\n\n"},           {"aab"}, {"abab", "b"},
                                                             {"aaa", "aa"}, {"xyz", "yz", "z"}, {"é"},   {"ab", ""}};
    const std::vector<std::string> texts = {
        "one two STOP three", "STO STO STOP", "aaab", "aabaab", "abaababab", "a\n\nb", "a\nb\n", "wxyz",
        "no match at all!",   "STOPP",        "café", "",       "STO",       "aaaa"};
    for (const auto& stops : stop_sets) {
        for (const std::string& text : texts) {
            const Outcome expected = by_definition(stops, text);
            for (size_t first = 0; first <= text.size(); ++first) {
                for (size_t second = first; second <= text.size(); ++second) {
                    const std::vector<std::string> pieces = {text.substr(0, first), text.substr(first, second - first),
                                                             text.substr(second)};
                    EXPECT_EQ(run(stops, pieces), expected) << "stop " << stops[0] << " text " << text;
                }
            }
            std::vector<std::string> bytes;
            for (const char byte : text) bytes.emplace_back(1, byte);
            EXPECT_EQ(run(stops, bytes), expected) << "stop " << stops[0] << " text " << text;
        }
    }
}

TEST(StopMatcherTest, F071_text_that_cannot_become_a_match_is_shown_at_once) {
    StopMatcher matcher({"STOP"});
    EXPECT_EQ(matcher.push("abc ST"), "abc ");
    EXPECT_EQ(matcher.push("AR"), "STAR");
    EXPECT_EQ(matcher.push("T ST"), "T ");
    EXPECT_EQ(matcher.push("OP rest"), "");
    EXPECT_EQ(matcher.match(), "STOP");
    EXPECT_EQ(matcher.push("more"), "");
    EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcherTest, without_stop_strings_everything_passes) {
    StopMatcher matcher({});
    EXPECT_EQ(matcher.push("text"), "text");
    EXPECT_EQ(matcher.finish(), "");
    EXPECT_FALSE(matcher.match());
}

}  // namespace
}  // namespace gemmatrace::engine
