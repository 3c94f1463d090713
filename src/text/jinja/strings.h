// The algorithms behind Python's str methods, each keeping the origin of every byte.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"

namespace gemmatrace::text::jinja {

enum class Side : unsigned char { left, right, both };

// str.strip and its one-sided forms; without `characters` white space goes.
Text strip(Runtime& runtime, const Text& text, Side side, const std::optional<Text>& characters = std::nullopt);

Text to_upper(Runtime& runtime, const Text& text);
Text to_lower(Runtime& runtime, const Text& text);
Text to_fold(Runtime& runtime, const Text& text);
Text swap_case(Runtime& runtime, const Text& text);
// str.title: every run of letters begins in title case.
Text to_title(Runtime& runtime, const Text& text);
// str.capitalize: the first character in title case, the rest lower.
Text capitalize(Runtime& runtime, const Text& text);

// str.split and rsplit; a negative limit is none. Without a separator runs of white space separate.
std::vector<Text> split(Runtime& runtime, const Text& text, const std::optional<Text>& separator, int64_t limit);
std::vector<Text> split_right(Runtime& runtime, const Text& text, const std::optional<Text>& separator, int64_t limit);
std::vector<Text> split_lines(Runtime& runtime, const Text& text, bool keep_ends);

// str.replace; a negative limit replaces all.
Text replace(Runtime& runtime, const Text& text, const Text& old, const Text& fresh, int64_t limit = -1);

// Byte offset of the first (last) occurrence, or npos.
size_t find_first(Runtime& runtime, const Text& text, std::string_view wanted, size_t from = 0);
size_t find_last(Runtime& runtime, const Text& text, std::string_view wanted);

// Fills to `width` code points; `fill` is one character.
Text pad(Runtime& runtime, const Text& text, Integer width, const Text& fill, size_t before, size_t after);
Text center(Runtime& runtime, const Text& text, Integer width, const Text& fill);

// str.isupper (islower): has cased characters, and all of them of that case.
bool has_case(Runtime& runtime, const Text& text, bool wants_upper);

// markupsafe.escape: &, <, >, ' and " become entities unless the value is markup already.
Text escape_html(Runtime& runtime, const Value& value);

}  // namespace gemmatrace::text::jinja
