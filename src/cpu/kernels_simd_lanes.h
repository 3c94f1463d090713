// What the vector kernels share, written once over a register type: eight lanes and their folds, softmax, one product.
// Everything here and in the headers beside it has internal linkage and no library function is called, so that no code
// compiled with an instruction set's flags can be linked into the rest of the program.
#pragma once

#include <immintrin.h>

#include "cpu/kernels.h"

// A loop over an array that is to live in registers; otherwise gcc keeps such arrays in memory.
#ifdef __clang__
#define GEMMATRACE_UNROLL _Pragma("unroll")
#else
#define GEMMATRACE_UNROLL _Pragma("GCC unroll 8")
#endif

namespace gemmatrace::cpu {
namespace {

// --- eight lanes: tails, folds, softmax ---

inline __m256 load8(const float* values) { return _mm256_loadu_ps(values); }
inline __m256 load8(const uint16_t* values) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(values));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
inline float load1(const float* value) { return *value; }
inline float load1(const uint16_t* value) {
    return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(static_cast<int>(static_cast<uint32_t>(*value) << 16))));
}
inline float fma1(float a, float b, float c) {
    return _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(a), _mm_set_ss(b), _mm_set_ss(c)));
}

// Lane k + half added to lane k for halves 4, 2, 1.
inline float fold8(__m256 sums) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

// Lane k + half added to lane k for halves 4, 2, 1, of eight registers; result i in lane i.
inline __m256 fold8_of_8(const float* rows) {
    __m256 halves[4];
    for (int pair = 0; pair < 4; ++pair) {
        const __m256 a = load8(rows + pair * 8), b = load8(rows + (pair + 4) * 8);
        halves[pair] = _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
    }
    __m256 quarters[2];
    for (int pair = 0; pair < 2; ++pair) {
        const __m256 a = halves[2 * pair], b = halves[2 * pair + 1];
        quarters[pair] = _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xee));
    }
    return _mm256_add_ps(_mm256_shuffle_ps(quarters[0], quarters[1], 0x88),
                         _mm256_shuffle_ps(quarters[0], quarters[1], 0xdd));
}

// Nearest bf16, ties to even, kept as floats; NaN stays NaN.
inline __m256 round8(__m256 values) {
    const __m256i bits = _mm256_castps_si256(values);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i bumped = _mm256_add_epi32(bits, _mm256_add_epi32(_mm256_set1_epi32(0x7fff), odd));
    const __m256 rounded =
        _mm256_castsi256_ps(_mm256_and_si256(bumped, _mm256_set1_epi32(static_cast<int>(0xffff0000U))));
    return _mm256_blendv_ps(rounded, values, _mm256_cmp_ps(values, values, _CMP_UNORD_Q));
}
inline float round1(float value) { return _mm256_cvtss_f32(round8(_mm256_set1_ps(value))); }

inline __m256 exp_of_distance8(__m256 distance) {
    const __m256 q =
        _mm256_round_ps(_mm256_mul_ps(distance, _mm256_set1_ps(kLog2E)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m256 r =
        _mm256_fmadd_ps(q, _mm256_set1_ps(-kLn2Low), _mm256_fmadd_ps(q, _mm256_set1_ps(-kLn2High), distance));
    __m256 u = _mm256_set1_ps(kExpPolynomial[0]);
    for (int term = 1; term < 6; ++term) u = _mm256_fmadd_ps(u, r, _mm256_set1_ps(kExpPolynomial[term]));
    const __m256 mantissa = _mm256_add_ps(_mm256_set1_ps(1.0F), _mm256_fmadd_ps(_mm256_mul_ps(r, r), u, r));
    // 2^q in two factors, so that results below the normal range round once
    const __m256i exponent = _mm256_cvtps_epi32(q);
    const __m256i half = _mm256_srai_epi32(exponent, 1);
    const auto power = [](__m256i e) {
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(e, _mm256_set1_epi32(127)), 23));
    };
    const __m256 value = _mm256_mul_ps(_mm256_mul_ps(mantissa, power(half)), power(_mm256_sub_epi32(exponent, half)));
    return _mm256_and_ps(value, _mm256_cmp_ps(distance, _mm256_set1_ps(kExpFloor), _CMP_GE_OQ));
}

inline float exp_of_distance1(float distance) { return _mm256_cvtss_f32(exp_of_distance8(_mm256_set1_ps(distance))); }

inline void softmax_simd(float* scores, int64_t count, bool round) {
    __m256 largest = _mm256_set1_ps(-__builtin_inff());
    for (int64_t index = 0; index < count; index += 8) largest = _mm256_max_ps(largest, load8(scores + index));
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(largest), _mm256_extractf128_ps(largest, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    four = _mm_max_ss(four, _mm_shuffle_ps(four, four, 1));
    largest = _mm256_set1_ps(_mm_cvtss_f32(four));
    __m256 sums = _mm256_setzero_ps();
    for (int64_t index = 0; index < count; index += 8) {
        const __m256 value = exp_of_distance8(_mm256_sub_ps(load8(scores + index), largest));
        _mm256_storeu_ps(scores + index, value);
        sums = _mm256_add_ps(sums, value);
    }
    const __m256 factor = _mm256_set1_ps(1.0F / fold8(sums));
    for (int64_t index = 0; index < count; index += 8) {
        const __m256 value = _mm256_mul_ps(load8(scores + index), factor);
        _mm256_storeu_ps(scores + index, round ? round8(value) : value);
    }
}

// --- products ---

// What dot64 adds for the columns beyond the last multiple of 64.
template <typename Element>
float add_tail(float total, const float* x, const Element* weights, int64_t columns) {
    const int64_t columns64 = columns / 64 * 64;
    const int64_t columns16 = columns / 16 * 16;
    __m256 rest = _mm256_setzero_ps();
    for (int64_t column = columns64; column < columns16; column += 8) {
        rest = _mm256_fmadd_ps(load8(x + column), load8(weights + column), rest);
    }
    total += fold8(rest);
    for (int64_t column = columns16; column < columns; ++column) {
        total = fma1(x[column], load1(weights + column), total);
    }
    return total;
}

// The 64 sums in kGroups registers, register g holding sums [g * width, (g + 1) * width), folded to eight.
template <typename V>
__m256 fold_to_8(typename V::Register (&sums)[V::kGroups]) {
    GEMMATRACE_UNROLL
    for (int half = V::kGroups / 2; half >= 1; half /= 2) {
        GEMMATRACE_UNROLL
        for (int group = 0; group < half; ++group) sums[group] = V::add(sums[group], sums[group + half]);
    }
    return V::fold_to_8(sums[0]);
}
template <typename V>
float fold64(typename V::Register (&sums)[V::kGroups]) {
    return fold8(fold_to_8<V>(sums));
}

// One output: a single sequential stream over the weight row, all 64 sums in registers.
template <typename V, typename Element>
float dot64(const float* x, const Element* weights, int64_t columns) {
    typename V::Register sums[V::kGroups];
    for (auto& sum : sums) sum = V::zero();
    const int64_t columns64 = columns / 64 * 64;
    for (int64_t column = 0; column < columns64; column += 64) {
        for (int group = 0; group < V::kGroups; ++group) {
            const int64_t at = column + group * V::kWidth;
            sums[group] = V::fma(V::load(x + at), V::load(weights + at), sums[group]);
        }
    }
    return add_tail(fold64<V>(sums), x, weights, columns);
}

}  // namespace
}  // namespace gemmatrace::cpu
