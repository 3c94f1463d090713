// Whether a module is sound, so that it can be executed at all, and whether the accelerator's compiler takes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hlo/module.h"

namespace gemmatrace::hlo {

// Something wrong with one instruction, or with the module as a whole.
struct Finding {
    std::string instruction;  // its name; empty: the module
    std::string fault;        // one sentence, with shapes where they matter
    bool is_sound = false;    // the program means something all the same; only the compiler or its user is let down
    bool operator==(const Finding&) const = default;
};

// All findings, in the order of the instructions; none for what Builder makes from the allowed operations.
// ranks: how many cores run the program together.
//
// Unsound: names missing, illegal or given twice; an operand that does not come before its user; a shape that does not
// follow from the operands; parameters that are not numbered densely; a root that is a nested tuple; a combiner that is
// not one binary operation of its two parameters; groups that do not name each rank once; an alias between different
// shapes, or of a parameter or result that has one already; a called computation that is not there or not used.
// Sound, but reported: operations outside the list that the compiler is known to take; constants of more than one
// element, or that are NaN or infinite; reductions and sums in bf16 that round at every step (add, multiply); dots
// that are not typed f32; dead instructions and parameters without a reader; a parameter that is returned without a
// copy; a host program shape that differs from the parameters and the result.
std::vector<Finding> verify(const Module& module, int32_t ranks);

// Throws Error(corrupt) with the first unsound finding, its instruction and how many there are.
void require_sound(const Module& module, int32_t ranks);

}  // namespace gemmatrace::hlo
