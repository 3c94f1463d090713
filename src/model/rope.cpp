// inv_freq by the reference's vector power, cos and sin correctly rounded.
#include "model/rope.h"

#include <cmath>

#include "base/bf16.h"

namespace gemmatrace::model {

std::vector<float> inverse_frequencies(const checkpoint::RopeSpec& rope, int32_t head_dim) {
    std::vector<float> frequencies(static_cast<size_t>(head_dim / 2), 0.0F);
    for (int32_t pair = 0; pair < rope.rotated_pairs; ++pair) {
        const float exponent = static_cast<float>(2 * pair) / static_cast<float>(head_dim);
        const auto power = static_cast<float>(std::pow(rope.theta, static_cast<double>(exponent)));
        frequencies[static_cast<size_t>(pair)] = 1.0F / power / static_cast<float>(rope.factor);
    }
    return frequencies;
}

void rope_row(std::span<const float> inverse_frequencies, int64_t position, Precision precision, std::span<float> cosines,
              std::span<float> sines) {
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
