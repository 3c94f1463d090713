// Rounding to halves, and elements to and from doubles.
#include "hlo/number.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace gemmatrace::hlo {

namespace {

template <typename Number>
std::vector<std::byte> bytes_of(Number number) {
    std::vector<std::byte> bytes(sizeof number);
    std::memcpy(bytes.data(), &number, sizeof number);
    return bytes;
}

template <typename Number>
Number number_at(std::span<const std::byte> bytes, size_t index) {
    Number number;
    std::memcpy(&number, bytes.data() + index * sizeof number, sizeof number);
    return number;
}

[[noreturn]] void refuse_number(ElementType type, double value, const char* remedy) {
    throw Error(ErrorCode::mismatch, fmt::format("{} is no constant of type {}", value, type_name(type)), {}, remedy);
}

template <typename Integer>
std::vector<std::byte> exact_integer(ElementType type, double value, double highest) {
    const bool is_exact = value == std::floor(value) && value <= highest &&
                          value >= static_cast<double>(std::numeric_limits<Integer>::min());
    if (!is_exact) refuse_number(type, value, "use an integer within the type's range");
    return bytes_of(static_cast<Integer>(value));
}

}  // namespace

uint16_t round_to_half(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000U);
    const float magnitude = std::fabs(value);
    if (std::isnan(value)) return sign | 0x7e00U;
    if (magnitude >= 65520.0F) return sign | 0x7c00U;
    if (magnitude < 0x1p-14F) return sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24F));
    const uint32_t rounded = (bits & 0x7fffffffU) + 0xfffU + ((bits >> 13) & 1U);
    return sign | static_cast<uint16_t>((rounded >> 13) - (112U << 10));
}

std::vector<std::byte> encode_number(ElementType type, double value) {
    const auto rounded = static_cast<float>(value);
    if (is_floating(type) && !std::isfinite(rounded))
        refuse_number(type, value, "use a finite value of the type's range");
    switch (type) {
        case ElementType::f32:
            return bytes_of(rounded);
        case ElementType::bf16:
            if (!std::isfinite(bf16_to_float(round_to_bf16(rounded))))
                refuse_number(type, value, "use a smaller value");
            return bytes_of(round_to_bf16(rounded));
        case ElementType::f16:
            if (!std::isfinite(half_to_float(round_to_half(rounded))))
                refuse_number(type, value, "use a smaller value");
            return bytes_of(round_to_half(rounded));
        case ElementType::pred:
            return exact_integer<uint8_t>(type, value, 1);
        case ElementType::s8:
            return exact_integer<int8_t>(type, value, 127);
        case ElementType::u8:
            return exact_integer<uint8_t>(type, value, 255);
        case ElementType::s32:
            return exact_integer<int32_t>(type, value, 2147483647.0);
        case ElementType::u32:
            return exact_integer<uint32_t>(type, value, 4294967295.0);
        case ElementType::tuple:
            break;
    }
    refuse_number(type, value, "name the type of an element");
}

double decode_number(ElementType type, std::span<const std::byte> bytes, size_t index) {
    switch (type) {
        case ElementType::f32:
            return static_cast<double>(number_at<float>(bytes, index));
        case ElementType::bf16:
            return static_cast<double>(bf16_to_float(number_at<uint16_t>(bytes, index)));
        case ElementType::f16:
            return static_cast<double>(half_to_float(number_at<uint16_t>(bytes, index)));
        case ElementType::s8:
            return number_at<int8_t>(bytes, index);
        case ElementType::s32:
            return number_at<int32_t>(bytes, index);
        case ElementType::u32:
            return number_at<uint32_t>(bytes, index);
        case ElementType::pred:
        case ElementType::u8:
            return number_at<uint8_t>(bytes, index);
        case ElementType::tuple:
            break;
    }
    throw Error(ErrorCode::internal, "a tuple has no numbers");
}

}  // namespace gemmatrace::hlo
