// AVX2 with FMA: eight lanes a register.
#include "cpu/kernels.h"

#if defined(__AVX2__) && defined(__FMA__)

#include "cpu/kernels_simd.h"

namespace gemmatrace::cpu {
namespace {

struct Avx2 {
    using Register = __m256;
    static constexpr int kWidth = 8;
    static constexpr int kGroups = 8;
    static constexpr int kTileRows = 3;  // 3 x 4 sums, 3 weights and 1 activation fill the 16 registers
    static constexpr int kTileTokens = 4;
    static constexpr int kPanelRows = 12;

    static Register zero() { return _mm256_setzero_ps(); }
    static Register load(const float* values) { return load8(values); }
    static Register load(const uint16_t* values) { return load8(values); }
    // Compilers read memory again for each use otherwise.
    static Register in_register(Register value) {
        asm("" : "+x"(value));
        return value;
    }
    static void store(float* out, Register value) { _mm256_storeu_ps(out, value); }
    static Register broadcast(float value) { return _mm256_set1_ps(value); }
    static Register add(Register a, Register b) { return _mm256_add_ps(a, b); }
    static Register fma(Register a, Register b, Register c) { return _mm256_fmadd_ps(a, b, c); }
    static __m256 fold_to_8(Register value) { return value; }
};

}  // namespace

const Kernels* avx2_kernels() {
    static constexpr Kernels kTable = simd_table<Avx2>();
    return &kTable;
}

}  // namespace gemmatrace::cpu

#else

namespace gemmatrace::cpu {
const Kernels* avx2_kernels() { return nullptr; }
}  // namespace gemmatrace::cpu

#endif
