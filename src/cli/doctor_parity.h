// A compiled model on the cores beside the CPU: the same ids through both, position by position.
#pragma once

#include <filesystem>

#include "cli/doctor_steps.h"

namespace gemmatrace::cli {

// Loads the bundle with the checkpoint's weights, runs prefills of several lengths and decodes to the end of the
// context, and compares logits with the CPU's. Notes times, memory of the cores and of the host. Throws what loading
// and running throw.
StepFinding compare_with_cpu(const StepContext& context, const std::filesystem::path& checkpoint,
                             const std::filesystem::path& bundle);

}  // namespace gemmatrace::cli
