// The binary and unary operators.
#include <fmt/format.h>

#include <cmath>

#include "text/jinja/format.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/strings.h"

namespace gemmatrace::text::jinja {

namespace {

std::string_view symbol(BinaryOperator what) {
    constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};
    return kSymbols[static_cast<size_t>(what)];
}

[[noreturn]] void fail_operands(BinaryOperator what, const Value& left, const Value& right) {
    for (const Value* side : {&left, &right}) {
        if (side->is(Kind::undefined)) fail(side->as<UndefinedObject>().message);
    }
    fail(fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", symbol(what), type_name(left),
                     type_name(right)));
}

[[noreturn]] void fail_overflow() { fail("an integer has more than 128 bits"); }

// Rounds towards minus infinity, as Python's // does.
Integer floor_divide(Integer left, Integer right) {
    const Integer quotient = left / right;
    return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

Integer power_of(Integer base, Integer exponent) {
    Integer result = 1;
    for (bool is_overflow = false; exponent > 0; exponent /= 2) {
        if (exponent % 2 != 0 && __builtin_mul_overflow(result, base, &result)) fail_overflow();
        if (is_overflow) fail_overflow();
        if (exponent > 1) is_overflow = __builtin_mul_overflow(base, base, &base);
    }
    return result;
}

double python_modulo(double left, double right) {
    double rest = std::fmod(left, right);
    if (rest != 0) {
        if ((right < 0) != (rest < 0)) rest += right;
    } else {
        rest = std::copysign(0.0, right);
    }
    return rest;
}

double python_floor_divide(double left, double right) {
    const double rest = std::fmod(left, right);
    double quotient = (left - rest) / right;
    if (rest != 0 && (right < 0) != (rest < 0)) quotient -= 1;
    if (quotient == 0) return std::copysign(0.0, left / right);
    const double floor = std::floor(quotient);
    return quotient - floor > 0.5 ? floor + 1 : floor;
}

Value power(double left, double right) {
    if (left == 0 && right < 0) fail("0.0 cannot be raised to a negative power");
    if (left < 0 && std::isfinite(left) && std::isfinite(right) && std::trunc(right) != right) {
        fail("a negative number raised to a fraction is a complex number, which templates cannot use");
    }
    const double result = std::pow(left, right);
    if (std::isinf(result) && std::isfinite(left) && std::isfinite(right))
        fail("(34, 'Numerical result out of range')");
    return Value(result);
}

Value whole_arithmetic(BinaryOperator what, Integer left, Integer right) {
    Integer result = 0;
    bool is_overflow = false;
    switch (what) {
        case BinaryOperator::add:
            is_overflow = __builtin_add_overflow(left, right, &result);
            break;
        case BinaryOperator::subtract:
            is_overflow = __builtin_sub_overflow(left, right, &result);
            break;
        case BinaryOperator::multiply:
            is_overflow = __builtin_mul_overflow(left, right, &result);
            break;
        case BinaryOperator::divide:
            if (right == 0) fail("division by zero");
            return Value(static_cast<double>(static_cast<long double>(left) / static_cast<long double>(right)));
        case BinaryOperator::floor_divide:
        case BinaryOperator::modulo:
            if (right == 0) fail("integer division or modulo by zero");
            if (right == -1) {
                if (what == BinaryOperator::modulo) return Value(0);
                is_overflow = __builtin_sub_overflow(Integer{0}, left, &result);
                break;
            }
            result = floor_divide(left, right);
            if (what == BinaryOperator::modulo) result = left - result * right;
            break;
        case BinaryOperator::power:
            if (right < 0) return power(static_cast<double>(left), static_cast<double>(right));
            result = power_of(left, right);
            break;
    }
    if (is_overflow) fail_overflow();
    return Value(result);
}

Value real_arithmetic(BinaryOperator what, double left, double right) {
    switch (what) {
        case BinaryOperator::add:
            return Value(left + right);
        case BinaryOperator::subtract:
            return Value(left - right);
        case BinaryOperator::multiply:
            return Value(left * right);
        case BinaryOperator::power:
            return power(left, right);
        default:
            break;
    }
    if (right == 0) {
        fail(what == BinaryOperator::divide         ? "float division by zero"
             : what == BinaryOperator::floor_divide ? "float floor division by zero"
                                                    : "float modulo");
    }
    if (what == BinaryOperator::divide) return Value(left / right);
    return Value(what == BinaryOperator::modulo ? python_modulo(left, right) : python_floor_divide(left, right));
}

Value add_texts(Runtime& runtime, const Text& left, const Text& right) {
    if (!left.is_markup() && !right.is_markup()) return Value(concatenate(runtime, left, right));
    const Text joined = concatenate(runtime, escape_html(runtime, Value(left)), escape_html(runtime, Value(right)));
    return Value(joined.as_markup());
}

// Sequences that repeat: 'ab' * 3, [0] * 3. Missing when neither side is one.
Value repeat(Runtime& runtime, const Value& sequence, const Value& count) {
    if (!count.is_whole()) return {};
    if (sequence.is(Kind::text)) {
        return Value(repeat_text(runtime, sequence.text(), count.integer()).as_markup(sequence.text().is_markup()));
    }
    if (!sequence.is(Kind::list) && !sequence.is(Kind::tuple)) return {};
    const auto& items = sequence.as<SequenceObject>().items;
    std::vector<Value> repeated;
    if (!items.empty()) {
        for (int64_t round = to_position(count); round > 0; --round) {
            runtime.meter.step(static_cast<int64_t>(items.size()));
            repeated.insert(repeated.end(), items.begin(), items.end());
        }
    }
    return runtime.heap.sequence(sequence.kind(), std::move(repeated));
}

}  // namespace

