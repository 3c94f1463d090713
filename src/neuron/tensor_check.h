// Whether a compiled program takes and gives what the program that it was made of does.
#pragma once

#include <string>
#include <vector>

#include "hlo/module.h"
#include "neuron/neff.h"

namespace gemmatrace::neuron {

// The inputs and outputs that the NEFF of a module must have.
std::vector<NeffTensor> expected_tensors(const hlo::Module& module);

// Compares names and bytes of inputs and outputs; element types are not looked at, since their numbers in NEFFs and
// runtimes changed. Throws Error(mismatch) naming the first tensor that is missing, of another size, or too many;
// `where` is the file, for messages. Also for cores that are several physical ones.
void check_neff(const NeffInfo& neff, const hlo::Module& module, const std::string& where);

}  // namespace gemmatrace::neuron
