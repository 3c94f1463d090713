// The shape of an instruction's result from its operands: what the builder states and the verifier holds programs to.
#pragma once

#include <span>
#include <string>

#include "base/error.h"
#include "hlo/module.h"

namespace gemmatrace::hlo {

// The shape of the result. Where operands do not decide it (parameter, constant, iota, the target of broadcast and
// reshape, the type of convert and dot) instruction.shape states it and is checked. Sub-computations are not looked at.
// Throws Error(mismatch) with all shapes in the message when operands, attributes and stated shape do not fit, and as
// check_shape does.
Shape infer_shape(const Instruction& instruction, std::span<const Shape* const> operands);

}  // namespace gemmatrace::hlo
