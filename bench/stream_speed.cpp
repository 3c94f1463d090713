// Tokens a second of one stream and of several through the engine, beside what memory and arithmetic of this machine
// allow, all in turns in one run.
#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <random>

#include "base/error.h"
#include "engine/cpu_backend.h"
#include "engine/engine.h"
#include "measure.h"

namespace {

using namespace gemmatrace;

struct Options : bench::CommonOptions {
    int streams = 8;
    int tokens = 8;
};

// Hands over the figures of a stream at its end.
class Stream : public engine::RequestListener {
  public:
    bool on_token(const engine::GeneratedToken&) override { return true; }
    void on_finish(engine::FinishReason, const engine::RequestStatistics& figures) override { end_.set_value(figures); }
    void on_error(const Error& error, const engine::RequestStatistics&) override {
        end_.set_exception(std::make_exception_ptr(error));
    }
    engine::RequestStatistics wait() { return end_.get_future().get(); }

  private:
    std::promise<engine::RequestStatistics> end_;
};

// Tokens a second of all streams together while all of them run. The engine lets one in a step, so the earlier ones get
// as many tokens more as makes all end together, and the last one's time is that of all.
double speed_of_streams(engine::Engine& engine, int streams, int tokens, std::mt19937& random) {
    std::vector<std::shared_ptr<Stream>> listeners;
    for (int stream = 0; stream < streams; ++stream) {
        engine::Request request;
        request.prompt_ids = {static_cast<int32_t>(3 + random() % 1000)};
        request.max_tokens = tokens + streams - stream;
        listeners.push_back(std::make_shared<Stream>());
        engine.submit(std::move(request), listeners.back());
    }
    double seconds = 0.0;
    for (const auto& listener : listeners) seconds = listener->wait().decode_seconds;
    return streams * tokens / seconds;
}

void run(const Options& options) {
    cpu::RunnerOptions runner_options;
    runner_options.threads = options.threads;
    auto runner = std::make_unique<cpu::Runner>(options.checkpoint, runner_options);
    const double bytes = bench::weight_bytes_per_token(runner->config());
    const cpu::Isa isa = runner->isa();
    ThreadPool pool(runner->threads());
    constexpr int64_t kContext = 512;
    auto backend = engine::make_cpu_backend(std::move(runner), options.streams, kContext, runner_options.chunk_tokens);
    engine::EngineOptions engine_options;
    engine_options.cache_bytes = backend->slot_bytes(kContext) * static_cast<size_t>(options.streams);
    engine_options.reuses_prefixes = false;
    engine::Engine engine(std::move(backend), engine_options);

    const std::vector<uint64_t> buffer = options.buffer();
    std::mt19937 random(1);
    speed_of_streams(engine, 1, 2, random);  // everything was touched once
    bench::read_bandwidth(pool, buffer);
    std::vector<double> speedups, shares_of_one, shares_of_all;
    for (int round = 0; round < options.rounds; ++round) {
        const double bandwidth = bench::read_bandwidth(pool, buffer);
        const double peak = bench::fma_peak(pool, isa);
        const double one = speed_of_streams(engine, 1, options.tokens, random);
        const double all = speed_of_streams(engine, options.streams, options.tokens, random);
        // A step reads every weight once and multiplies each once a stream.
        const auto step_seconds = [&](int streams) { return std::max(bytes / bandwidth, streams * bytes / peak); };
        speedups.push_back(all / one);
        shares_of_one.push_back(one * step_seconds(1));
        shares_of_all.push_back(all / options.streams * step_seconds(options.streams));
        fmt::print(
            "round {}: memory {:.1f} GB/s, FMA {:.0f} GFLOP/s; one stream {:.2f} tokens/s ({:.2f} of the roofline), {} "
            "streams {:.2f} tokens/s ({:.2f} of the roofline), {:.2f} times\n",
            round + 1, bandwidth / 1e9, peak / 1e9, one, shares_of_one.back(), options.streams, all,
            shares_of_all.back(), speedups.back());
    }
    fmt::print("median of {} rounds: {} streams {:.2f} times one; of the roofline {:.2f} and {:.2f} ({} threads, {})\n",
               options.rounds, options.streams, bench::median(speedups), bench::median(shares_of_one),
               bench::median(shares_of_all), pool.size(), cpu::isa_name(isa));
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    options.rounds = 3;
    options.buffer_mib = 1024;
    return bench::run_program(
        "Tokens a second of one stream and of several, as a share of the roofline: the larger of bytes over measured "
        "bandwidth and operations over measured FMA peak.\n"
        "Make a full-size checkpoint with: gemmatrace synth --like E2B DIR",
        argc, argv, options,
        {{"--streams", &options.streams, "streams at once", 1, 64},
         {"--tokens", &options.tokens, "tokens a stream and round", 1, 400}},
        [&] { run(options); });
}
