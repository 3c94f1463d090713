// Threads that go in step, and what becomes of the process when one does not come back.
#include "neuron/rank_threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "support/expect_error.h"

namespace gemmatrace::neuron {
namespace {

using gemmatrace::testing::expect_error;
using ::testing::HasSubstr;

// A watchdog that only remembers.
struct Remembered {
    std::vector<std::string> ends;
    Watchdog watchdog{[this](const Error& error) { ends.emplace_back(error.what()); }};
};

TEST(RankThreads, EveryRankRunsEveryRoundAndNoneGoesAheadOfAMeeting) {
    Remembered remembered;
    RankThreads threads(3, remembered.watchdog);
    std::atomic<int32_t> before{0};
    for (int32_t round = 1; round <= 50; ++round) {
        threads.run("a round", 60.0, [&](RankTurn& turn) {
            ++before;
            EXPECT_TRUE(turn.meet());
            EXPECT_EQ(before, 3 * round) << turn.rank();
            EXPECT_TRUE(turn.meet());
        });
    }
    EXPECT_THAT(remembered.ends, ::testing::IsEmpty());
}

// Fault F144: the runtime keeps 4 MiB on the stack.
TEST(RankThreads, F144_HaveStacksOfSixteenMebibytes) {
    Remembered remembered;
    RankThreads threads(1, remembered.watchdog);
    threads.run("a deep call", 60.0, [](RankTurn&) {
        pthread_attr_t attributes;
        size_t bytes = 0;
        ASSERT_EQ(::pthread_getattr_np(::pthread_self(), &attributes), 0);
        ::pthread_attr_getstacksize(&attributes, &bytes);
        ::pthread_attr_destroy(&attributes);
        EXPECT_GE(bytes, size_t{16} << 20);
    });
}

TEST(RankThreads, ARankThatFailsBeforeTheMeetingKeepsTheOthersFromGoingOn) {
    Remembered remembered;
    RankThreads threads(2, remembered.watchdog);
    bool went_on = false;
    expect_error(ErrorCode::device, {"rank 1"}, [&] {
        threads.run("a step", 60.0, [&](RankTurn& turn) {
            if (turn.rank() == 1) throw Error(ErrorCode::device, "rank 1 cannot write", {}, "none");
            went_on = turn.meet();
        });
    });
    EXPECT_FALSE(went_on);
    threads.run("the next step", 60.0, [&](RankTurn& turn) { went_on = turn.meet(); });
    EXPECT_TRUE(went_on);
    EXPECT_THAT(remembered.ends, ::testing::IsEmpty());
}

// Fault F143: without it all ranks would wait for ever.
TEST(RankThreads, F143_ARankThatHangsIsNamedWithItsCallWhenTheDeadlineIsOver) {
    Remembered remembered;
    std::promise<void> release;
    const std::shared_future<void> released = release.get_future().share();
    Watchdog watchdog([&](const Error& error) {
        remembered.ends.emplace_back(error.what());
        release.set_value();
    });
    RankThreads threads(2, watchdog);
    threads.run("decode_c512", 0.2, [&](RankTurn& turn) {
        turn.says("nrt_tensor_write");
        if (turn.rank() == 1) released.wait();
        turn.meet();
    });
    ASSERT_EQ(remembered.ends.size(), 1U);
    EXPECT_THAT(remembered.ends[0], HasSubstr("decode_c512 has not come back for 0.2 s: rank 1 in nrt_tensor_write"));
    EXPECT_THAT(remembered.ends[0], ::testing::Not(HasSubstr("rank 0")));
}

TEST(RankThreads, F143_ARankThatFailsWhileOthersWaitForItEndsTheProcessWithItsReason) {
    std::string end;
    std::promise<void> release;
    const std::shared_future<void> released = release.get_future().share();
    Watchdog watchdog([&](const Error& error) {
        end = error.what();
        release.set_value();
    });
    RankThreads threads(2, watchdog);
    expect_error(ErrorCode::device, {"the core cannot go on"}, [&] {
        threads.run("decode_c512", 60.0, [&](RankTurn& turn) {
            turn.says("nrt_execute");
            if (turn.rank() == 0) throw Error(ErrorCode::device, "the core cannot go on", {}, "none");
            released.wait();
        });
    });
    EXPECT_THAT(end, HasSubstr("the core cannot go on"));
    EXPECT_THAT(end, HasSubstr("still_waiting=rank 1 in nrt_execute"));
}

TEST(Watchdog, EndsTheProcessWithAStatusOfItsOwn) {
    const Error error(ErrorCode::device, "rank 1 hangs", {{"rank", "1"}}, "start again");
    EXPECT_EXIT(end_process(error), ::testing::ExitedWithCode(76), "error: rank 1 hangs\n.*rank: 1\n.*start again");
}

TEST(Watchdog, AProcessThatEndsInOrderIsLeftAlone) {
    std::string end;
    {
        Watchdog watchdog([&](const Error& error) { end = error.what(); });
        watchdog.end_in(3600.0, Error(ErrorCode::device, "later"));
    }
    EXPECT_EQ(end, "");
    std::promise<std::string> said;
    Watchdog watchdog([&](const Error& error) { said.set_value(error.message()); });
    watchdog.end_in(0.01, Error(ErrorCode::device, "soon"));
    watchdog.end_in(0.0, Error(ErrorCode::device, "the second"));
    EXPECT_EQ(said.get_future().get(), "soon");
}

}  // namespace
}  // namespace gemmatrace::neuron
