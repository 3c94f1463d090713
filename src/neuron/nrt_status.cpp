// The table of statuses, from the published enum and what the releases' notes and others' reports say of each.
#include "neuron/nrt_status.h"

#include <fmt/format.h>

#include <algorithm>

namespace gemmatrace::neuron {
namespace {

constexpr const char* kReport = "please report this with the command that led to it";
constexpr const char* kReadLog = "start again with NEURON_RT_LOG_LEVEL=INFO and read what the runtime says";
constexpr const char* kReset =
    "start again with NEURON_RT_RESET_CORES=1; when it comes back, stop and start the instance";
constexpr const char* kHardware =
    "start again; when it comes back, stop and start the instance, which moves it to other hardware";

constexpr StatusMeaning kUnknown{-1,       "UNKNOWN",         "a status that this program does not know",
                                 kReadLog, ErrorCode::device, false};

constexpr StatusMeaning kMeanings[] = {
    {0, "SUCCESS", "it succeeded", "", ErrorCode::device, false},
    {1, "FAILURE", "an unspecific failure: another process may hold the core, or the program is for another chip",
     "stop the process that holds the cores (`neuron-ls`), and see that the bundle was compiled for this chip",
     ErrorCode::device, false},
    {2, "INVALID", "something given is not valid: the program, a tensor's name or size, or a core's number",
     "compile the bundle again; on a machine with fewer cores compile it for fewer ranks", ErrorCode::device, false},
    {3, "INVALID_HANDLE", "a model or tensor that is no longer there", kReport, ErrorCode::internal, false},
    {4, "RESOURCE", "no memory on the core or on the host",
     "compile for a shorter context, fewer slots or more ranks, and stop other processes on these cores",
     ErrorCode::resource, false},
    {5, "TIMEOUT", "an execution took longer than the runtime allows",
     "raise --device-timeout; when it comes back, another rank or the hardware hangs", ErrorCode::device, true},
    {6, "HW_ERROR", "the hardware failed", kHardware, ErrorCode::device, true},
    {7, "QUEUE_FULL", "the queue of executions is full", kReport, ErrorCode::internal, false},
    {9, "LOAD_NOT_ENOUGH_NC", "too few cores are free",
     "stop the process that holds them (`neuron-ls`), or compile for fewer ranks", ErrorCode::device, false},
    {10, "UNSUPPORTED_NEFF_VERSION", "the runtime is older than the compiler that made the program",
     "upgrade aws-neuronx-runtime-lib, or compile the bundle with the compiler of this runtime's release",
     ErrorCode::mismatch, false},
    {11, "FAIL_HOST_MEM_ALLOC", "no memory on the host", "close other programs, or take a larger host",
     ErrorCode::resource, false},
    {13, "UNINITIALIZED", "a call before the runtime was started", kReport, ErrorCode::internal, false},
    {14, "CLOSED", "a call after the runtime was closed", kReport, ErrorCode::internal, false},
    {15, "QUEUE_EMPTY", "the queue of executions is empty", kReport, ErrorCode::internal, false},
    {101, "EXEC_UNIT_UNRECOVERABLE", "the core cannot go on", kReset, ErrorCode::device, true},
    {1002, "EXEC_BAD_INPUT", "a tensor of the step is wrong or missing", kReport, ErrorCode::device, false},
    {1003, "EXEC_COMPLETED_WITH_NUM_ERR", "the results hold numbers that are none",
     "check the checkpoint with `gemmatrace inspect`, and compare with --device cpu", ErrorCode::device, true},
    {1004, "EXEC_COMPLETED_WITH_ERR", "a logical or parity error while it ran", kHardware, ErrorCode::device, true},
    {1005, "EXEC_NC_BUSY", "another model or process uses the core", "stop the process that holds it (`neuron-ls`)",
     ErrorCode::device, false},
    {1006, "EXEC_OOB", "an index was out of range, so the results are garbage",
     "the compiled program is wrong: report it with the compiler's version, and use another release or --device cpu",
     ErrorCode::device, true},
    {1100, "COLL_PENDING", "a sum over the ranks is still running", kReport, ErrorCode::device, true},
    {1200, "EXEC_HW_ERR_COLLECTIVES", "it is stuck in a sum over the ranks, mostly because another rank died",
     "look for the first rank that failed; start again", ErrorCode::device, true},
    {1201, "EXEC_HW_ERR_HBM_UE", "an error in the core's memory that cannot be corrected: results are wrong", kHardware,
     ErrorCode::device, true},
    {1202, "EXEC_HW_ERR_NC_UE", "an error in the core that cannot be corrected: results are wrong", kHardware,
     ErrorCode::device, true},
    {1203, "EXEC_HW_ERR_DMA_ABORT", "a transfer was aborted: results are wrong", kHardware, ErrorCode::device, true},
    {1204, "EXEC_SW_NQ_OVERFLOW", "the queue of notifications overflowed",
     "start again with NEURON_RT_ENABLE_DGE_NOTIFICATIONS=0", ErrorCode::device, true},
    {1205, "EXEC_HW_ERR_REPAIRABLE_HBM_UE", "an error in the core's memory that a reset repairs", kReset,
     ErrorCode::device, true},
    {1206, "NETWORK_PROXY_FAILURE", "the network between machines failed", kReport, ErrorCode::device, true},
};

}  // namespace

std::span<const StatusMeaning> status_meanings() { return kMeanings; }

const StatusMeaning& meaning_of(int32_t status) {
    const auto* found = std::ranges::find(kMeanings, status, &StatusMeaning::status);
    return found == std::end(kMeanings) ? kUnknown : *found;
}

Error error_of(const Call& call, int32_t status) {
    const StatusMeaning& meaning = meaning_of(status);
    Error::Context context = {{"call", call.function}, {"rank", std::to_string(call.rank)}};
    if (!call.subject.empty()) context.emplace_back("of", call.subject);
    context.emplace_back("nrt_status", fmt::format("{} ({})", status, meaning.name));
    return {meaning.code, fmt::format("{} failed on rank {}: {}", call.function, call.rank, meaning.meaning),
            std::move(context), meaning.remedy};
}

}  // namespace gemmatrace::neuron
