// Elementwise operations: one loop an operation, over any element type that has it.
#include <cmath>
#include <limits>

#include "hlo/element.h"
#include "hlo/operations.h"

namespace gemmatrace::hlo {

namespace {

template <typename Element>
const Element* elements_of(const ArrayView& view) {
    return reinterpret_cast<const Element*>(view.data);
}

// out[i] = R(f(a[i])) and so on; operands do not overlap the result.
template <typename Element, typename Function>
void map_one(const ArrayView& operand, std::byte* result, Function function) {
    const Element* __restrict in = elements_of<Element>(operand);
    auto* __restrict out = reinterpret_cast<Element*>(result);
    const int64_t count = operand.shape->element_count();
    for (int64_t index = 0; index < count; ++index) out[index] = rounded<Element>(function(load(in[index])));
}

template <typename Element, typename ResultElement = Element, typename Function>
void map_two(std::span<const ArrayView> operands, std::byte* result, Function function) {
    const Element* a = elements_of<Element>(operands[0]);
    const Element* b = elements_of<Element>(operands[1]);
    auto* __restrict out = reinterpret_cast<ResultElement*>(result);
    const int64_t count = operands[0].shape->element_count();
    for (int64_t index = 0; index < count; ++index) {
        out[index] = rounded<ResultElement>(function(load(a[index]), load(b[index])));
    }
}

// A function of double precision, rounded to f32.
template <double (*function)(double)>
float by_double(float value) {
    return static_cast<float>(function(static_cast<double>(value)));
}

double reciprocal_square_root(double value) { return 1.0 / std::sqrt(value); }
double logistic_function(double value) { return 1.0 / (1.0 + std::exp(-value)); }

// The sign as -1, 0 or 1; of a zero or a NaN the value itself.
template <typename Number>
Number sign_of(Number value) {
    if (value > 0) return Number{1};
    if (value < 0) return static_cast<Number>(-1);
    return value;
}

template <typename Integer>
Integer divided(Integer a, Integer b) {
    if (b == 0) return static_cast<Integer>(-1);
    if constexpr (std::is_signed_v<Integer>) {
        if (b == -1) return static_cast<Integer>(0U - static_cast<uint32_t>(a));  // the lowest one wraps
    }
    return static_cast<Integer>(a / b);
}

template <typename Integer>
Integer remainder_of(Integer a, Integer b) {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<Integer>) {
        if (b == -1) return 0;
    }
    return static_cast<Integer>(a % b);
}

template <typename Element>
void floating_unary(Opcode opcode, const ArrayView& operand, std::byte* result) {
    const auto map = [&](auto function) { map_one<Element>(operand, result, function); };
    switch (opcode) {
        case Opcode::negate:
            return map([](float x) { return -x; });
        case Opcode::abs:
            return map([](float x) { return std::fabs(x); });
        case Opcode::sign:
            return map([](float x) { return sign_of(x); });
        case Opcode::floor:
            return map([](float x) { return std::floor(x); });
        case Opcode::ceil:
            return map([](float x) { return std::ceil(x); });
        case Opcode::sqrt:
            return map([](float x) { return std::sqrt(x); });
        case Opcode::rsqrt:
            return map(by_double<reciprocal_square_root>);
        case Opcode::exponential:
            return map(by_double<std::exp>);
        case Opcode::log:
            return map(by_double<std::log>);
        case Opcode::tanh:
            return map(by_double<std::tanh>);
        case Opcode::sine:
            return map(by_double<std::sin>);
        case Opcode::cosine:
            return map(by_double<std::cos>);
        case Opcode::logistic:
            return map(by_double<logistic_function>);
        default:
            throw Error(ErrorCode::internal, "no unary operation of floating values");
    }
}

template <typename Integer>
void integer_unary(Opcode opcode, const ArrayView& operand, std::byte* result) {
    const auto map = [&](auto function) { map_one<Integer>(operand, result, function); };
    const auto negated = [](Integer x) { return static_cast<Integer>(0U - static_cast<uint32_t>(x)); };
    switch (opcode) {
        case Opcode::negate:
            return map(negated);
        case Opcode::abs:
            return map([&](Integer x) { return x < 0 ? negated(x) : x; });
        case Opcode::sign:
            return map([](Integer x) { return sign_of(x); });
        case Opcode::logical_not:
            return map([](Integer x) { return static_cast<Integer>(~x); });
        default:
            throw Error(ErrorCode::internal, "no unary operation of integers");
    }
}

template <typename Element>
void floating_binary(Opcode opcode, std::span<const ArrayView> operands, std::byte* result) {
    const auto map = [&](auto function) { map_two<Element>(operands, result, function); };
    switch (opcode) {
        case Opcode::add:
            return map([](float a, float b) { return a + b; });
        case Opcode::subtract:
            return map([](float a, float b) { return a - b; });
        case Opcode::multiply:
            return map([](float a, float b) { return a * b; });
        case Opcode::divide:
            return map([](float a, float b) { return a / b; });
        case Opcode::remainder:
            return map([](float a, float b) { return std::fmod(a, b); });
        case Opcode::maximum:
            return map([](float a, float b) { return larger(a, b); });
        case Opcode::minimum:
            return map([](float a, float b) { return smaller(a, b); });
        case Opcode::power:
            return map([](float a, float b) {
                return static_cast<float>(std::pow(static_cast<double>(a), static_cast<double>(b)));
            });
        default:
            throw Error(ErrorCode::internal, "no binary operation of floating values");
    }
}

template <typename Integer>
void integer_binary(Opcode opcode, std::span<const ArrayView> operands, std::byte* result) {
    const auto map = [&](auto function) { map_two<Integer>(operands, result, function); };
    switch (opcode) {
        case Opcode::add:
            return map([](Integer a, Integer b) { return wrapped_add(a, b); });
        case Opcode::subtract:
            return map([](Integer a, Integer b) {
                return static_cast<Integer>(static_cast<uint32_t>(a) - static_cast<uint32_t>(b));
            });
        case Opcode::multiply:
            return map([](Integer a, Integer b) { return wrapped_multiply(a, b); });
        case Opcode::divide:
            return map([](Integer a, Integer b) { return divided(a, b); });
        case Opcode::remainder:
            return map([](Integer a, Integer b) { return remainder_of(a, b); });
        case Opcode::maximum:
            return map([](Integer a, Integer b) { return larger(a, b); });
        case Opcode::minimum:
            return map([](Integer a, Integer b) { return smaller(a, b); });
        case Opcode::logical_and:
            return map([](Integer a, Integer b) { return static_cast<Integer>(a & b); });
        case Opcode::logical_or:
            return map([](Integer a, Integer b) { return static_cast<Integer>(a | b); });
        default:
            throw Error(ErrorCode::internal, "no binary operation of integers");
    }
}

void pred_operation(Opcode opcode, std::span<const ArrayView> operands, std::byte* result) {
    switch (opcode) {
        case Opcode::logical_not:
            return map_one<Pred>(operands[0], result, [](bool a) { return !a; });
        case Opcode::logical_and:
        case Opcode::minimum:
            return map_two<Pred>(operands, result, [](bool a, bool b) { return a && b; });
        case Opcode::logical_or:
        case Opcode::maximum:
            return map_two<Pred>(operands, result, [](bool a, bool b) { return a || b; });
        default:
            throw Error(ErrorCode::internal, "no operation of preds");
    }
}

template <typename Element>
void compare(Comparison comparison, std::span<const ArrayView> operands, std::byte* result) {
    using Number = Computed<Element>;
    const auto map = [&](auto function) { map_two<Element, Pred>(operands, result, function); };
    switch (comparison) {
        case Comparison::eq:
            return map([](Number a, Number b) { return a == b; });
        case Comparison::ne:
            return map([](Number a, Number b) { return a != b; });
        case Comparison::lt:
            return map([](Number a, Number b) { return a < b; });
        case Comparison::le:
            return map([](Number a, Number b) { return a <= b; });
        case Comparison::gt:
            return map([](Number a, Number b) { return a > b; });
        case Comparison::ge:
            return map([](Number a, Number b) { return a >= b; });
    }
}

// Bits are chosen, whatever they mean.
template <typename Word>
void select(std::span<const ArrayView> operands, std::byte* result) {
    const auto* condition = elements_of<uint8_t>(operands[0]);
    const auto *on_true = elements_of<Word>(operands[1]), *on_false = elements_of<Word>(operands[2]);
    auto* __restrict out = reinterpret_cast<Word*>(result);
    const int64_t count = operands[0].shape->element_count();
    for (int64_t index = 0; index < count; ++index) {
        out[index] = condition[index] != 0 ? on_true[index] : on_false[index];
    }
}

template <typename Element>
void clamp(std::span<const ArrayView> operands, std::byte* result) {
    const auto *low = elements_of<Element>(operands[0]), *high = elements_of<Element>(operands[2]);
    const Element* in = elements_of<Element>(operands[1]);
    const int64_t count = operands[1].shape->element_count();
    const int64_t low_step = operands[0].shape->element_count() == count ? 1 : 0;
    const int64_t high_step = operands[2].shape->element_count() == count ? 1 : 0;
    auto* __restrict out = reinterpret_cast<Element*>(result);
    for (int64_t index = 0; index < count; ++index) {
        out[index] = rounded<Element>(
            smaller(larger(load(in[index]), load(low[index * low_step])), load(high[index * high_step])));
    }
}

// Floating to integer saturates, toward zero; NaN is 0. Integers wrap. A pred is whether the value is not 0.
template <typename From, typename To>
To converted(From element) {
    const auto value = load(element);
    using Target = Computed<To>;
    if constexpr (std::is_same_v<To, Pred>) {
        return rounded<Pred>(!(value == decltype(value){0}));
    } else if constexpr (is_float_like<From> && is_integer_like<To>) {
        constexpr double kLowest = std::numeric_limits<Target>::min(), kHighest = std::numeric_limits<Target>::max();
        const auto wide = static_cast<double>(value);
        if (wide != wide) return 0;
        if (wide <= kLowest) return std::numeric_limits<Target>::min();
        if (wide >= kHighest) return std::numeric_limits<Target>::max();
        return static_cast<Target>(wide);
    } else {
        return rounded<To>(static_cast<Target>(value));
    }
}

void convert(const ArrayView& operand, ElementType type, std::byte* result) {
    const int64_t count = operand.shape->element_count();
    with_element(operand.shape->type, [&](auto from) {
        using From = typename decltype(from)::Type;
        with_element(type, [&](auto to) {
            using To = typename decltype(to)::Type;
            const From* __restrict in = elements_of<From>(operand);
            auto* __restrict out = reinterpret_cast<To*>(result);
            for (int64_t index = 0; index < count; ++index) out[index] = converted<From, To>(in[index]);
        });
    });
}

}  // namespace

