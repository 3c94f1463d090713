// The options that the Neuron compiler is given, as data: by accelerator and by the compiler's version.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "neuron/releases.h"

namespace gemmatrace::neuron {

// Each option is one word, "--auto-cast=none" or "-O1". `extra` comes from the user: a word whose option is among ours
// takes its place, others are appended. Throws Error(unsupported) for a target that has no row, Error(bad_request) for
// an extra word that is no option or names files, which are ours to name.
std::vector<std::string> compiler_flags(std::string_view target, const Version& compiler,
                                        const std::vector<std::string>& extra = {});

}  // namespace gemmatrace::neuron
