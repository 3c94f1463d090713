// Every index is worked on once, in contiguous shares that depend on nothing but the numbers.
#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace gemmatrace {
namespace {

TEST(ThreadPool, CoversEveryIndexOnceForAnyNumberOfThreads) {
    for (const int threads : {1, 2, 3, 7}) {
        ThreadPool pool(threads);
        for (const int64_t count : {0, 1, 5, 12, 13, 100, 1001}) {
            std::vector<std::atomic<int>> visits(static_cast<size_t>(count));
            pool.parallel_for(count, 12, [&](int thread, int64_t begin, int64_t end) {
                EXPECT_LT(thread, threads);
                EXPECT_EQ(begin % 12, 0);
                for (int64_t index = begin; index < end; ++index) ++visits[static_cast<size_t>(index)];
            });
            for (const auto& visited : visits) ASSERT_EQ(visited.load(), 1);
        }
    }
}

TEST(ThreadPool, RunsManyShortRounds) {
    ThreadPool pool(3);
    std::atomic<int64_t> total{0};
    for (int round = 0; round < 20000; ++round) {
        pool.parallel_for(3, 1, [&](int, int64_t begin, int64_t end) { total += end - begin; });
    }
    EXPECT_EQ(total.load(), 60000);
}

TEST(ThreadPool, RethrowsWhatAWorkerThrewAndGoesOn) {
    ThreadPool pool(2);
    EXPECT_THROW(pool.parallel_for(2, 1,
                                   [](int, int64_t begin, int64_t) {
                                       if (begin == 1) throw std::runtime_error("from a worker");
                                   }),
                 std::runtime_error);
    int64_t seen = 0;
    pool.parallel_for(1, 1, [&](int, int64_t, int64_t end) { seen = end; });
    EXPECT_EQ(seen, 1);
}

}  // namespace
}  // namespace gemmatrace