void compute_elementwise(const Instruction& instruction, std::span<const ArrayView> operands, std::byte* result) {
    const Opcode opcode = instruction.opcode;
    const ElementType type = operands[0].shape->type;
    if (opcode == Opcode::convert) return convert(operands[0], instruction.shape.type, result);
    if (opcode == Opcode::select) {
        const size_t bytes = element_bytes(instruction.shape.type);
        return bytes == 4   ? select<uint32_t>(operands, result)
               : bytes == 2 ? select<uint16_t>(operands, result)
                            : select<uint8_t>(operands, result);
    }
    with_element(type, [&](auto tag) {
        using Element = typename decltype(tag)::Type;
        if (opcode == Opcode::compare) return compare<Element>(instruction.comparison, operands, result);
        if (opcode == Opcode::clamp) return clamp<Element>(operands, result);
        if constexpr (is_float_like<Element>) {
            return is_unary(opcode) ? floating_unary<Element>(opcode, operands[0], result)
                                    : floating_binary<Element>(opcode, operands, result);
        } else if constexpr (is_integer_like<Element>) {
            return is_unary(opcode) ? integer_unary<Element>(opcode, operands[0], result)
                                    : integer_binary<Element>(opcode, operands, result);
        } else {
            return pred_operation(opcode, operands, result);
        }
    });
}

}  // namespace gemmatrace::hlo
