// Decode speed of a checkpoint as a share of what this machine's memory can deliver, both measured in turns in one run.
#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdint>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "cpu/runner.h"
#include "measure.h"
#include "model/decision.h"

namespace {

using namespace gemmatrace;
using bench::Clock;
using bench::seconds_since;

// Resident memory that no file backs, in MiB: everything but the mapped weights.
double anonymous_mib() {
    std::ifstream status("/proc/self/status");
    std::string line;
    while (std::getline(status, line)) {
        if (line.starts_with("RssAnon:")) return std::stod(line.substr(8)) / 1024.0;
    }
    return 0.0;
}

struct Options : bench::CommonOptions {
    int tokens = 8;
    int context = 2048;
};

void run(const Options& options) {
    const auto start = Clock::now();
    cpu::RunnerOptions runner_options;
    runner_options.threads = options.threads;
    cpu::Runner runner(options.checkpoint, runner_options);
    cpu::Slot slot = runner.new_slot(options.context + int64_t{options.rounds} * options.tokens + 1);
    std::mt19937 random(1);
    std::uniform_int_distribution<int32_t> any_id(3, runner.config().vocab_size - 1);
    int32_t id = any_id(random);
    runner.extend(slot, {&id, 1});
    fmt::print("start to first token        {:.2f} s\n", seconds_since(start));
    const auto prefill_start = Clock::now();
    std::vector<int32_t> prompt(static_cast<size_t>(options.context));
    for (int32_t& token : prompt) token = any_id(random);
    runner.extend(slot, prompt);
    fmt::print("prefill of {} tokens      {:.1f} tokens/s\n", options.context,
               static_cast<double>(options.context) / seconds_since(prefill_start));
    const double workspace = anonymous_mib();
    fmt::print("resident beside the weights {:.0f} MiB at {} tokens of context\n", workspace, slot.length());

    const double bytes = bench::weight_bytes_per_token(runner.config());
    const std::vector<uint64_t> buffer = options.buffer();
    ThreadPool pool(runner.threads());
    bench::read_bandwidth(pool, buffer);
    std::vector<double> ratios;
    for (int round = 0; round < options.rounds; ++round) {
        const double bandwidth = bench::read_bandwidth(pool, buffer);
        const auto decode_start = Clock::now();
        for (int token = 0; token < options.tokens; ++token) {
            const auto logits = runner.extend(slot, {&id, 1});
            id = model::greedy_token(logits, runner.config().final_softcap, runner.precision(), {});
        }
        const double speed = options.tokens / seconds_since(decode_start);
        ratios.push_back(speed * bytes / bandwidth);
        fmt::print("round {}: memory {:.1f} GB/s, decode {:.2f} tokens/s = {:.1f} GB/s of weights, ratio {:.2f}\n",
                   round + 1, bandwidth / 1e9, speed, speed * bytes / 1e9, ratios.back());
    }
    fmt::print("decode / memory bandwidth, median of {} rounds: {:.2f} ({} threads, {}, {:.2f} GB a token)\n",
               options.rounds, bench::median(ratios), runner.threads(), cpu::isa_name(runner.isa()), bytes / 1e9);
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    options.rounds = 5;
    options.buffer_mib = 2048;
    return bench::run_program(
        "Decode speed of a checkpoint beside the read bandwidth of this machine's memory.\n"
        "Make a full-size one with: gemmatrace synth --like E2B DIR",
        argc, argv, options,
        {{"--tokens", &options.tokens, "tokens decoded a round", 1, 1000},
         {"--context", &options.context, "tokens of prompt before decoding", 1, 1 << 20}},
        [&] { run(options); });
}
