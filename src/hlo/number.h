// Numbers of the element types as bits: rounding as HLO defines it, and single elements as doubles.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bf16.h"
#include "hlo/shape.h"

namespace gemmatrace::hlo {

// The nearest bf16, ties to even, overflow to infinity; a NaN becomes the quiet NaN of its sign.
inline uint16_t round_to_bf16(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;  // a choice, not a branch: loops of this are vectorised
    const uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
    return static_cast<uint16_t>(is_nan ? ((bits >> 16) & 0x8000U) | 0x7fc0U : rounded);
}

// The nearest IEEE half likewise.
uint16_t round_to_half(float value);

// One element of a floating, integer or pred type as bytes: rounded to nearest when floating (through f32, as HLO
// converts); integers must be exact. Throws Error(mismatch) for a NaN, an infinity or an integer that does not fit.
std::vector<std::byte> encode_number(ElementType type, double value);

// Element `index` of an array of `type`; exact.
double decode_number(ElementType type, std::span<const std::byte> bytes, size_t index = 0);

}  // namespace gemmatrace::hlo
