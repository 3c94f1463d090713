// A device that runs traced programs, as the engine's backend.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/backend.h"
#include "trace/device_model.h"

namespace gemmatrace::engine {

struct DeviceSourceOptions {
    std::filesystem::path checkpoint;
    int32_t ranks = 1;
    int32_t chunk_tokens = 64;
    model::Precision precision = model::Precision::bf16;
    // What a bundle fixes; without one the geometry follows from what is asked for.
    std::optional<trace::Geometry> geometry;
    std::vector<int64_t> buckets;
    std::function<hlo::Module(const trace::ProgramSpec&)> program_of;
    std::function<std::unique_ptr<trace::Device>(int32_t ranks)> make_device;
    std::function<void(uint64_t done, uint64_t total)> progress;
    std::function<void(const std::string& name, size_t number, size_t total)> on_program;
};

// Slots of one length each, taken when it is made. Without a bundle a context is rounded up to whole chunks, and there
// is a bucket for every fourth of it. Prefixes are used again as far back as a slot's rings reach. Throws
// Error(unsupported) for sizes that do not divide by the ranks.
std::unique_ptr<BackendSource> make_device_source(DeviceSourceOptions options);

}  // namespace gemmatrace::engine
