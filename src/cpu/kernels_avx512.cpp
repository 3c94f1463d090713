// AVX-512 F, BW, DQ and VL: sixteen lanes a register.
#include "cpu/kernels.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)

#include "cpu/kernels_simd.h"

namespace gemmatrace::cpu {
namespace {

struct Avx512 {
    using Register = __m512;
    static constexpr int kWidth = 16;
    static constexpr int kGroups = 4;
    static constexpr int kTileRows = 3;  // 3 x 8 sums, 3 weights and 1 activation of 32 registers
    static constexpr int kTileTokens = 8;
    static constexpr int kPanelRows = 12;

    static Register zero() { return _mm512_setzero_ps(); }
    static Register load(const float* values) { return _mm512_loadu_ps(values); }
    static Register load(const uint16_t* values) {
        const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values));
        return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
    }
    // Compilers read memory again for each use otherwise.
    static Register in_register(Register value) {
        asm("" : "+v"(value));
        return value;
    }
    static void store(float* out, Register value) { _mm512_storeu_ps(out, value); }
    static Register broadcast(float value) { return _mm512_set1_ps(value); }
    static Register add(Register a, Register b) { return _mm512_add_ps(a, b); }
    static Register fma(Register a, Register b, Register c) { return _mm512_fmadd_ps(a, b, c); }
    static __m256 fold_to_8(Register value) {
        return _mm256_add_ps(_mm512_castps512_ps256(value), _mm512_extractf32x8_ps(value, 1));
    }
};

}  // namespace

const Kernels* avx512_kernels() {
    static constexpr Kernels kTable = simd_table<Avx512>();
    return &kTable;
}

}  // namespace gemmatrace::cpu

#else

namespace gemmatrace::cpu {
const Kernels* avx512_kernels() { return nullptr; }
}  // namespace gemmatrace::cpu

#endif
