// Random numbers that are a function of (seed, counter): a draw can be repeated without replaying those before it.
#pragma once

#include <cstdint>

namespace gemmatrace::engine {

// Mixes all bits of a 64-bit word (the finaliser of SplitMix64, Steele et al. 2014).
inline uint64_t mix_bits(uint64_t word) {
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ULL;
    word = (word ^ (word >> 27)) * 0x94d049bb133111ebULL;
    return word ^ (word >> 31);
}

// Uniform in [0, 1) with 53 random bits; the counter-th number of the stream that `seed` names.
inline double random_unit(uint64_t seed, uint64_t counter) {
    const uint64_t key = mix_bits(seed + 0x9e3779b97f4a7c15ULL);
    const uint64_t word = mix_bits(key + (counter + 1) * 0x9e3779b97f4a7c15ULL);
    return static_cast<double>(word >> 11) * 0x1p-53;
}

}  // namespace gemmatrace::engine
