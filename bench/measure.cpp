// Memory bandwidth and arithmetic peak, measured with nothing else to do.
#include "measure.h"

#include <immintrin.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <atomic>
#include <iostream>

#include "base/error.h"
#include "model/weight_plan.h"

namespace gemmatrace::bench {
namespace {

constexpr int64_t kSteps = 20'000'000;
std::atomic<uint64_t> sink{0};  // results go here, so that the work happens

// Ten chains hide the latency of a step; to a compiler that knew that they begin alike they would be one. Returns
// operations done.
__attribute__((target("avx2,fma"))) double run_avx2() {
    const __m256 a = _mm256_set1_ps(0.999F);
    __m256 s0 = a, s1 = a, s2 = a, s3 = a, s4 = a, s5 = a, s6 = a, s7 = a, s8 = a, s9 = a;
    for (int64_t step = 0; step < kSteps; ++step) {
        asm("" : "+x"(s0), "+x"(s1), "+x"(s2), "+x"(s3), "+x"(s4), "+x"(s5), "+x"(s6), "+x"(s7), "+x"(s8), "+x"(s9));
        s0 = _mm256_fmadd_ps(s0, a, a), s1 = _mm256_fmadd_ps(s1, a, a), s2 = _mm256_fmadd_ps(s2, a, a);
        s3 = _mm256_fmadd_ps(s3, a, a), s4 = _mm256_fmadd_ps(s4, a, a), s5 = _mm256_fmadd_ps(s5, a, a);
        s6 = _mm256_fmadd_ps(s6, a, a), s7 = _mm256_fmadd_ps(s7, a, a), s8 = _mm256_fmadd_ps(s8, a, a);
        s9 = _mm256_fmadd_ps(s9, a, a);
    }
    const __m256 sum = ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7)) + (s8 + s9);
    sink += static_cast<uint64_t>(_mm256_cvtss_f32(sum));
    return 10.0 * 8 * 2 * kSteps;
}

__attribute__((target("avx512f"))) double run_avx512() {
    const __m512 a = _mm512_set1_ps(0.999F);
    __m512 s0 = a, s1 = a, s2 = a, s3 = a, s4 = a, s5 = a, s6 = a, s7 = a, s8 = a, s9 = a;
    for (int64_t step = 0; step < kSteps; ++step) {
        asm("" : "+v"(s0), "+v"(s1), "+v"(s2), "+v"(s3), "+v"(s4), "+v"(s5), "+v"(s6), "+v"(s7), "+v"(s8), "+v"(s9));
        s0 = _mm512_fmadd_ps(s0, a, a), s1 = _mm512_fmadd_ps(s1, a, a), s2 = _mm512_fmadd_ps(s2, a, a);
        s3 = _mm512_fmadd_ps(s3, a, a), s4 = _mm512_fmadd_ps(s4, a, a), s5 = _mm512_fmadd_ps(s5, a, a);
        s6 = _mm512_fmadd_ps(s6, a, a), s7 = _mm512_fmadd_ps(s7, a, a), s8 = _mm512_fmadd_ps(s8, a, a);
        s9 = _mm512_fmadd_ps(s9, a, a);
    }
    const __m512 sum = ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7)) + (s8 + s9);
    sink += static_cast<uint64_t>(_mm512_cvtss_f32(sum));
    return 10.0 * 16 * 2 * kSteps;
}

}  // namespace

double weight_bytes_per_token(const checkpoint::ModelConfig& config) {
    double bytes = 0.0;
    for (const auto& slot : model::weight_plan(config)) {
        if (slot.role == model::WeightRole::host_table || slot.shape.size() < 2) continue;
        double elements = 1.0;
        for (const int64_t dimension : slot.shape) elements *= static_cast<double>(dimension);
        if (slot.role == model::WeightRole::expert) {
            const auto& moe = *config.layers.front().moe;
            elements *= static_cast<double>(moe.top_k) / moe.experts;
        }
        bytes += 2.0 * elements;
    }
    return bytes;
}

double read_bandwidth(ThreadPool& pool, const std::vector<uint64_t>& buffer) {
    const auto start = Clock::now();
    pool.parallel_for(static_cast<int64_t>(buffer.size()), 4096, [&](int, int64_t begin, int64_t end) {
        uint64_t lanes[8] = {};
        for (int64_t index = begin; index + 8 <= end; index += 8) {
            for (int64_t lane = 0; lane < 8; ++lane) lanes[lane] += buffer[static_cast<size_t>(index + lane)];
        }
        for (const uint64_t lane : lanes) sink += lane;
    });
    return static_cast<double>(buffer.size() * sizeof(uint64_t)) / seconds_since(start);
}

double fma_peak(ThreadPool& pool, cpu::Isa isa) {
    std::atomic<double> operations{0.0};
    const auto start = Clock::now();
    pool.parallel_for(pool.size(), 1, [&](int, int64_t begin, int64_t end) {
        if (begin < end) operations += isa == cpu::Isa::avx512 ? run_avx512() : run_avx2();
    });
    return operations / seconds_since(start);
}

double median(std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
}

std::vector<uint64_t> CommonOptions::buffer() const {
    return std::vector<uint64_t>(buffer_mib * (size_t{1} << 20) / sizeof(uint64_t), 1);
}

int run_program(const std::string& description, int argc, char** argv, CommonOptions& options,
                const std::vector<NumberOption>& numbers, const std::function<void()>& work) {
    CLI::App app(description);
    app.add_option("checkpoint", options.checkpoint, "checkpoint directory")->required();
    app.add_option("--threads", options.threads, "threads; 0: one a core");
    app.add_option("--rounds", options.rounds, "measurements in turns")->check(CLI::Range(1, 1000));
    app.add_option("--buffer-mib", options.buffer_mib, "buffer whose reading gives the bandwidth")
        ->check(CLI::Range(64, 65536));
    for (const NumberOption& number : numbers) {
        app.add_option(number.name, *number.value, number.help)->check(CLI::Range(number.least, number.most));
    }
    CLI11_PARSE(app, argc, argv);
    try {
        work();
        return 0;
    } catch (const Error& error) {
        std::cerr << "error: " << error.what() << '\n';
        return exit_status(error.code());
    }
}

}  // namespace gemmatrace::bench
