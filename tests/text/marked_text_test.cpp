// Every byte keeps its origin through appending and slicing, in as few runs as possible.
#include "text/marked_text.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

#include "base/error.h"

namespace gemmatrace::text {
namespace {

constexpr Origin kTemplate = Origin::template_text;
constexpr Origin kContent = Origin::content;

using Runs = std::vector<std::pair<Origin, size_t>>;

Runs runs_of(const MarkedText& text) {
    Runs runs;
    for (const MarkedText::Run& run : text.runs()) runs.emplace_back(run.origin, run.length);
    return runs;
}

MarkedText sample() {
    MarkedText text("<turn>", kTemplate);
    text.append("hello", kContent);
    text.append("</turn>", kTemplate);
    return text;
}

TEST(MarkedText, StartsEmptyWithoutRuns) {
    EXPECT_TRUE(MarkedText().empty());
    EXPECT_TRUE(MarkedText("", kContent).runs().empty());
}

TEST(MarkedText, KeepsOneRunForEachStretchOfOneOrigin) {
    EXPECT_EQ(sample().text(), "<turn>hello</turn>");
    EXPECT_EQ(runs_of(sample()), (Runs{{kTemplate, 6}, {kContent, 5}, {kTemplate, 7}}));
}

TEST(MarkedText, JoinsNeighboursOfOneOriginAndSkipsEmptyText) {
    MarkedText text("a", kContent);
    text.append("", kTemplate);
    text.append("b", kContent);
    text.append(MarkedText("c", kContent));
    EXPECT_EQ(runs_of(text), (Runs{{kContent, 3}}));
}

TEST(MarkedText, CanBeAppendedToItself) {
    MarkedText text = sample();
    text.append(text);
    EXPECT_EQ(text.text(), "<turn>hello</turn><turn>hello</turn>");
    EXPECT_EQ(runs_of(text), (Runs{{kTemplate, 6}, {kContent, 5}, {kTemplate, 13}, {kContent, 5}, {kTemplate, 7}}));
}

TEST(MarkedText, SlicesAcrossRuns) {
    const MarkedText part = sample().slice(4, 5);
    EXPECT_EQ(part.text(), "n>hel");
    EXPECT_EQ(runs_of(part), (Runs{{kTemplate, 2}, {kContent, 3}}));
    EXPECT_TRUE(sample().slice(18, 0).empty());
}

TEST(MarkedText, RefusesASliceOutsideOfTheText) {
    EXPECT_THROW(sample().slice(18, 1), Error);
    EXPECT_THROW(sample().slice(19, 0), Error);
    EXPECT_THROW(sample().slice(1, static_cast<size_t>(-1)), Error);
    EXPECT_THROW(sample().origin_at(18), Error);
}

TEST(MarkedText, AnswersForEveryByteLikeAPlainListOfOrigins) {
    std::mt19937 random(7);
    MarkedText text;
    std::vector<Origin> origins;
    for (int step = 0; step < 200; ++step) {
        const Origin origin = random() % 2 == 0 ? kTemplate : kContent;
        const size_t length = random() % 4;
        text.append(std::string(length, 'x'), origin);
        origins.insert(origins.end(), length, origin);
        const size_t begin = random() % (origins.size() + 1);
        const size_t count = random() % (origins.size() - begin + 1);
        const MarkedText part = text.slice(begin, count);
        for (size_t at = 0; at < count; ++at) ASSERT_EQ(part.origin_at(at), origins[begin + at]);
        for (size_t run = 1; run < part.runs().size(); ++run) {
            ASSERT_NE(part.runs()[run].origin, part.runs()[run - 1].origin);
        }
    }
}

}  // namespace
}  // namespace gemmatrace::text
