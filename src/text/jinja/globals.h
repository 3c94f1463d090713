// The functions every template may call by name, and the clock behind strftime_now.
#pragma once

#include <string_view>

#include "text/jinja/runtime.h"

namespace gemmatrace::text::jinja {

// range, dict, namespace, cycler, joiner, lipsum, raise_exception or strftime_now; missing for any other name.
Value find_global(Runtime& runtime, std::string_view name);

// datetime.strftime of a time without a zone, in the C locale.
std::string format_time(const LocalTime& time, const std::string& format);

}  // namespace gemmatrace::text::jinja
