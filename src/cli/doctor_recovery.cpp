// The last step of `gemmatrace doctor --first-contact`: a rank that stays away, and cores after their process was
// killed.
#include <fmt/format.h>
#include <stdlib.h>

#include <csignal>

#include "base/file_mapping.h"
#include "cli/doctor_bench.h"
#include "cli/doctor_run.h"
#include "neuron/compiled.h"
#include "neuron/nrt_status.h"
#include "neuron/rank_probe.h"

namespace gemmatrace::cli {
namespace {

using nlohmann::ordered_json;

constexpr double kStuckTimeout = 5.0;
constexpr double kSmallStuckTimeout = 1.0;
constexpr double kBusySeconds = 0.3;  // of work before the kill

struct RecoveryBench {
    const StepContext& context;
    const ProbeBench& bench;
    const neuron::Probe& probe;
    const std::string& neff;
};

// Runs the program on all ranks but the last.
ordered_json leave_a_rank_out(const RecoveryBench& it, double timeout) {
    const int32_t ranks = it.context.options.ranks;
    neuron::NrtRuntime runtime(ranks, it.context.options.cores, timeout, end_apart);
    neuron::RankProbe program(runtime, it.probe.module, std::as_bytes(std::span(it.neff)));
    auto statuses = program.load(-1);
    if (statuses.front() == neuron::abi::kInvalid) statuses = program.load(1);
    if (statuses.front() != neuron::abi::kSuccess) throw neuron::error_of({"nrt_load_collectives"}, statuses.front());
    statuses = program.execute([&](int32_t rank) { return rank != ranks - 1; });
    return {{"statuses", statuses}};  // the process ends: what the cores hold does not matter any more
}

void look_at_stuck_rank(const RecoveryBench& it, StepFinding& finding) {
    const double timeout = it.context.options.is_small ? kSmallStuckTimeout : kStuckTimeout;
    const ApartResult result = run_apart([&] { return leave_a_rank_out(it, timeout); });
    auto& seen = finding.seen["a_rank_stays_away"] = {{"timeout_seconds", timeout}, {"seconds", result.seconds}};
    if (result.was_ended) {
        seen["noticed_by"] = "our watchdog";
        seen["message"] = result.error->at("message");
    } else if (result.answer) {
        seen["noticed_by"] = "the runtime";
        seen["statuses"] = result.answer->at("statuses");
        bool is_noticed = false;
        for (const auto& status : seen["statuses"]) is_noticed |= status != neuron::abi::kSuccess;
        if (!is_noticed) finding.fail("a sum over ranks ended well though a rank stayed away");
    } else {
        finding.fail("the probe of a stuck rank did not come that far: " +
                     (result.error ? result.error->at("message").get<std::string>()
                                   : fmt::format("its process was ended by signal {}", result.signal)));
    }
    if (result.seconds > timeout + it.context.expect.of("notice_s")) {
        finding.fail(fmt::format("it took {:.0f} s to notice", result.seconds));
    }
}

ordered_json sum_until_killed(const RecoveryBench& it) {
    const auto device = it.bench.device(it.context.options.ranks);
    neuron::ProbeProgram program(*device, it.probe.module);
    program.run();
    say_running();
    while (true) program.run();
}

ordered_json sum_once(const RecoveryBench& it, bool resets) {
    if (resets) ::setenv("NEURON_RT_RESET_CORES", "1", 1);
    const auto device = it.bench.device(it.context.options.ranks);
    neuron::ProbeProgram program(*device, it.probe.module);
    std::vector<neuron::ProbeValues> values;
    for (int32_t rank = 0; rank < device->ranks(); ++rank) {
        values.push_back(neuron::probe_values(it.probe.module, static_cast<uint32_t>(rank) + 9));
    }
    size_t different = 0;
    for (const auto& output : compare_with_evaluator(program, it.probe.module, values)) different += output.different;
    return {{"different", different}};
}

void look_after_kill(const RecoveryBench& it, bool resets, StepFinding& finding) {
    const ApartResult killed = run_apart([&] { return sum_until_killed(it); }, kBusySeconds);
    if (killed.signal != SIGKILL) {
        return finding.fail("the process to be killed ended by itself: " +
                            (killed.error ? killed.error->at("message").get<std::string>() : "without a word"));
    }
    const ApartResult next = run_apart([&] { return sum_once(it, resets); });
    auto& seen = finding.seen[resets ? "after_a_kill_with_reset" : "after_a_kill"] = {{"seconds", next.seconds}};
    const bool is_right = next.answer && next.answer->at("different") == 0;
    seen["right"] = is_right;
    if (next.error) seen["error"] = next.error->at("message");
    if (is_right) return;
    if (resets)
        finding.fail("after a kill the cores do not work, even with a reset");
    else
        finding.remark("without a reset the cores do not work after a kill");
}

}  // namespace

StepFinding probe_recovery(const StepContext& context) {
    StepFinding finding;
    const bool is_alone = context.options.ranks < 2;
    const neuron::Probe probe = is_alone ? neuron::addition_probe() : neuron::ranks_probe(context.options.ranks);
    const ProbeBench bench(context, "recovery");
    bench.compile(probe);
    const std::string neff = read_file(bench.neff_file(probe.module.name), neuron::kLargestNeffBytes);
    const RecoveryBench it{context, bench, probe, neff};
    look_after_kill(it, false, finding);
    if (!is_alone) look_at_stuck_rank(it, finding);
    look_after_kill(it, true, finding);
    return finding;
}

}  // namespace gemmatrace::cli
