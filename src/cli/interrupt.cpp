// The SIGINT handler and its flag.
#include "cli/interrupt.h"

#include <unistd.h>
#include <csignal>

#include "base/error.h"

namespace gemmatrace::cli {
namespace {

// A signal handler can reach nothing but a global.
volatile std::sig_atomic_t interrupt_flag = 0;

void on_interrupt(int) {
    if (interrupt_flag != 0) _exit(exit_status(ErrorCode::interrupted));
    interrupt_flag = 1;
}

}  // namespace

void watch_interrupts() {
    struct sigaction action = {};
    action.sa_handler = on_interrupt;
    sigemptyset(&action.sa_mask);
    action.sa_flags = 0;  // no SA_RESTART: a read that waits for the user must return
    sigaction(SIGINT, &action, nullptr);
}

bool is_interrupted() { return interrupt_flag != 0; }

void clear_interrupt() { interrupt_flag = 0; }

void throw_if_interrupted() {
    if (is_interrupted()) throw Error(ErrorCode::interrupted, "interrupted");
}

}  // namespace gemmatrace::cli
