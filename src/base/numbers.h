// Arithmetic on sizes that come from files: overflow is an answer, never a wrap.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace gemmatrace {

// a * b, or nothing when the product does not fit.
inline std::optional<int64_t> checked_multiply(int64_t a, int64_t b) {
    int64_t product = 0;
    if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
    return product;
}

// a + b, or nothing when the sum does not fit.
inline std::optional<int64_t> checked_add(int64_t a, int64_t b) {
    int64_t sum = 0;
    if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
    return sum;
}

// Product of the dimensions (1 for none), or nothing when one is negative or the product does not fit.
inline std::optional<int64_t> element_count(std::span<const int64_t> shape) {
    int64_t count = 1;
    for (const int64_t dimension : shape) {
        if (dimension < 0) return std::nullopt;
        const auto product = checked_multiply(count, dimension);
        if (!product) return std::nullopt;
        count = *product;
    }
    return count;
}

}  // namespace gemmatrace
