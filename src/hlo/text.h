// HLO modules as text, in the syntax that XLA prints and parses.
#pragma once

#include <string>

#include "hlo/module.h"

namespace gemmatrace::hlo {

// The whole module, one instruction a line, operands by name. Of a sound module.
std::string module_text(const Module& module);

// One instruction as it stands in module_text, e.g. "%sum = f32[2]{0} add(%a, %b)". `computation` holds it.
std::string instruction_text(const Module& module, const Computation& computation, const Instruction& instruction);

}  // namespace gemmatrace::hlo
