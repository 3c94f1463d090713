// The library is called on rank threads only, for their stacks are large enough.
#include "neuron/nrt_runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "neuron/nrt_status.h"

namespace gemmatrace::neuron {
namespace {

constexpr double kAnswerSeconds = 2.0;        // for those who wait for an answer, before the process ends
constexpr uint64_t kClosesAfterFailure = 31;  // runtime 2.31: before it, nrt_close after a failed execution freed twice

void require_family(const NrtLibrary& library) {
    const abi::InstanceInfo instance = library.instance();
    constexpr uint32_t kKnown[] = {0, abi::kFamilyTrn1, abi::kFamilyTrn1n, abi::kFamilyInf2, abi::kFamilyInf2e};
    if (std::ranges::find(kKnown, instance.family) != std::end(kKnown)) return;
    throw Error(ErrorCode::unsupported,
                fmt::format("this machine's cores are of family {}, and programs are made for those of Inferentia2 and "
                            "Trainium1",
                            instance.family),
                {{"runtime", library.version_text()}}, "use an inf2 or trn1 instance, or --device cpu");
}

// The library may read the environment as soon as it is there.
NrtLibrary open_with_environment(const CoreRange& cores, double timeout_seconds) {
    set_environment(runtime_environment(cores, timeout_seconds));
    return open_for(cores);
}

}  // namespace

NrtLibrary open_for(const CoreRange& cores) {
    NrtLibrary library = NrtLibrary::open();
    require_family(library);
    const uint32_t count = library.core_count();
    if (static_cast<int64_t>(count) < int64_t{cores.first} + cores.count) {
        throw Error(ErrorCode::unsupported,
                    fmt::format("the machine has {} cores, and cores {} were asked for", count, cores.text()),
                    {{"runtime", library.version_text()}},
                    "compile the bundle for fewer ranks, take a larger instance, or see that the driver is loaded and "
                    "/dev/neuron0 is here");
    }
    return library;
}

NrtRuntime::NrtRuntime(int32_t ranks, const std::string& cores, double timeout_seconds, Watchdog::End end)
    : cores_(choose_cores(cores, ranks)),
      timeout_seconds_(timeout_seconds),
      library_(open_with_environment(cores_, timeout_seconds)),
      watchdog_(std::move(end)),
      threads_(ranks, watchdog_) {
    start_runtime();
}

void NrtRuntime::start_runtime() {
    try {
        run("the start of the runtime", 1.0, [this](RankTurn& turn) {
            if (turn.rank() != 0) return;
            turn.says("nrt_init");
            check(turn, "nrt_init", {}, call().nrt_init(abi::kFrameworkNone, "1.0", "1.0"));
        });
    } catch (Error& error) {
        const std::string holders = holders_text(find_core_holders());
        error.add_context("cores", holders.empty() ? cores_.text() : cores_.text() + ", " + holders);
        error.add_context("runtime", library_.version_text());
        throw;
    }
}

void NrtRuntime::begin(const std::string& what, double patience, Command command) {
    finish();
    threads_.start(what, timeout_seconds_ * patience, std::move(command));
}

void NrtRuntime::finish() {
    if (reason_) throw Error(*reason_);
    try {
        threads_.wait();
    } catch (const Error& error) {
        if (is_fatal_) abandon(error);
        throw;
    }
}

void NrtRuntime::abandon(const Error& reason) {
    if (reason_) return;
    reason_ = reason;
    watchdog_.end_in(kAnswerSeconds, reason);
}

void NrtRuntime::check(const RankTurn& turn, const char* function, const std::string& subject, abi::Status status) {
    if (status == abi::kSuccess) return;
    if (meaning_of(status).is_fatal) is_fatal_ = true;
    if (std::strcmp(function, "nrt_execute") == 0) has_failed_execution_ = true;
    throw error_of({function, turn.rank(), subject}, status);
}

void NrtRuntime::close(const Command& free_rank) noexcept {
    try {
        finish();
    } catch (const std::exception&) {
        // Whoever started the round is gone.
    }
    if (reason_) return;
    const bool may_close = !has_failed_execution_ || library_.version().minor >= kClosesAfterFailure;
    try {
        run("the end of the runtime", 1.0, [&](RankTurn& turn) {
            free_rank(turn);
            if (!turn.meet() || turn.rank() != 0 || !may_close) return;
            turn.says("nrt_close");
            call().nrt_close();
        });
    } catch (const std::exception&) {
        // The end of the process frees the rest.
    }
}

}  // namespace gemmatrace::neuron
