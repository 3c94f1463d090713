// `gemmatrace synth`: a full-size checkpoint of random weights, for capacity and speed work.
#include "checkpoint/synth.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/progress.h"
#include "checkpoint/config.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/synth.h"
#include "model/weight_plan.h"

namespace gemmatrace::cli {
namespace {

// Shards as the hub has them; small enough for any file system.
constexpr size_t kShardBytes = size_t{48} << 30;
constexpr const char* kNamePrefix = "model.language_model.";

constexpr const char* kSynthExamples =
    "Examples:\n"
    "  gemmatrace synth --like E2B /tmp/e2b                       10.2 GB\n"
    "  gemmatrace synth --like 31B --layers 6 /tmp/part           the first layers only\n"
    "  gemmatrace generate /tmp/e2b --ids 2,105 --max-tokens 64 --ignore-eos\n"
    "\n"
    "The weights are random, so the text means nothing, and there is no tokenizer: prompts are given with --ids. The\n"
    "same seed writes the same bytes. Ctrl-C leaves nothing behind.";

struct SynthOptions {
    std::string size;
    std::filesystem::path directory;
    std::optional<int32_t> layers;
    uint64_t seed = 0;
};

int run_synth(const SynthOptions& options) {
    if (options.layers && *options.layers < 1) {
        throw Error(ErrorCode::bad_request, fmt::format("{} layers were asked for", *options.layers),
                    {{"field", "--layers"}}, "use 1 or more");
    }
    const auto document = checkpoint::published_config(options.size, options.layers);
    const checkpoint::ModelConfig config = checkpoint::parse_config(document, "the published config.json");
    std::vector<checkpoint::SynthTensor> tensors;
    for (const model::WeightSlot& slot : model::weight_plan(config)) tensors.push_back(synthetic_tensor(slot));
    std::optional<Progress> progress;
    checkpoint::write_synthetic_checkpoint(
        options.directory, document, tensors, options.seed, kShardBytes,
        [&](size_t done, size_t total) {
            if (!progress) progress.emplace("writing weights", total);
            progress->update(done);
        },
        is_interrupted);
    if (progress) progress->finish();
    write_out(options.directory.string() + "\n");
    return 0;
}

void describe(Command& command, SynthOptions& options) {
    command.options = {
        {"--like", &options.size, "the published size to copy", "E2B|E4B|12B|26B|31B"},
        {"OUT", &options.directory, "directory to write; must not exist or be empty"},
        {"--layers", &options.layers, "only the first N layers", "N"},
        {"--seed", &options.seed, "seed of the random weights", "S", "", true},
    };
    command.required = {"--like"};
}

}  // namespace

checkpoint::SynthTensor synthetic_tensor(const model::WeightSlot& slot) {
    checkpoint::SynthTensor tensor{.name = kNamePrefix + slot.name, .shape = slot.shape};
    const auto is = [&](std::string_view part) { return slot.name.find(part) != std::string::npos; };
    if (is("layer_scalar")) {
        tensor.center = 0.625F;
        tensor.spread = 0.275F;
    } else if (is("q_norm") || is("k_norm")) {
        tensor.center = 0.3F;
        tensor.spread = 0.05F;
    } else if (is("embed_tokens_per_layer")) {
        tensor.spread = 0.1F;
    } else if (is("embed_tokens")) {
        tensor.spread = 0.05F;
    } else if (slot.shape.size() == 1) {  // norms, router scales
        tensor.center = 1.0F;
        tensor.spread = 0.1F;
    } else {
        // A uniform distribution of half-width s has variance s^2 / 3.
        tensor.spread = std::sqrt(3.0F / static_cast<float>(slot.shape.back()));
    }
    return tensor;
}

Command synth_command() {
    return make_command("synth", "Write a full-size checkpoint of random weights", kSynthExamples, run_synth, describe);
}

}  // namespace gemmatrace::cli
