// `gemmatrace inspect`: the layer plan, the ledger and the sizes of a checkpoint, proved by binding every weight.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "checkpoint/config.h"
#include "checkpoint/ledger.h"
#include "checkpoint/report.h"
#include "checkpoint/tensor_store.h"
#include "cli/checkpoint_source.h"
#include "cli/command.h"
#include "cli/layer_table.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/sizes.h"
#include "model/weight_plan.h"

namespace gemmatrace::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kInspectExamples =
    "Examples:\n"
    "  gemmatrace inspect models/demo\n"
    "  gemmatrace inspect models/demo --json | jq .ignored\n"
    "\n"
    "Every stored tensor is either read by the model or named with the reason why not; every weight of the model is "
    "found\n"
    "in its exact shape. When this command succeeds, the checkpoint is complete. Nothing is computed.";

struct InspectOptions {
    std::filesystem::path checkpoint;
    bool is_json = false;
};

ordered_json examine(const std::filesystem::path& checkpoint, const checkpoint::ModelConfig& config) {
    const auto store = checkpoint::TensorStore::open(checkpoint);
    checkpoint::Ledger ledger(store, config);
    const checkpoint::StoredTensor* embedding = nullptr;
    for (const model::WeightSlot& slot : model::weight_plan(config)) {
        const auto& tensor = ledger.take(slot.name, slot.shape);
        if (slot.name == "embed_tokens.weight") embedding = &tensor;
    }
    if (embedding != nullptr) ledger.take_untied_head(*embedding);
    ledger.close();
    return checkpoint::describe_checkpoint(config, store, ledger);
}

ordered_json kv_report(const checkpoint::ModelConfig& config) {
    const KvSizes sizes = kv_sizes(config);
    const auto at = [&](int64_t tokens) { return ordered_json{{"tokens", tokens}, {"bytes", sizes.bytes_at(tokens)}}; };
    return {{"full_bytes_per_token", sizes.full_bytes_per_token},
            {"sliding_bytes_per_token", sizes.sliding_bytes_per_token},
            {"sliding_window_tokens", sizes.window_tokens},
            {"examples", ordered_json::array({at(2048), at(32768), at(config.max_position_embeddings)})}};
}

std::string head_line(const ordered_json& model) {
    std::string line = fmt::format("{}, {}", model["model_type"].get<std::string>(),
                                   model["is_text_only"].get<bool>() ? "text-only export" : "with room for media");
    const auto dtype = model["dtype"].get<std::string>();
    return dtype.empty() ? line : line + ", " + dtype;
}

std::string readable(const std::filesystem::path& checkpoint, const checkpoint::ModelConfig& config,
                     const ordered_json& report) {
    const ordered_json& model = report["model"];
    std::string text = fmt::format("{}: {}\n", checkpoint.string(), head_line(model));
    text += fmt::format("  hidden {}, vocabulary {}, {} layers, context {} tokens, window {}", config.hidden_size,
                        config.vocab_size, config.layers.size(), config.max_position_embeddings, config.sliding_window);
    if (config.ple_dim > 0) text += fmt::format(", {} per-layer inputs", config.ple_dim);
    text +=
        config.final_softcap ? fmt::format(", logits capped at {:g}", *config.final_softcap) : ", logits not capped";
    text += model["has_untied_head"].get<bool>() ? ", own output head\n" : ", head tied to the embedding\n";

    text += "\nLayers\n" + layer_table(config.layers);

    text += "\nWeights\n";
    for (const auto& group : report["groups"]) {
        text += fmt::format("  {:<20} {:>5} tensors  {}\n", group["group"].get<std::string>(),
                            group["tensors"].get<size_t>(), size_text(group["bytes"].get<size_t>()));
    }
    text += fmt::format("  {:<20} {:>5} tensors  {}\n", "all that is read", report["consumed"]["tensors"].get<size_t>(),
                        size_text(report["consumed"]["bytes"].get<size_t>()));
    for (const auto& dtype : report["dtypes"]) {
        text += fmt::format("  stored as {:<10} {:>5} tensors  {}\n", dtype["dtype"].get<std::string>(),
                            dtype["tensors"].get<size_t>(), size_text(dtype["bytes"].get<size_t>()));
    }

    text += "\nLedger\n";
    text += fmt::format("  {} stored tensors: {} read once each", report["total"]["tensors"].get<size_t>(),
                        report["consumed"]["tensors"].get<size_t>());
    if (report["ignored"].empty()) text += ", none left over";
    text += "\n";
    for (const auto& reason : report["ignored"]) {
        text += fmt::format("  {} not read ({}), {}\n", reason["tensors"].get<size_t>(),
                            reason["reason"].get<std::string>(), size_text(reason["bytes"].get<size_t>()));
    }

    text += "\nKV cache in bf16\n";
    const ordered_json& cache = report["kv_cache"];
    text += fmt::format("  full layers {} a token; sliding layers {} a token, at most {} tokens\n",
                        size_text(cache["full_bytes_per_token"].get<size_t>()),
                        size_text(cache["sliding_bytes_per_token"].get<size_t>()),
                        cache["sliding_window_tokens"].get<int64_t>());
    for (const auto& example : cache["examples"]) {
        text += fmt::format("  {} tokens: {}\n", example["tokens"].get<int64_t>(),
                            size_text(example["bytes"].get<size_t>()));
    }

    text += "\nFiles\n";
    for (const auto& file : report["files"]) {
        text += fmt::format("  {}  {}\n", file["name"].get<std::string>(), size_text(file["bytes"].get<size_t>()));
    }
    return text;
}

int run_inspect(const InspectOptions& given) {
    InspectOptions options = given;
    options.checkpoint = find_checkpoint(given.checkpoint);
    const auto config = checkpoint::load_config(options.checkpoint);
    ordered_json report = examine(options.checkpoint, config);
    report["kv_cache"] = kv_report(config);
    write_out(options.is_json ? dump_json(report, 2) + "\n" : readable(options.checkpoint, config, report));
    return 0;
}

void describe(Command& command, InspectOptions& options) {
    command.options = {checkpoint_argument(options.checkpoint),
                       {"--json", &options.is_json, "everything as one JSON object"}};
}

}  // namespace

Command inspect_command() {
    return make_command("inspect", "What a checkpoint holds: layers, ledger, sizes", kInspectExamples, run_inspect,
                        describe);
}

}  // namespace gemmatrace::cli
