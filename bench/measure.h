// What the benchmark programs measure of the machine itself, to have something to compare with.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "checkpoint/config.h"
#include "cpu/isa.h"

namespace gemmatrace::bench {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// Bytes of the matrices one decoded token reads; tables are only gathered from, the tied embedding is read as the head.
// Half of it is the number of multiplications of a token.
double weight_bytes_per_token(const checkpoint::ModelConfig& config);

// One pass of every thread over its own stretch of a buffer far larger than the caches; bytes a second.
double read_bandwidth(ThreadPool& pool, const std::vector<uint64_t>& buffer);

// Fused multiply-adds of registers of that instruction set on all threads, two operations each; operations a second.
double fma_peak(ThreadPool& pool, cpu::Isa isa);

double median(std::vector<double> values);

// What every program here asks for: CHECKPOINT, --threads, --rounds, --buffer-mib; what is set is the default.
struct CommonOptions {
    std::string checkpoint;
    int threads = 0;
    int rounds = 0;
    size_t buffer_mib = 0;

    // Far larger than the caches.
    std::vector<uint64_t> buffer() const;
};

// An option of one program, a whole number.
struct NumberOption {
    const char* name;
    int* value;  // the default at first
    const char* help;
    int least;
    int most;
};

// Parses and works; an error goes to standard error. The exit status.
int run_program(const std::string& description, int argc, char** argv, CommonOptions& options,
                const std::vector<NumberOption>& numbers, const std::function<void()>& work);

}  // namespace gemmatrace::bench
