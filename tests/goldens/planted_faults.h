// The structural mistakes that real ports made (gemma4.md 9, faults.md 3), each planted outside the model's own code.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "goldens/pass.h"

namespace gemmatrace::goldens {

struct PlantedFault {
    std::string name;
    // Whether a model of this geometry can show the fault at all.
    std::function<bool(const checkpoint::ModelConfig& config)> concerns;
    // Plants it: edits the parts, or asks for changes during the pass.
    std::function<void(Parts& parts, Changes& changes)> plant;
    // Where the comparison must first turn red, e.g. "layer.0".
    std::function<std::string(const checkpoint::ModelConfig& config)> first_stage;
};

std::vector<PlantedFault> planted_faults();

// How the test framework names a fault.
inline void PrintTo(const PlantedFault& fault, std::ostream* out) { *out << fault.name; }

}  // namespace gemmatrace::goldens
