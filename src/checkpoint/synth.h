// Full-size checkpoints of random weights in the published layout, for capacity and speed work.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gemmatrace::checkpoint {

// config.json of a published size ("E2B", "E4B", "12B", "26B", "31B"; case does not matter), cut to the first `layers`
// layers when given (the pattern of attention kinds and the share of KV-sharing layers are kept sensible, the last
// layer stays full). Throws Error(bad_request) for an unknown size or an impossible number of layers.
nlohmann::ordered_json published_config(std::string_view size, std::optional<int32_t> layers = std::nullopt);

// One tensor to write: its stored name, shape and how large its random values are.
struct SynthTensor {
    std::string name;
    std::vector<int64_t> shape;
    float center = 0.0F;  // values are uniform in [center - spread, center + spread]
    float spread = 0.0F;
};

// Writes config.json, generation_config.json and model.safetensors (shards of at most shard_bytes with an index when
// larger) into `directory`, which must not exist or be empty. Files appear under their final names only when complete;
// on failure or when `cancelled` answers true nothing is left behind. progress(done_bytes, total_bytes) is called about
// ten times a second. Throws Error(resource) when the disk is too small, before writing.
void write_synthetic_checkpoint(const std::filesystem::path& directory, const nlohmann::ordered_json& config,
                                std::span<const SynthTensor> tensors, uint64_t seed, size_t shard_bytes,
                                const std::function<void(size_t, size_t)>& progress,
                                const std::function<bool()>& cancelled);

}  // namespace gemmatrace::checkpoint
