// What runs the model: the CPU, the accelerator or its simulator, as the options say.
#pragma once

#include <filesystem>
#include <memory>

#include "cli/options.h"
#include "engine/backend.h"

namespace gemmatrace::cli {

// Opens the checkpoint, which find_checkpoint found, for the device that was asked for; with `auto` the choice and its
// reason go to standard error. Throws the errors of runner_options, Error(bad_request) for options that this device
// does not have, those of a bundle and of neuron::make_neuron_device.
std::unique_ptr<engine::BackendSource> open_backend(const ModelOptions& options,
                                                    const std::filesystem::path& checkpoint);

}  // namespace gemmatrace::cli
