// Arithmetic, comparison, membership and slices with Python's rules and Python's refusals.
#pragma once

#include "text/jinja/runtime.h"

namespace gemmatrace::text::jinja {

enum class BinaryOperator : unsigned char { add, subtract, multiply, divide, floor_divide, modulo, power };
enum class CompareOperator : unsigned char { equal, not_equal, less, less_equal, greater, greater_equal, in, not_in };

Value apply_binary(Runtime& runtime, BinaryOperator what, const Value& left, const Value& right);
Value negate(const Value& operand);
// Unary plus.
Value affirm(const Value& operand);

bool compare(Runtime& runtime, CompareOperator what, const Value& left, const Value& right);
// left < right; throws "'<' not supported between instances of …".
bool less_than(Runtime& runtime, const Value& left, const Value& right);
// item in container.
bool contains(Runtime& runtime, const Value& container, const Value& item);

// The three parts of a slice as written; missing where left out.
struct SliceParts {
    Value start, stop, step;
};
// value[start:stop:step].
Value apply_slice(Runtime& runtime, const Value& value, const SliceParts& parts);

// value[index] for sequences, value[key] for mappings; missing where Python raises LookupError or TypeError.
Value find_item(Runtime& runtime, const Value& value, const Value& key);

// The text repeated, reversed; `count` below one gives the empty text.
Text repeat_text(Runtime& runtime, const Text& text, Integer count);
Text reverse_text(Runtime& runtime, const Text& text);
Text concatenate(Runtime& runtime, const Text& left, const Text& right);

}  // namespace gemmatrace::text::jinja
