// The inspect document: counts and bytes gathered from config, store and ledger.
#include "checkpoint/report.h"

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gemmatrace::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

// How many tensors and how many bytes of data.
struct Tally {
    size_t tensors = 0;
    size_t bytes = 0;
    void add(const StoredTensor& tensor) {
        ++tensors;
        bytes += tensor.data.size();
    }
    void write_into(Json& row) const {
        row["tensors"] = tensors;
        row["bytes"] = bytes;
    }
};

// Tallies by name, in the order in which the names first came.
class Tallies {
  public:
    Tally& of(std::string_view name) {
        for (auto& [known, tally] : rows_) {
            if (known == name) return tally;
        }
        return rows_.emplace_back(name, Tally{}).second;
    }
    Json to_json(const char* key) const {
        Json list = Json::array();
        for (const auto& [name, tally] : rows_) {
            Json row = Json::object();
            row[key] = name;
            tally.write_into(row);
            list.push_back(std::move(row));
        }
        return list;
    }

  private:
    std::vector<std::pair<std::string, Tally>> rows_;
};

// The part of the model a text tensor belongs to; `name` is without the prefix.
std::string_view group_of(std::string_view name) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kParts{{
        {"embed_tokens.", "embedding"},
        {"embed_tokens_per_layer.", "per_layer_table"},
        {"lm_head.", "head"},
        {"_norm.", "norms_and_scalars"},
        {"self_attn.", "attention"},
        {"mlp.", "mlp"},
        {"experts.", "experts"},
        {"router.", "experts"},
    }};
    for (const auto& [part, group] : kParts) {
        if (name.find(part) != std::string_view::npos) return group;
    }
    const bool is_vector = name.find("norm") != std::string_view::npos || name.ends_with("layer_scalar");
    return is_vector ? "norms_and_scalars" : "other";
}

Json describe_rope(const RopeSpec& rope) {
    return {{"theta", rope.theta}, {"rotated_pairs", rope.rotated_pairs}, {"factor", rope.factor}};
}

Json describe_model(const ModelConfig& config, const Ledger& ledger) {
    Json model = {{"model_type", config.model_type},
                  {"is_text_only", config.is_text_only},
                  {"dtype", config.dtype},
                  {"hidden_size", config.hidden_size},
                  {"vocab_size", config.vocab_size},
                  {"ple_dim", config.ple_dim},
                  {"ple_vocab_size", config.ple_vocab_size},
                  {"layers", config.layers.size()},
                  {"max_position_embeddings", config.max_position_embeddings},
                  {"sliding_window", config.sliding_window},
                  {"final_softcap", config.final_softcap ? Json(*config.final_softcap) : Json()},
                  {"tie_word_embeddings", config.tie_word_embeddings},
                  {"has_untied_head", ledger.consumed().contains("lm_head.weight")}};
    model["rope"] = {{"sliding", describe_rope(config.sliding_rope)}, {"full", describe_rope(config.full_rope)}};
    model["pad_token_id"] = config.pad_token_id;
    model["bos_token_id"] = config.bos_token_id ? Json(*config.bos_token_id) : Json();
    model["eos_token_ids"] = config.eos_token_ids;
    model["media_token_ids"] = config.media_token_ids;
    return model;
}

Json describe_layer(const LayerSpec& layer, size_t index) {
    const MoeSpec moe = layer.moe.value_or(MoeSpec{});
    return {{"index", index},
            {"attention", layer.attention == AttentionKind::full ? "full" : "sliding"},
            {"q_heads", layer.q_heads},
            {"kv_heads", layer.kv_heads},
            {"head_dim", layer.head_dim},
            {"window", layer.window},
            {"k_eq_v", layer.k_eq_v},
            {"shares_kv", layer.shares_kv},
            {"kv_layer", layer.kv_layer},
            {"ff", layer.ff},
            {"experts", moe.experts},
            {"top_k", moe.top_k},
            {"expert_ff", moe.ff}};
}

}  // namespace

Json describe_checkpoint(const ModelConfig& config, const TensorStore& store, const Ledger& ledger) {
    Json document = {{"model", describe_model(config, ledger)}};
    document["layers"] = Json::array();
    for (size_t layer = 0; layer < config.layers.size(); ++layer) {
        document["layers"].push_back(describe_layer(config.layers[layer], layer));
    }
    document["files"] = Json::array();
    for (const FileMapping& file : store.files()) {
        document["files"].push_back({{"name", file.path().filename().string()}, {"bytes", file.bytes().size()}});
    }
    Tallies dtypes;
    Tally total;
    for (const auto& [name, tensor] : store.tensors()) {
        dtypes.of(dtype_name(tensor.dtype)).add(tensor);
        total.add(tensor);
    }
    Tallies groups;
    Tally consumed;
    for (const std::string& name : ledger.consumed()) {
        const StoredTensor& tensor = *store.find(name);
        const bool has_prefix = std::string_view(name).starts_with(ledger.prefix());
        groups.of(group_of(std::string_view(name).substr(has_prefix ? ledger.prefix().size() : 0))).add(tensor);
        consumed.add(tensor);
    }
    Tallies ignored;
    for (const auto& entry : ledger.ignored()) {
        ignored.of(ignore_reason_name(entry.reason)).add(*store.find(entry.name));
    }
    document["dtypes"] = dtypes.to_json("dtype");
    document["groups"] = groups.to_json("group");
    consumed.write_into(document["consumed"]);
    document["ignored"] = ignored.to_json("reason");
    total.write_into(document["total"]);
    return document;
}

}  // namespace gemmatrace::checkpoint
