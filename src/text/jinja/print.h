// Values as text: Python's str() and repr(), and its way of writing numbers.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/runtime.h"

namespace gemmatrace::text::jinja {

// str(value). Bytes that came with the request stay content; what Python adds (quotes, commas, digits) is the
// template's.
Text to_text(Runtime& runtime, const Value& value);
// repr(value).
Text represent(Runtime& runtime, const Value& value);

// Appends str(value), without a copy of a text.
void append_text(Runtime& runtime, TextBuilder& out, const Value& value);
// Appends repr(value); of the characters outside ASCII all are escaped when is_ascii (Python's ascii()).
void append_representation(Runtime& runtime, TextBuilder& out, const Value& value, bool is_ascii = false);

std::string integer_text(Integer value);
// repr of a float: the shortest digits that read back as the same number.
std::string real_text(double value);

// Python's int() and float() of a text; nothing when it is not a number. An integer that is too large throws.
std::optional<Integer> parse_integer(const Text& text, int base = 10);
std::optional<double> parse_real(const Text& text);
// int() of a float; throws for infinities, NaN and what an Integer cannot hold.
Integer truncate_real(double value);

}  // namespace gemmatrace::text::jinja
