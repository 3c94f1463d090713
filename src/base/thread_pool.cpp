// Workers spin for a moment between rounds, because a decode step is hundreds of short rounds, then sleep.
#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <utility>

namespace gemmatrace {
namespace {

constexpr int kSpins = 1000;  // about 50 us: longer than the gap between two operations of a step

inline void pause_cpu() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

}  // namespace

ThreadPool::ThreadPool(int thread_count) {
    for (int thread = 1; thread < thread_count; ++thread) {
        workers_.emplace_back([this, thread] { worker_loop(thread); });
    }
}

ThreadPool::~ThreadPool() {
    is_closing_.store(true);
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
    for (auto& worker : workers_) worker.join();
}

void ThreadPool::run_share(int thread) {
    const int64_t threads = size();
    const int64_t grains = (count_ + grain_ - 1) / grain_;
    const int64_t begin = std::min(count_, grains * thread / threads * grain_);
    const int64_t end = std::min(count_, grains * (thread + 1) / threads * grain_);
    if (begin >= end) return;
    try {
        (*work_)(thread, begin, end);
    } catch (...) {
        const std::lock_guard lock(failure_mutex_);
        if (!failure_) failure_ = std::current_exception();
    }
}

void ThreadPool::worker_loop(int thread) {
    uint32_t seen = 0;
    while (true) {
        int spins = 0;
        uint32_t now = round_.load(std::memory_order_acquire);
        while (now == seen) {
            if (++spins < kSpins) {
                pause_cpu();
            } else {
                round_.wait(seen, std::memory_order_acquire);
            }
            now = round_.load(std::memory_order_acquire);
        }
        seen = now;
        if (is_closing_.load()) return;
        run_share(thread);
        if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_one();
    }
}

void ThreadPool::parallel_for(int64_t count, int64_t grain, const std::function<void(int, int64_t, int64_t)>& work) {
    if (count <= 0) return;
    if (workers_.empty() || count <= grain) {
        work(0, 0, count);
        return;
    }
    work_ = &work;
    count_ = count;
    grain_ = grain;
    unfinished_.store(static_cast<int32_t>(workers_.size()), std::memory_order_relaxed);
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
    run_share(0);
    int spins = 0;
    for (int32_t left = unfinished_.load(std::memory_order_acquire); left != 0;
         left = unfinished_.load(std::memory_order_acquire)) {
        if (++spins < kSpins) {
            pause_cpu();
        } else {
            unfinished_.wait(left, std::memory_order_acquire);
        }
    }
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

int usable_cores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
    return std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace gemmatrace
