// Progress lines: their words, and how often they come on a terminal and elsewhere.
#include "base/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace gemmatrace {
namespace {

using ::testing::ElementsAre;

TEST(Progress, BytesAreReadableInPowersOfTen) {
    EXPECT_EQ(format_bytes(0), "0 B");
    EXPECT_EQ(format_bytes(999), "999 B");
    EXPECT_EQ(format_bytes(1000), "1.00 kB");
    EXPECT_EQ(format_bytes(9'994), "9.99 kB");
    EXPECT_EQ(format_bytes(9'996), "10.0 kB");
    EXPECT_EQ(format_bytes(999'499), "999 kB");
    EXPECT_EQ(format_bytes(999'500), "1.00 MB");
    EXPECT_EQ(format_bytes(9'257'138'758), "9.26 GB");
    EXPECT_EQ(format_bytes(62'546'177'752), "62.5 GB");
    EXPECT_EQ(format_bytes(~uint64_t{0}), "18446744 TB");
}

TEST(Progress, DurationsAreReadable) {
    EXPECT_EQ(format_duration(0.04), "0.0 s");
    EXPECT_EQ(format_duration(9.94), "9.9 s");
    EXPECT_EQ(format_duration(9.96), "10 s");
    EXPECT_EQ(format_duration(59.4), "59 s");
    EXPECT_EQ(format_duration(59.6), "1 min 00 s");
    EXPECT_EQ(format_duration(185), "3 min 05 s");
    EXPECT_EQ(format_duration(7800), "2 h 10 min");
}

TEST(Progress, TheLineNamesShareRateAndTimeLeft) {
    EXPECT_EQ(progress_text("writing", 2'000'000'000, 8'000'000'000, 2.0),
              "writing: 2.00 GB of 8.00 GB (25 %), 1.00 GB/s, 6.0 s left");
    EXPECT_EQ(progress_text("writing", 7'999'999'999, 8'000'000'000, 8.0),
              "writing: 8.00 GB of 8.00 GB (99 %), 1.00 GB/s, 0.0 s left");
}

TEST(Progress, NoTimeIsPromisedBeforeThereIsARate) {
    EXPECT_EQ(progress_text("writing", 1000, 2000, 0.1), "writing: 1.00 kB of 2.00 kB (50 %)");
    EXPECT_EQ(progress_text("writing", 0, 2000, 5.0), "writing: 0 B of 2.00 kB (0 %)");
    EXPECT_EQ(progress_text("writing", 0, 0, 0.0), "writing: 0 B of 0 B (100 %)");
}

// Output into a list, on a clock that the test moves.
class ProgressOutputTest : public ::testing::Test {
  protected:
    ProgressOutput output(bool is_terminal) {
        return {is_terminal, [this] { return now_; }, [this](std::string_view text) { written_.emplace_back(text); }};
    }
    double now_ = 100.0;
    std::vector<std::string> written_;
};

TEST_F(ProgressOutputTest, ATerminalLineIsRewrittenTenTimesASecondAndThenReplaced) {
    Progress progress("work", 4000, output(true));
    progress.update(1000);
    now_ += 0.05;
    progress.update(2000);  // too soon
    now_ += 0.95;
    progress.update(3000);
    progress.finish();
    EXPECT_THAT(written_, ElementsAre("\r\x1b[Kwork: 1.00 kB of 4.00 kB (25 %)",
                                      "\r\x1b[Kwork: 3.00 kB of 4.00 kB (75 %), 3.00 kB/s, 0.3 s left",
                                      "\r\x1b[Kwork: 4.00 kB in 1.0 s, 4.00 kB/s\n"));
}

TEST_F(ProgressOutputTest, AFileGetsAPlainLineEveryTenSecondsAndAtTheEnd) {
    Progress progress("work", 4000, output(false));
    for (int second = 0; second < 25; ++second) {
        progress.update(100);
        now_ += 1.0;
    }
    progress.finish();
    ASSERT_EQ(written_.size(), 3U);
    EXPECT_EQ(written_[0], "work: 100 B of 4.00 kB (2 %), 10 B/s, 6 min 30 s left\n");
    EXPECT_EQ(written_[2], "work: 4.00 kB in 25 s, 160 B/s\n");
}

TEST_F(ProgressOutputTest, AnUnfinishedLineIsTakenOffTheTerminal) {
    { Progress progress("work", 4000, output(true)); }
    EXPECT_TRUE(written_.empty());
    {
        Progress progress("work", 4000, output(true));
        progress.update(1000);
    }
    ASSERT_EQ(written_.size(), 2U);
    EXPECT_EQ(written_[1], "\r\x1b[K");
}

}  // namespace
}  // namespace gemmatrace
