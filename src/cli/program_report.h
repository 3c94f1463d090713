// What `compile` tells of programs: as JSON and as a table for people.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "trace/program_figures.h"

namespace gemmatrace::cli {

nlohmann::ordered_json figures_json(const trace::BundleEmitter& emitter, const std::string& model,
                                    const std::vector<trace::ProgramFigures>& programs);

std::string figures_table(const trace::BundleEmitter& emitter, const std::vector<trace::ProgramFigures>& programs);

}  // namespace gemmatrace::cli
