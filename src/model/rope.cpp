// Frequencies from the reference's own power; cosine and sine correctly rounded, which after rounding to bf16 equals
// the reference's (all positions below 2,954; beyond, a handful of the millions of entries differ by one bf16 step).
#include "model/rope.h"

#include <cmath>

#include "base/bf16.h"
#include "model/reference_power.h"

namespace gemmatrace::model {

std::vector<float> inverse_frequencies(const checkpoint::RopeSpec& rope, int32_t head_dim) {
    std::vector<float> frequencies(static_cast<size_t>(head_dim / 2), 0.0F);
    const auto theta = static_cast<float>(rope.theta);
    // The reference takes 16 exponents at a time through its vector power, the rest through the C library's.
    const int32_t vector_pairs = rope.rotated_pairs / 16 * 16;
    for (int32_t pair = 0; pair < rope.rotated_pairs; ++pair) {
        const float exponent = static_cast<float>(2 * pair) / static_cast<float>(head_dim);
        const float power = pair < vector_pairs ? reference_power(theta, exponent) : std::pow(theta, exponent);
        frequencies[static_cast<size_t>(pair)] = 1.0F / power / static_cast<float>(rope.factor);
    }
    return frequencies;
}

void rope_row(std::span<const float> inverse_frequencies, int64_t position, Precision precision,
              std::span<float> cosines, std::span<float> sines) {
    const size_t half = inverse_frequencies.size();
    for (size_t pair = 0; pair < half; ++pair) {
        const auto angle = static_cast<double>(inverse_frequencies[pair] * static_cast<float>(position));
        auto cosine = static_cast<float>(std::cos(angle));
        auto sine = static_cast<float>(std::sin(angle));
        if (precision == Precision::bf16) {
            cosine = round_bf16(cosine);
            sine = round_bf16(sine);
        }
        cosines[pair] = cosines[pair + half] = cosine;
        sines[pair] = sines[pair + half] = sine;
    }
}

}  // namespace gemmatrace::model
