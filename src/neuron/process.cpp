// fork, exec and waiting.
#include "neuron/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "base/host_memory.h"

extern char** environ;

namespace gemmatrace::neuron {
namespace {

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
    pointers.push_back(nullptr);
    return pointers;
}

// Between fork and exec only what a signal handler may do; answers errno.
int become(const ProcessSpec& spec, pid_t parent, char* const* arguments, char* const* environment) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);  // it went before we asked to be told
    const int input = open("/dev/null", O_RDONLY);
    const int output = open(spec.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (input < 0 || output < 0 || dup2(input, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0) return errno;
    if (chdir(spec.directory.c_str()) != 0) return errno;
    signal(SIGINT, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    execve(arguments[0], arguments, environment);
    return errno;
}

void sleep_briefly() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

}  // namespace

std::vector<std::string> compiler_environment(const std::filesystem::path& program) {
    std::vector<std::string> kept;
    std::string path = program.parent_path().string();
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        if (text.starts_with("PATH="))
            path += ":" + std::string(text.substr(5));
        else if (!text.starts_with("NEURON") && !text.starts_with("XLA_"))
            kept.emplace_back(text);
    }
    kept.push_back("PATH=" + path);
    return kept;
}

Process::Process(const ProcessSpec& spec) {
    const auto arguments = pointers_to(spec.arguments);
    const auto environment = pointers_to(spec.environment);
    std::array<int, 2> report = {-1, -1};
    const auto fail = [&](ErrorCode code, int error) {
        throw Error(code, fmt::format("cannot run {}: {}", spec.arguments.front(), std::strerror(error)),
                    {{"file", spec.arguments.front()}}, "check that it is installed and may be executed here");
    };
    if (pipe2(report.data(), O_CLOEXEC) != 0) fail(ErrorCode::resource, errno);
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ == 0) {
        const int error = become(spec, parent, arguments.data(), environment.data());
        [[maybe_unused]] const auto written = write(report[1], &error, sizeof error);
        _exit(127);
    }
    const int fork_error = errno;
    close(report[1]);
    if (pid_ < 0) {
        close(report[0]);
        fail(ErrorCode::resource, fork_error);
    }
    setpgid(pid_, pid_);  // also here: whoever comes first
    int error = 0;
    ssize_t count = 0;
    while ((count = read(report[0], &error, sizeof error)) < 0 && errno == EINTR) {
    }
    close(report[0]);
    if (count == sizeof error) {
        waitpid(pid_, nullptr, 0);
        pid_ = -1;
        fail(ErrorCode::not_found, error);
    }
}

Process::~Process() {
    if (pid_ > 0 && !end_) stop(0.0);
}

std::optional<CompilerExit> Process::poll() {
    if (end_) return end_;
    siginfo_t info = {};
    if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return {};
    kill(-pid_, SIGKILL);  // while the group's number is still ours
    int status = 0;
    rusage usage = {};
    while (wait4(pid_, &status, 0, &usage) < 0 && errno == EINTR) {
    }
    largest_process_bytes_ = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
    end_ = WIFSIGNALED(status) ? CompilerExit{0, WTERMSIG(status)} : CompilerExit{WEXITSTATUS(status), 0};
    return end_;
}

void Process::stop(double patience_seconds) {
    using Clock = std::chrono::steady_clock;
    if (end_) return;
    kill(-pid_, SIGTERM);
    const auto deadline = Clock::now() + std::chrono::duration<double>(patience_seconds);
    while (!poll() && Clock::now() < deadline) sleep_briefly();
    if (end_) return;
    kill(-pid_, SIGKILL);
    while (!poll()) sleep_briefly();
}

uint64_t Process::memory_bytes() const { return end_ ? 0 : group_memory_bytes(pid_); }

}  // namespace gemmatrace::neuron
