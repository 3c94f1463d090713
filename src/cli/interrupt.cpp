// The SIGINT handler, its flag and the pipe that wakes a wait.
#include "cli/interrupt.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>

#include "base/error.h"

namespace gemmatrace::cli {
namespace {

// A signal handler can reach nothing but a global; threads that fetch ask for it too.
std::atomic<int> interrupt_flag = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may not wait for a lock");
// A signal that comes just before a read does not end that read, and it may be another thread's: a byte in a pipe is
// seen by the wait all the same. -1 where there is none.
volatile std::sig_atomic_t wake_in = -1;
int wake_out = -1;

void on_interrupt(int) {
    if (interrupt_flag != 0) _exit(exit_status(ErrorCode::interrupted));
    interrupt_flag = 1;
    const int saved_errno = errno;
    if (wake_in >= 0) [[maybe_unused]]
        const ssize_t written = write(wake_in, "!", 1);
    errno = saved_errno;
}

}  // namespace

void watch_interrupts() {
    std::array<int, 2> ends = {-1, -1};
    if (pipe(ends.data()) == 0) {
        for (const int end : ends) {
            fcntl(end, F_SETFL, O_NONBLOCK);
            fcntl(end, F_SETFD, FD_CLOEXEC);
        }
        wake_out = ends[0];
        wake_in = ends[1];
    }
    struct sigaction action = {};
    action.sa_handler = on_interrupt;
    sigemptyset(&action.sa_mask);
    action.sa_flags = 0;  // no SA_RESTART: a read that waits for the user must return
    sigaction(SIGINT, &action, nullptr);
}

bool is_interrupted() { return interrupt_flag != 0; }

void clear_interrupt() {
    std::array<char, 16> bytes;
    while (wake_out >= 0 && read(wake_out, bytes.data(), bytes.size()) > 0) {
    }
    interrupt_flag = 0;
}

void wait_for_input(int file) {
    std::array<pollfd, 2> waits = {pollfd{file, POLLIN, 0}, pollfd{wake_out, POLLIN, 0}};  // poll ignores a file of -1
    while (interrupt_flag == 0 && poll(waits.data(), waits.size(), -1) < 0 && errno == EINTR) {
    }
}

void throw_if_interrupted() {
    if (is_interrupted()) throw Error(ErrorCode::interrupted, "interrupted");
}

}  // namespace gemmatrace::cli
