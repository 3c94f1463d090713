// The runtime may crash, hang or be ended by the watchdog: so a step is a forked process, which answers through a pipe.
#include "cli/doctor_run.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <new>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "cli/interrupt.h"
#include "neuron/watchdog.h"

namespace gemmatrace::cli {
namespace {

using nlohmann::ordered_json;
using ApartClock = std::chrono::steady_clock;

constexpr double kHeedSeconds = 20.0;  // for work to end after Ctrl-C
constexpr char kRunning = '!';         // in the pipe, before the answer

int answer_pipe = -1;  // of this process, when it is one that works for another

void write_answer(const std::string& text) {
    for (size_t at = 0; at < text.size();) {
        const ssize_t count = ::write(answer_pipe, text.data() + at, text.size() - at);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return;
        at += static_cast<size_t>(count);
    }
}

ordered_json answer_of(const std::function<ordered_json()>& work) {
    try {
        return {{"answer", work()}};
    } catch (const Error& error) {
        return {{"error", error_json(error)}};
    } catch (const std::bad_alloc&) {
        return {{"error", error_json(Error(ErrorCode::resource, "not enough memory"))}};
    } catch (const std::exception& error) {
        return {{"error", error_json(Error(ErrorCode::internal, error.what()))}};
    }
}

[[noreturn]] void work_apart(const std::function<ordered_json()>& work, int pipe_end, pid_t parent) {
    ::setpgid(0, 0);  // Ctrl-C comes from whoever waits for us, once
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    answer_pipe = pipe_end;
    write_answer(dump_json(answer_of(work)));
    ::_exit(0);
}

// Reads what the process writes until it ends, and does to it what is asked for meanwhile.
class Waiter {
  public:
    Waiter(pid_t pid, int pipe_end, std::optional<double> kill_seconds)
        : pid_(pid), pipe_(pipe_end), kill_seconds_(kill_seconds) {}

    std::string read_all() {
        char part[4096];
        while (true) {
            look_at_clock();
            pollfd wait = {pipe_, POLLIN, 0};
            constexpr int kTick = 50;
            if (::poll(&wait, 1, kTick) <= 0) continue;
            const ssize_t count = ::read(pipe_, part, sizeof part);
            if (count < 0 && errno == EINTR) continue;
            if (count <= 0) return text_;
            text_.append(part, static_cast<size_t>(count));
        }
    }

  private:
    static double now() { return std::chrono::duration<double>(ApartClock::now().time_since_epoch()).count(); }

    void look_at_clock() {
        if (is_interrupted() && !told_at_) {
            told_at_ = now();
            ::kill(pid_, SIGINT);
        }
        if (told_at_ && now() - *told_at_ > kHeedSeconds) ::kill(pid_, SIGKILL);
        if (kill_seconds_ && !running_at_ && text_.find(kRunning) != std::string::npos) running_at_ = now();
        if (running_at_ && now() - *running_at_ > *kill_seconds_) ::kill(pid_, SIGKILL);
    }

    pid_t pid_;
    int pipe_;
    std::optional<double> kill_seconds_, told_at_, running_at_;
    std::string text_;
};

}  // namespace

ordered_json error_json(const Error& error) {
    ordered_json context = ordered_json::object();
    for (const auto& [key, value] : error.context()) context[key] = value;
    return {{"code", error_code_name(error.code())},
            {"message", error.message()},
            {"context", std::move(context)},
            {"remedy", error.remedy()}};
}

void end_apart(const Error& error) {
    write_answer(dump_json({{"error", error_json(error)}, {"ended", true}}));
    ::_exit(neuron::kWatchdogStatus);
}

void say_running() { write_answer(std::string(1, kRunning)); }

ApartResult run_apart(const std::function<ordered_json()>& work, std::optional<double> kill_seconds) {
    throw_if_interrupted();
    int ends[2];
    const auto fail_starting = [](const char* what) {
        throw Error(ErrorCode::resource, std::string(what) + " cannot be had", {}, "end other programs");
    };
    if (::pipe2(ends, O_CLOEXEC) != 0) fail_starting("a pipe");
    const pid_t parent = ::getpid();
    const auto start = ApartClock::now();
    const pid_t pid = ::fork();
    if (pid == 0) {
        ::close(ends[0]);
        work_apart(work, ends[1], parent);
    }
    ::close(ends[1]);
    if (pid < 0) {
        ::close(ends[0]);
        fail_starting("a process");
    }
    std::string text = Waiter(pid, ends[0], kill_seconds).read_all();
    ::close(ends[0]);
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    ApartResult result;
    result.seconds = std::chrono::duration<double>(ApartClock::now() - start).count();
    throw_if_interrupted();
    if (WIFEXITED(status)) result.status = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
    text.erase(0, text.find_first_not_of(kRunning));
    if (text.empty() || result.signal != 0) return result;
    const ordered_json said = parse_json(text, "the answer of a step", ErrorCode::internal);
    if (said.contains("answer")) result.answer = said["answer"];
    if (said.contains("error")) result.error = said["error"];
    result.was_ended = said.contains("ended");
    return result;
}

}  // namespace gemmatrace::cli
