// jinja2's tests: value is name(arguments). One entry a name; each answers with a bool.
#pragma once

#include "text/jinja/attributes.h"

namespace gemmatrace::text::jinja {

// The test of this name, or null when jinja2 has none.
const Method* find_test(std::string_view name);

}  // namespace gemmatrace::text::jinja
