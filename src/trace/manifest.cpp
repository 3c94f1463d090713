// The identity of programs, recipes by stored names, and what must hold before a bundle is used for a checkpoint.
#include "trace/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/sha256.h"

namespace gemmatrace::trace {
namespace {

using checkpoint::LayerSpec;
using nlohmann::ordered_json;

ordered_json rope_identity(const checkpoint::RopeSpec& rope) {
    return {{"theta", rope.theta}, {"rotated_pairs", rope.rotated_pairs}, {"factor", rope.factor}};
}

ordered_json layer_identity(const LayerSpec& layer) {
    ordered_json moe;
    if (layer.moe) moe = {{"experts", layer.moe->experts}, {"top_k", layer.moe->top_k}, {"ff", layer.moe->ff}};
    return {{"attention", layer.attention == checkpoint::AttentionKind::full ? "full" : "sliding"},
            {"q_heads", layer.q_heads},
            {"kv_heads", layer.kv_heads},
            {"head_dim", layer.head_dim},
            {"window", layer.window},
            {"k_eq_v", layer.k_eq_v},
            {"kv_layer", layer.kv_layer},
            {"shares_kv", layer.shares_kv},
            {"ff", layer.ff},
            {"moe", std::move(moe)}};
}

// Where two documents differ first, in the order of the first one.
struct Difference {
    std::string field;
    std::string left;
    std::string right;
};

std::optional<Difference> first_difference(const ordered_json& left, const ordered_json& right,
                                           const std::string& field) {
    if (left == right) return std::nullopt;
    const auto inside = [&](const ordered_json& a, const ordered_json& b, const std::string& name) {
        return first_difference(a, b, field.empty() || name.starts_with('[') ? field + name : field + "." + name);
    };
    if (left.is_object() && right.is_object()) {
        for (const auto& [name, value] : left.items()) {
            if (!right.contains(name)) return Difference{field, name, "no such member"};
            if (auto found = inside(value, right.at(name), name)) return found;
        }
        for (const auto& [name, value] : right.items()) {
            if (!left.contains(name)) return Difference{field, "no such member", name};
        }
    }
    if (left.is_array() && right.is_array() && left.size() == right.size()) {
        for (size_t index = 0; index < left.size(); ++index) {
            if (auto found = inside(left[index], right[index], fmt::format("[{}]", index))) return found;
        }
    }
    if (left.is_array() && right.is_array()) {
        return Difference{field, fmt::format("{} entries", left.size()), fmt::format("{} entries", right.size())};
    }
    return Difference{field, printable(dump_json(left)), printable(dump_json(right))};
}

[[noreturn]] void refuse(const std::string& field, const std::string& bundle, const std::string& wanted,
                         const char* other) {
    throw Error(
        ErrorCode::mismatch,
        fmt::format("the bundle was made for another {}: {} is {} there and {} here", other, field, bundle, wanted),
        {{"field", field}, {"bundle", bundle}, {"expected", wanted}},
        "make a bundle for this checkpoint with `gemmatrace compile`");
}

}  // namespace

ordered_json model_identity(const checkpoint::ModelConfig& config, bool has_untied_head) {
    ordered_json model = {
        {"hidden_size", config.hidden_size},
        {"vocab_size", config.vocab_size},
        {"ple_dim", config.ple_dim},
        {"ple_vocab_size", config.ple_vocab_size},
        {"rms_norm_eps", config.rms_norm_eps},
        {"final_softcap", config.final_softcap ? ordered_json(*config.final_softcap) : ordered_json()},
        {"max_position_embeddings", config.max_position_embeddings},
        {"sliding_window", config.sliding_window},
        {"sliding_rope", rope_identity(config.sliding_rope)},
        {"full_rope", rope_identity(config.full_rope)},
        {"has_untied_head", has_untied_head},
        {"layers", ordered_json::array()}};
    for (const LayerSpec& layer : config.layers) model["layers"].push_back(layer_identity(layer));
    return model;
}

std::string ProgramEntry::file() const { return "programs/" + spec.name() + ".hlo.pb"; }

std::vector<WeightRecipe> weight_recipes(const model::WeightPlan& plan, const Packing& packing) {
    std::vector<WeightRecipe> recipes;
    for (const PackedInput& input : packing.inputs) {
        WeightRecipe recipe{input.name, input.dimensions, input.outer, {}};
        for (const std::vector<Piece>& of_rank : input.pieces) {
            auto& pieces = recipe.pieces.emplace_back();
            for (const Piece& piece : of_rank) {
                pieces.push_back({plan.slots[static_cast<size_t>(piece.slot)].name, piece.row_begin, piece.rows,
                                  piece.column_begin, piece.columns});
            }
        }
        recipes.push_back(std::move(recipe));
    }
    return recipes;
}

ordered_json Manifest::identity() const {
    return {{"schema_version", schema_version},
            {"program_version", program_version},
            {"target", target},
            {"ranks", geometry.ranks},
            {"slots", geometry.slots},
            {"context_tokens", geometry.context_tokens},
            {"chunk_tokens", geometry.chunk_tokens},
            {"precision", geometry.precision == model::Precision::bf16 ? "bf16" : "fp32"},
            {"buckets", buckets},
            {"model", model}};
}

std::string Manifest::hash() const { return sha256(dump_json(identity())); }

const ProgramEntry* Manifest::find(const ProgramSpec& spec) const {
    const auto found = std::ranges::find(programs, spec, &ProgramEntry::spec);
    return found == programs.end() ? nullptr : &*found;
}

void check_fits(const Manifest& manifest, const checkpoint::ModelConfig& config, bool has_untied_head) {
    if (manifest.program_version != kProgramVersion) {
        refuse("program_version", std::to_string(manifest.program_version), std::to_string(kProgramVersion),
               "version of gemmatrace");
    }
    if (const auto found = first_difference(manifest.model, model_identity(config, has_untied_head), "")) {
        refuse(found->field, found->left, found->right, "model");
    }
    manifest.geometry.check(config);
    const model::WeightPlan plan = model::plan_weights(config, has_untied_head);
    const auto recipes = weight_recipes(plan, pack_weights(config, plan, manifest.geometry.ranks));
    if (recipes.size() != manifest.weights.size()) {
        refuse("weights", fmt::format("{} inputs", manifest.weights.size()), fmt::format("{} inputs", recipes.size()),
               "version of gemmatrace");
    }
    for (size_t index = 0; index < recipes.size(); ++index) {
        if (recipes[index] == manifest.weights[index]) continue;
        refuse(fmt::format("weights[{}]", index), printable(manifest.weights[index].name) + " by its recipe",
               recipes[index].name + " by this binary's", "version of gemmatrace");
    }
}

}  // namespace gemmatrace::trace
