// Arithmetic on unevaluated sums of two floats, and the power built from it. The constants are SLEEF's.
#include "model/reference_power.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace gemmatrace::model {
namespace {

// high + low, where low is what rounding took from high.
struct Pair {
    float high = 0.0F;
    float low = 0.0F;
};

// The sum of two floats without loss.
Pair exact_sum(float a, float b) {
    const float sum = a + b;
    const float part = sum - a;
    return {sum, (a - (sum - part)) + (b - part)};
}

Pair sum(Pair a, Pair b) {
    const Pair exact = exact_sum(a.high, b.high);
    return {exact.high, exact.low + (a.low + b.low)};
}

Pair sum(Pair a, float b) {
    const Pair exact = exact_sum(a.high, b);
    return {exact.high, a.low + exact.low};
}

// Sums whose first operand is the larger one.
Pair ordered_sum(Pair a, Pair b) {
    const float high = a.high + b.high;
    return {high, (((a.high - high) + b.high) + a.low) + b.low};
}

Pair ordered_sum(float a, Pair b) {
    const float high = a + b.high;
    return {high, ((a - high) + b.high) + b.low};
}

Pair square(Pair a) {
    const float high = a.high * a.high;
    return {high, std::fma(a.high + a.high, a.low, std::fma(a.high, a.high, -high))};
}

Pair product(Pair a, Pair b) {
    const float high = a.high * b.high;
    return {high, std::fma(a.high, b.low, std::fma(a.low, b.high, std::fma(a.high, b.high, -high)))};
}

Pair product(Pair a, float b) {
    const float high = a.high * b;
    return {high, std::fma(a.low, b, std::fma(a.high, b, -high))};
}

Pair quotient(Pair a, Pair b) {
    const float inverse = 1.0F / b.high;
    const float high = a.high * inverse;
    const float rest = std::fma(inverse, a.high, -high);
    const float correction = std::fma(-b.low, inverse, std::fma(-b.high, inverse, 1.0F));
    return {high, std::fma(high, correction, std::fma(a.low, inverse, rest))};
}

// log(x): x = 2^exponent * mantissa with the mantissa in [0.75, 1.5), then the series of atanh in (m - 1) / (m + 1).
Pair logarithm(float x) {
    const auto scaled = std::bit_cast<uint32_t>(x * (1.0F / 0.75F));
    const int32_t exponent = static_cast<int32_t>((scaled >> 23) & 0xff) - 0x7f;
    const auto mantissa = std::bit_cast<float>(std::bit_cast<int32_t>(x) - exponent * (1 << 23));
    const Pair ratio = quotient(exact_sum(-1.0F, mantissa), exact_sum(1.0F, mantissa));
    const Pair ratio2 = square(ratio);
    float tail = 0.240320354700088500976562F;
    tail = std::fma(tail, ratio2.high, 0.285112679004669189453125F);
    tail = std::fma(tail, ratio2.high, 0.400007992982864379882812F);
    const Pair two_thirds{0.66666662693023681640625F, 3.69183861259614332084311e-09F};
    const Pair log2{0.69314718246459960938F, -1.904654323148236017e-09F};
    Pair result = product(log2, static_cast<float>(exponent));
    result = ordered_sum(result, Pair{ratio.high * 2.0F, ratio.low * 2.0F});
    return ordered_sum(result, product(product(ratio2, ratio), sum(product(ratio2, tail), two_thirds)));
}

float exponential(Pair x) {
    const float q = std::nearbyint((x.high + x.low) * 1.4426950408889634F);
    Pair rest = sum(sum(x, q * -0.693145751953125F), q * -1.428606765330187045e-06F);
    const float high = rest.high + rest.low;
    rest = {high, (rest.high - high) + rest.low};
    float tail = 0.00136324646882712841033936F;
    tail = std::fma(tail, rest.high, 0.00836596917361021041870117F);
    tail = std::fma(tail, rest.high, 0.0416710823774337768554688F);
    tail = std::fma(tail, rest.high, 0.166665524244308471679688F);
    tail = std::fma(tail, rest.high, 0.499999850988388061523438F);
    const Pair result = ordered_sum(1.0F, ordered_sum(rest, product(square(rest), tail)));
    return std::ldexp(result.high + result.low, static_cast<int>(q));
}

}  // namespace

float reference_power(float base, float exponent) {
    if (exponent == 0.0F || base == 1.0F) return 1.0F;
    return exponential(product(logarithm(base), exponent));
}

}  // namespace gemmatrace::model
