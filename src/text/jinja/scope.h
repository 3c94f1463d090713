// Resolution of names: which slot each one means, by jinja2's rules for scopes.
#pragma once

#include "text/jinja/ast.h"

namespace gemmatrace::text::jinja {

// Gives every name of the tree its slot, and every scope the loads it makes when entered. Also refuses, as jinja2's
// compiler does, unknown filters and tests outside conditions, and assignments to `loop` inside a loop.
void resolve_names(Tree& tree);

}  // namespace gemmatrace::text::jinja
