// A fixed set of threads that split index ranges the same way every time: no stealing, so no timing enters a result.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace gemmatrace {

class ThreadPool {
  public:
    // thread_count includes the caller's thread; at least 1.
    explicit ThreadPool(int thread_count);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int size() const { return static_cast<int>(workers_.size()) + 1; }

    // Calls work(thread, begin, end) once a thread with its contiguous share of [0, count); shares begin at multiples
    // of `grain`. Returns when all are done; the first exception of a worker is rethrown here. Not reentrant.
    void parallel_for(int64_t count, int64_t grain, const std::function<void(int, int64_t, int64_t)>& work);

  private:
    void worker_loop(int thread);
    void run_share(int thread);

    std::vector<std::thread> workers_;
    std::atomic<uint32_t> round_{0};      // a new value starts a round
    std::atomic<int32_t> unfinished_{0};  // workers still in this round
    std::atomic<bool> is_closing_{false};
    const std::function<void(int, int64_t, int64_t)>* work_ = nullptr;
    int64_t count_ = 0;
    int64_t grain_ = 1;
    std::mutex failure_mutex_;
    std::exception_ptr failure_;
};

// Cores this process may run on (its affinity mask), at least 1.
int usable_cores();

}  // namespace gemmatrace
