// The simulator: programs run by the HLO evaluator on this machine's processor. Exact and slow.
#pragma once

#include <memory>

#include "trace/device.h"

namespace gemmatrace::trace {

std::unique_ptr<Device> make_sim_device(int32_t ranks, int threads);

}  // namespace gemmatrace::trace
