// Random numbers as a function of (seed, counter): any draw can be repeated without replaying those before it, on every
// platform and by any number of threads.
#pragma once

#include <cstdint>
#include <string_view>

namespace gemmatrace {

// Mixes all bits of a 64-bit word (the finaliser of SplitMix64, Steele et al. 2014).
inline uint64_t mix_bits(uint64_t word) {
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ULL;
    word = (word ^ (word >> 27)) * 0x94d049bb133111ebULL;
    return word ^ (word >> 31);
}

// The streams of numbers that one seed gives: draw n of a stream depends on the seed and n alone.
class CounterRandom {
  public:
    explicit CounterRandom(uint64_t seed) : key_(mix_bits(seed + kStep)) {}
    // The stream that belongs to a name, e.g. of a tensor, under one seed. Different names give unrelated streams.
    CounterRandom(uint64_t seed, std::string_view name) : CounterRandom(seed ^ name_hash(name)) {}

    // 64 random bits: the counter-th draw.
    uint64_t bits(uint64_t counter) const { return mix_bits(key_ + (counter + 1) * kStep); }
    // Uniform in [0, 1) with 53 random bits.
    double unit(uint64_t counter) const { return static_cast<double>(bits(counter) >> 11) * 0x1p-53; }

  private:
    static constexpr uint64_t kStep = 0x9e3779b97f4a7c15ULL;  // 2^64 over the golden ratio, odd: counters never repeat

    // FNV-1a, 64 bits, then mixed so that names which differ in one letter differ everywhere.
    static uint64_t name_hash(std::string_view name) {
        uint64_t hash = 0xcbf29ce484222325ULL;
        for (const char character : name) hash = (hash ^ static_cast<unsigned char>(character)) * 0x100000001b3ULL;
        return mix_bits(hash);
    }

    uint64_t key_;
};

}  // namespace gemmatrace
