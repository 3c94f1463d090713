// Template source to a tree of statements, in jinja2's grammar.
#pragma once

#include <memory>
#include <string_view>

#include "text/jinja/ast.h"

namespace gemmatrace::text::jinja {

// Throws Error(corrupt) with the line for what is no template, Error(unsupported) for template inheritance and imports.
std::unique_ptr<Tree> parse_template(std::string_view source);

}  // namespace gemmatrace::text::jinja
