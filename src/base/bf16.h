// bfloat16 and IEEE half numbers as bits: conversion to and from float, rounded to nearest even.
#pragma once

#include <bit>
#include <cstdint>

namespace gemmatrace {

// The value of a bf16 bit pattern; exact.
inline float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// The nearest bf16, ties to even; NaN stays NaN (quiet).
inline uint16_t float_to_bf16(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>((bits >> 16) | 0x40U);
    return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

// One rounding to bf16, kept as a float: the R(.) of the reference.
inline float round_bf16(float value) { return bf16_to_float(float_to_bf16(value)); }

// The value of an IEEE half bit pattern; exact.
inline float half_to_float(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
    const uint32_t exponent = (bits >> 10) & 0x1fU;
    const uint32_t mantissa = bits & 0x3ffU;
    if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13));
    if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;  // subnormal or zero
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

}  // namespace gemmatrace
