// Element types as C++ types, for loops that are written once: how each is read, computed with and rounded.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "base/bf16.h"
#include "base/error.h"
#include "hlo/module.h"
#include "hlo/number.h"
#include "hlo/shape.h"

namespace gemmatrace::hlo {

struct Bf16 {
    uint16_t bits;
};
struct Half {
    uint16_t bits;
};
struct Pred {
    uint8_t byte;
};

// What a value of an element type is computed as: float, or the integer itself; a pred is a bool.
template <typename Element>
struct ComputedAs {
    using Type = Element;
};
template <>
struct ComputedAs<Bf16> {
    using Type = float;
};
template <>
struct ComputedAs<Half> {
    using Type = float;
};
template <>
struct ComputedAs<Pred> {
    using Type = bool;
};
template <typename Element>
using Computed = typename ComputedAs<Element>::Type;
template <typename Element>
inline constexpr bool is_float_like = std::is_same_v<Computed<Element>, float>;
template <typename Element>
inline constexpr bool is_integer_like = std::is_integral_v<Computed<Element>> && !std::is_same_v<Element, Pred>;

template <typename Element>
Computed<Element> load(Element element) {
    if constexpr (std::is_same_v<Element, Bf16>)
        return bf16_to_float(element.bits);
    else if constexpr (std::is_same_v<Element, Half>)
        return half_to_float(element.bits);
    else if constexpr (std::is_same_v<Element, Pred>)
        return element.byte != 0;
    else
        return element;
}

// One rounding to the element type.
template <typename Element>
Element rounded(Computed<Element> value) {
    if constexpr (std::is_same_v<Element, Bf16>)
        return {round_to_bf16(value)};
    else if constexpr (std::is_same_v<Element, Half>)
        return {round_to_half(value)};
    else if constexpr (std::is_same_v<Element, Pred>)
        return {static_cast<uint8_t>(value ? 1 : 0)};
    else
        return value;
}

template <typename Element>
struct ElementTag {
    using Type = Element;
};

// Calls action(ElementTag<E>()) with the C++ type of `type`; returns what it returns.
template <typename Action>
decltype(auto) with_element(ElementType type, Action&& action) {
    switch (type) {
        case ElementType::pred:
            return action(ElementTag<Pred>());
        case ElementType::s8:
            return action(ElementTag<int8_t>());
        case ElementType::u8:
            return action(ElementTag<uint8_t>());
        case ElementType::s32:
            return action(ElementTag<int32_t>());
        case ElementType::u32:
            return action(ElementTag<uint32_t>());
        case ElementType::f16:
            return action(ElementTag<Half>());
        case ElementType::bf16:
            return action(ElementTag<Bf16>());
        case ElementType::f32:
            return action(ElementTag<float>());
        case ElementType::tuple:
            break;
    }
    throw Error(ErrorCode::internal, "a tuple has no element type");
}

// with_element for floating types.
template <typename Action>
void with_floating(ElementType type, Action&& action) {
    with_element(type, [&](auto tag) {
        if constexpr (is_float_like<typename decltype(tag)::Type>)
            action(tag);
        else
            throw Error(ErrorCode::internal, "no floating element type");
    });
}

// The larger or the smaller; NaN wins, and -0 is below +0.
template <typename Number>
Number larger(Number a, Number b) {
    if constexpr (std::is_floating_point_v<Number>) {
        if (a != a) return a;
        if (b != b) return b;
        if (a == b) return std::signbit(a) ? b : a;
    }
    return a < b ? b : a;
}
template <typename Number>
Number smaller(Number a, Number b) {
    if constexpr (std::is_floating_point_v<Number>) {
        if (a != a) return a;
        if (b != b) return b;
        if (a == b) return std::signbit(a) ? a : b;
    }
    return b < a ? b : a;
}

// Integer arithmetic wraps.
template <typename Number>
Number wrapped_add(Number a, Number b) {
    if constexpr (std::is_floating_point_v<Number>)
        return a + b;
    else
        return static_cast<Number>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}
template <typename Number>
Number wrapped_multiply(Number a, Number b) {
    if constexpr (std::is_floating_point_v<Number>)
        return a * b;
    else
        return static_cast<Number>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
}

// Calls action(f) with f(a, b) -> Number of a combiner: add, multiply, maximum or minimum.
template <typename Number, typename Action>
void with_combiner(Opcode combiner, Action&& action) {
    switch (combiner) {
        case Opcode::add:
            return action([](Number a, Number b) { return wrapped_add(a, b); });
        case Opcode::multiply:
            return action([](Number a, Number b) { return wrapped_multiply(a, b); });
        case Opcode::maximum:
            return action([](Number a, Number b) { return larger(a, b); });
        case Opcode::minimum:
            return action([](Number a, Number b) { return smaller(a, b); });
        default:
            throw Error(ErrorCode::internal, "not an operation that combines");
    }
}

}  // namespace gemmatrace::hlo
