// Steps of `gemmatrace doctor --first-contact` with small programs: each is compiled, run, and compared with what our
// evaluator says.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/bf16.h"
#include "base/file_mapping.h"
#include "cli/doctor_bench.h"
#include "cli/doctor_run.h"
#include "neuron/compiled.h"
#include "neuron/neff.h"
#include "neuron/rank_probe.h"

namespace gemmatrace::cli {
namespace {

using neuron::Probe;
using neuron::ProbeDifference;
using neuron::ProbeProgram;
using neuron::ProbeValues;
using nlohmann::ordered_json;

constexpr const char* kCompileStep = "compile";

// Notes the results of a probe and what deviates.
void judge_differences(const Probe& probe, double bound, const std::vector<ProbeDifference>& differences,
                       StepFinding& finding) {
    double largest = 0.0;
    size_t different = 0;
    for (const ProbeDifference& output : differences) {
        const double relative = output.largest_difference / std::max(output.largest_expected, 1e-30);
        largest = std::max(largest, relative);
        different += output.different;
        const bool is_wrong = probe.is_exact ? output.different > 0 : output.not_numbers > 0 || relative > bound;
        if (!is_wrong) continue;
        finding.fail(fmt::format("{}: {} of {} elements of {} on rank {} differ{}; {}", probe.question,
                                 output.different, output.elements, output.output, output.rank,
                                 output.not_numbers > 0 ? fmt::format(", {} are no numbers", output.not_numbers) : "",
                                 output.first));
    }
    finding.seen[probe.module.name] = {{"different", different}, {"largest_relative", largest}};
}

std::vector<ProbeValues> values_of_ranks(const Probe& probe, int32_t ranks) {
    std::vector<ProbeValues> values;
    for (int32_t rank = 0; rank < ranks; ++rank) {
        values.push_back(neuron::probe_values(probe.module, static_cast<uint32_t>(rank) + 5));
    }
    return values;
}

void run_and_judge(trace::Device& device, const Probe& probe, double bound, StepFinding& finding) {
    ProbeProgram program(device, probe.module);
    judge_differences(probe, bound,
                      compare_with_evaluator(program, probe.module, values_of_ranks(probe, device.ranks())), finding);
}

std::vector<std::byte> integer_bytes(int32_t value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    return {bytes.begin(), bytes.end()};
}

// So many bf16 values, all the same.
std::vector<std::byte> filled(size_t count, float value) {
    const std::vector<uint16_t> halves(count, float_to_bf16(value));
    const auto bytes = std::as_bytes(std::span(halves));
    return {bytes.begin(), bytes.end()};
}

std::vector<float> floats_of(const std::vector<std::byte>& bytes) {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::ranges::copy(bytes, std::as_writable_bytes(std::span(values)).begin());
    return values;
}

ordered_json rank_statuses(const std::vector<neuron::abi::Status>& statuses) { return ordered_json(statuses); }

bool are_all_well(const std::vector<neuron::abi::Status>& statuses) {
    return std::ranges::all_of(statuses, [](auto status) { return status == neuron::abi::kSuccess; });
}

// Which number of cores loads take: -1 and 1 are both on record.
void probe_load_counts(const StepContext& context, const Probe& probe, const std::string& neff, StepFinding& finding) {
    neuron::NrtRuntime runtime(context.options.ranks, context.options.cores, context.options.timeout_seconds,
                               end_apart);
    {
        neuron::RankProbe ranks(runtime, probe.module, std::as_bytes(std::span(neff)));
        bool is_any = false;
        for (const int32_t count : {-1, 1}) {
            const auto statuses = ranks.load(count);
            finding.seen[fmt::format("load_with_{}", count)] = rank_statuses(statuses);
            is_any |= are_all_well(statuses);
            ranks.unload();
        }
        if (!is_any)
            finding.fail("no load over several ranks succeeded, neither with -1 nor with 1 as number of cores");
    }
    runtime.close([](neuron::RankTurn&) {});
}

void run_alias(trace::Device& device, const Probe& probe, int64_t rows, StepFinding& finding) {
    ProbeProgram program(device, probe.module);
    const ProbeValues start = neuron::probe_values(probe.module, 3);
    const size_t row_bytes = start.at("update").size();
    std::vector<std::byte> expected = start.at("cache");
    program.write(start, 0);
    int32_t step = 0;
    for (const int64_t row : {int64_t{5}, rows - 1, int64_t{0}, int64_t{5}}) {
        const ProbeValues fresh = neuron::probe_values(probe.module, static_cast<uint32_t>(100 + step++));
        program.write("update", 0, 0, fresh.at("update"));
        program.write("row", 0, 0, integer_bytes(static_cast<int32_t>(row)));
        program.run();
        std::ranges::copy(fresh.at("update"),
                          expected.begin() + static_cast<std::ptrdiff_t>(row) * static_cast<std::ptrdiff_t>(row_bytes));
        const auto found = program.read("cache", 0, 0, expected.size());
        if (found == expected) continue;
        size_t wrong_rows = 0;
        bool is_row_wrong = false;
        for (int64_t other = 0; other < rows; ++other) {
            const auto begin = static_cast<std::ptrdiff_t>(static_cast<size_t>(other) * row_bytes);
            if (std::equal(found.begin() + begin, found.begin() + begin + static_cast<std::ptrdiff_t>(row_bytes),
                           expected.begin() + begin))
                continue;
            ++wrong_rows;
            is_row_wrong |= other == row;
        }
        finding.fail(fmt::format(
            "{}: after a write of row {} {} rows are wrong, {}", probe.question, row, wrong_rows,
            is_row_wrong ? "that one among them: the write was dropped or went elsewhere" : "but not that one"));
        return;
    }
    finding.seen[probe.module.name] = "every row as written";
}

StepFinding stream(const StepContext& context, int32_t ranks, const std::string& step) {
    StepFinding finding;
    const bool is_small = context.options.is_small;
    const int64_t columns = is_small ? 256 : 4096;
    const int64_t rows = is_small ? 64 : 65536;
    const Probe probe = neuron::streaming_probe(rows, columns);
    const ProbeBench bench(context, step);
    bench.compile(probe);
    const auto device = bench.device(ranks);
    ProbeProgram program(*device, probe.module);
    const auto ones = filled(static_cast<size_t>(columns), 1.0F);
    const size_t matrix_bytes = static_cast<size_t>(rows) * ones.size();
    const std::vector<std::byte> slice = filled(std::min<size_t>(matrix_bytes, size_t{4} << 20) / 2, 1.0F);
    for (int32_t rank = 0; rank < ranks; ++rank) {
        program.write("x", rank, 0, ones);
        for (const char* matrix : {"first", "second"}) {
            for (size_t at = 0; at < matrix_bytes; at += slice.size()) {
                program.write(matrix, rank, at, std::span(slice).first(std::min(slice.size(), matrix_bytes - at)));
            }
        }
    }
    std::vector<double> seconds;
    program.run();
    for (int repeat = 0; repeat < (is_small ? 3 : 20); ++repeat) seconds.push_back(program.run());
    const double rate = 2.0 * static_cast<double>(matrix_bytes) / median_of(seconds) / 1e9;
    finding.seen = {{"bytes_of_a_core", 2 * matrix_bytes},
                    {"milliseconds", median_of(seconds) * 1e3},
                    {"gb_per_s_of_a_core", rate},
                    {"cores", ranks}};
    for (int32_t rank = 0; rank < ranks; ++rank) {
        const auto y = floats_of(program.read("y", rank, 0, static_cast<size_t>(rows) * 4));
        const auto expected = 2.0F * static_cast<float>(columns);
        const auto wrong = std::ranges::count_if(y, [&](float value) { return value != expected; });
        if (wrong > 0) finding.fail(fmt::format("{} of {} results on rank {} are not {}", wrong, rows, rank, expected));
    }
    return finding;
}

}  // namespace

StepFinding compile_addition(const StepContext& context) {
    StepFinding finding;
    const ProbeBench bench(context, kCompileStep);
    const neuron::CompiledJob job = bench.compile(neuron::addition_probe());
    finding.seen = {{"seconds", job.seconds},
                    {"peak_memory_bytes", job.peak_memory_bytes},
                    {"neff_bytes", job.neff_bytes},
                    {"from_cache", job.was_cached}};
    return finding;
}

StepFinding look_at_neff(const StepContext& context) {
    StepFinding finding;
    const auto file = context.folder(kCompileStep) / "programs" / "addition.neff";
    const std::string bytes = read_file(file, neuron::kLargestNeffBytes);
    const neuron::NeffInfo neff = neuron::read_neff(std::as_bytes(std::span(bytes)), file.string());
    finding.seen = {{"version", fmt::format("{}.{}", neff.version_major, neff.version_minor)},
                    {"build", neff.build_version},
                    {"feature_bits", fmt::format("{:#x}", neff.feature_bits)},
                    {"lnc_size", neff.lnc_size},
                    {"scratchpad_bytes", neff.scratchpad_bytes}};
    for (const neuron::NeffTensor& tensor : neff.tensors) {
        const bool is_input = tensor.kind == neuron::NeffTensor::Kind::input;
        if (!is_input && tensor.kind != neuron::NeffTensor::Kind::output) continue;
        finding.seen[is_input ? "inputs" : "outputs"][tensor.name] = tensor.bytes;
    }
    if (neff.version_major != 2) finding.fail(fmt::format("the NEFF is of version {}", neff.version_major));
    if (neff.lnc_size > 1) finding.fail(fmt::format("{} cores act as one", neff.lnc_size));
    return finding;
}

StepFinding run_addition(const StepContext& context) {
    StepFinding finding;
    const Probe probe = neuron::addition_probe();
    const ProbeBench bench(context, "operation");
    bench.compile(probe);
    const auto device = bench.device(1);
    finding.seen["device"] = device->description();
    run_and_judge(*device, probe, 0.0, finding);
    return finding;
}

StepFinding probe_types(const StepContext& context) {
    StepFinding finding;
    const std::vector<Probe> probes = neuron::type_probes();
    const ProbeBench bench(context, "types");
    std::vector<const Probe*> compiled;
    for (const Probe& probe : probes) {  // one that the compiler refuses leaves the others
        try {
            bench.compile(probe);
            compiled.push_back(&probe);
        } catch (const Error& error) {
            if (error.code() == ErrorCode::interrupted) throw;
            finding.fail(fmt::format("{}: {}", probe.question, error.message()));
        }
    }
    const auto device = bench.device(1);
    for (const Probe* probe : compiled) {
        const bool is_curve = probe->module.name == "curves";
        run_and_judge(*device, *probe, context.expect.of(is_curve ? "curve_relative" : "dot_relative"), finding);
    }
    return finding;
}

StepFinding probe_ranks(const StepContext& context) {
    StepFinding finding;
    const int32_t ranks = context.options.ranks;
    if (ranks < 2) {
        finding.skipped = "one core was asked for (--tp)";
        return finding;
    }
    const Probe probe = neuron::ranks_probe(ranks);
    const ProbeBench bench(context, "ranks");
    bench.compile(probe);
    const std::string neff = read_file(bench.neff_file(probe.module.name), neuron::kLargestNeffBytes);
    // The runtime starts once in a process.
    const ApartResult loads = run_apart([&] {
        StepFinding counts;
        probe_load_counts(context, probe, neff, counts);
        return ordered_json{{"seen", counts.seen}, {"faults", counts.faults}};
    });
    if (loads.answer) {
        finding.seen = loads.answer->at("seen");
        for (const auto& fault : loads.answer->at("faults")) finding.fail(fault);
    } else {
        finding.remark("loading with both numbers of cores did not end well: " +
                       (loads.error ? loads.error->at("message").get<std::string>() : "the process was ended"));
    }
    const auto device = bench.device(ranks);
    run_and_judge(*device, probe, 0.0, finding);
    return finding;
}

StepFinding probe_alias(const StepContext& context) {
    StepFinding finding;
    constexpr int64_t kRows = 64;
    const Probe probes[] = {neuron::alias_probe(kRows, true), neuron::alias_probe(kRows, false)};
    const ProbeBench bench(context, "alias");
    bench.compile(probes);
    const auto device = bench.device(1);
    for (const Probe& probe : probes) run_alias(*device, probe, kRows, finding);
    return finding;
}

StepFinding stream_one_core(const StepContext& context) {
    StepFinding finding = stream(context, 1, "streaming");
    const double rate = finding.seen["gb_per_s_of_a_core"];
    if (context.options.is_small) {
        finding.remark("a small matrix: the rate is not judged");
    } else if (rate < context.expect.of("core_gb_per_s")) {
        finding.fail(fmt::format("a core reads {:.0f} GB/s", rate));
    }
    return finding;
}

StepFinding stream_all_cores(const StepContext& context) {
    if (context.options.ranks < 2) {
        StepFinding finding;
        finding.skipped = "one core was asked for (--tp)";
        return finding;
    }
    StepFinding finding = stream(context, context.options.ranks, "streaming-all");
    const ordered_json* alone = context.seen_by("streaming");
    if (context.options.is_small || alone == nullptr) {
        finding.remark("the rate is not judged: small matrices, or `streaming` has not passed");
        return finding;
    }
    const double share =
        finding.seen["gb_per_s_of_a_core"].get<double>() / alone->at("gb_per_s_of_a_core").get<double>();
    finding.seen["share"] = share;
    if (share < context.expect.of("both_share")) finding.fail(fmt::format("each core keeps {:.2f} of its rate", share));
    return finding;
}

StepFinding probe_biggest(const StepContext& context) {
    StepFinding finding;
    constexpr int64_t kColumns = 4096;
    const int64_t rows = context.options.is_small ? 64 : ((int64_t{1} << 31) - 1) / (2 * kColumns);
    const Probe probe = neuron::biggest_probe(rows, kColumns);
    const ProbeBench bench(context, "biggest");
    bench.compile(probe);
    const auto device = bench.device(1);
    ProbeProgram program(*device, probe.module);
    finding.seen["bytes"] = rows * kColumns * 2;
    float mark = 1.0F;
    for (const int64_t row : {int64_t{0}, rows / 2, rows - 1}) {
        const auto bytes = filled(kColumns, mark);
        program.write("table", 0, static_cast<size_t>(row) * bytes.size(), bytes);
        program.write("row", 0, 0, integer_bytes(static_cast<int32_t>(row)));
        program.run();
        const auto y = floats_of(program.read("y", 0, 0, kColumns * 4));
        const auto wrong = std::ranges::count_if(y, [&](float value) { return value != mark; });
        if (wrong > 0)
            finding.fail(
                fmt::format("row {} of {}: {} of {} values are not what was written", row, rows, wrong, kColumns));
        mark += 1.0F;
    }
    return finding;
}

StepFinding probe_inputs(const StepContext& context) {
    StepFinding finding;
    constexpr std::array<int32_t, 3> kCounts = {1, 100, 300};
    std::vector<Probe> probes;
    for (const int32_t count : kCounts) probes.push_back(neuron::inputs_probe(count));
    const ProbeBench bench(context, "inputs");
    bench.compile(probes);
    const auto device = bench.device(1);
    std::vector<double> milliseconds;
    for (const Probe& probe : probes) {
        ProbeProgram program(*device, probe.module);
        judge_differences(probe, 0.0, compare_with_evaluator(program, probe.module, values_of_ranks(probe, 1)),
                          finding);
        std::vector<double> seconds;
        for (int repeat = 0; repeat < (context.options.is_small ? 5 : 200); ++repeat) seconds.push_back(program.run());
        milliseconds.push_back(median_of(seconds) * 1e3);
        finding.seen[probe.module.name]["milliseconds"] = milliseconds.back();
    }
    const double each = (milliseconds.back() - milliseconds.front()) * 1e3 / (kCounts.back() - kCounts.front());
    finding.seen["us_of_an_input"] = each;
    if (context.options.is_small) return finding;
    if (milliseconds.front() > context.expect.of("call_ms")) {
        finding.fail(fmt::format("a call takes {:.2f} ms", milliseconds.front()));
    }
    if (each > context.expect.of("input_us")) finding.fail(fmt::format("each input costs {:.1f} us", each));
    return finding;
}

}  // namespace gemmatrace::cli