Text concatenate(Runtime& runtime, const Text& left, const Text& right) {
    if (left.empty()) return right.as_markup(false);
    if (right.empty()) return left.as_markup(false);
    TextBuilder out(runtime.meter);
    out.append(left);
    out.append(right);
    return out.build();
}

Text repeat_text(Runtime& runtime, const Text& text, Integer count) {
    if (count <= 0 || text.empty()) return {};
    if (count > INT64_MAX / static_cast<Integer>(text.size())) fail("cannot fit 'int' into an index-sized integer");
    runtime.meter.check_text_size(static_cast<size_t>(count) * text.size());
    runtime.meter.step(static_cast<int64_t>(count));
    TextBuilder out(runtime.meter);
    for (; count > 0; --count) out.append(text);
    return out.build();
}

Text reverse_text(Runtime& runtime, const Text& text) {
    return apply_slice(runtime, Value(text), {Value(), Value(), Value(-1)}).text();
}

Value apply_binary(Runtime& runtime, BinaryOperator what, const Value& left, const Value& right) {
    if (left.is_number() && right.is_number()) {
        const bool is_whole = left.is_whole() && right.is_whole();
        return is_whole ? whole_arithmetic(what, left.integer(), right.integer())
                        : real_arithmetic(what, left.real(), right.real());
    }
    if (what == BinaryOperator::modulo && left.is(Kind::text)) {
        return Value(format_percent(runtime, left.text(), right));
    }
    if (what == BinaryOperator::add && left.kind() == right.kind()) {
        if (left.is(Kind::text)) return add_texts(runtime, left.text(), right.text());
        if (left.is(Kind::list) || left.is(Kind::tuple)) {
            return runtime.heap.joined(left.as<SequenceObject>(), right.as<SequenceObject>());
        }
    }
    if (what == BinaryOperator::multiply) {
        for (const auto& [sequence, count] : {std::pair{&left, &right}, std::pair{&right, &left}}) {
            Value repeated = repeat(runtime, *sequence, *count);
            if (!repeated.is_missing()) return repeated;
        }
    }
    fail_operands(what, left, right);
}

Value negate(const Value& operand) {
    if (operand.is(Kind::real)) return Value(-operand.real());
    if (!operand.is_whole()) {
        if (operand.is(Kind::undefined)) fail(operand.as<UndefinedObject>().message);
        fail(fmt::format("bad operand type for unary -: '{}'", type_name(operand)));
    }
    Integer result = 0;
    if (__builtin_sub_overflow(Integer{0}, operand.integer(), &result)) fail_overflow();
    return Value(result);
}

Value affirm(const Value& operand) {
    if (operand.is(Kind::real)) return operand;
    if (operand.is_whole()) return Value(operand.integer());
    if (operand.is(Kind::undefined)) fail(operand.as<UndefinedObject>().message);
    fail(fmt::format("bad operand type for unary +: '{}'", type_name(operand)));
}

}  // namespace gemmatrace::text::jinja
