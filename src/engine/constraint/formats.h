// The formats of JSON Schema that can be enforced, as regular expressions.
#pragma once

#include <optional>
#include <string_view>

namespace gemmatrace::engine {

// The expression whose whole matches are texts of the format; every one of them is accepted by validators, though a
// format may have texts beyond them. nullopt for a format that is not known.
std::optional<std::string_view> format_pattern(std::string_view format);

}  // namespace gemmatrace::engine
