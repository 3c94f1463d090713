// Python's two ways of formatting: "%s: %d" % values and "{}: {:>4}".format(values).
#pragma once

#include <string>

#include "text/jinja/runtime.h"

namespace gemmatrace::text::jinja {

// format % values.
Text format_percent(Runtime& runtime, const Text& format, const Value& values);
// format.format(*arguments), with the sandbox's rules for attributes.
Text format_braces(Runtime& runtime, const Text& format, const Arguments& arguments);
// format(value, specification).
Text format_value(Runtime& runtime, const Value& value, const Text& specification);

// How a number or text is laid out; the common part of both ways.
struct Layout {
    Text fill = Text(" ", Origin::template_text);
    char align = 0;  // '<', '>', '^', '=' (after the sign); 0: the kind's own
    char sign = '-';
    bool is_alternate = false;
    bool is_zero_filled = false;
    Integer width = 0;
    char grouping = 0;   // ',' or '_'
    int precision = -1;  // not given
    char type = 0;
};

// A number's digits with sign, prefix, grouping and fill.
Text layout_integer(Runtime& runtime, Integer value, const Layout& layout);
Text layout_real(Runtime& runtime, double value, const Layout& layout);
// A text padded to the width; the default is to the left.
Text layout_text(Runtime& runtime, const Text& text, const Layout& layout);

}  // namespace gemmatrace::text::jinja
