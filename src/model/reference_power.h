// The fp32 power that the reference's vector library computes, bit for bit: rotary frequencies start from it.
#pragma once

namespace gemmatrace::model {

// base^exponent for a normal base > 0 and 0 <= exponent <= 1, within one unit in the last place of the true value and
// with the same error as torch 2.12 on AVX2: SLEEF's single precision power with fused steps (logarithm as an
// unevaluated sum of two floats, times the exponent, exponential of the pair).
float reference_power(float base, float exponent);

}  // namespace gemmatrace::model
