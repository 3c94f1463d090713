// The ledger's book-keeping: prefixes, slots, the head and the list of tensors that may stay unread.
#include "checkpoint/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "base/error.h"
#include "base/printable.h"

namespace gemmatrace::checkpoint {
namespace {

constexpr std::string_view kHead = "lm_head.weight";
constexpr std::string_view kEmbedding = "embed_tokens.weight";

// Where 5.13 finds text tensors, by class: with its own name and without the leading base_model_prefix.
constexpr std::array<std::string_view, 2> kConditionalPrefixes{"model.language_model.", "language_model."};
constexpr std::array<std::string_view, 2> kTextOnlyPrefixes{"model.", ""};

const std::array<std::string_view, 2>& prefixes_of(const ModelConfig& config) {
    return config.is_text_only ? kTextOnlyPrefixes : kConditionalPrefixes;
}

// Which prefixes hold a tensor that every text model has; an absent embedding must not hide the prefix of the rest.
std::string choose_prefix(const TensorStore& store, const ModelConfig& config) {
    for (const std::string_view prefix : prefixes_of(config)) {
        for (const std::string_view name : {kEmbedding, std::string_view("norm.weight")}) {
            if (store.find(fmt::format("{}{}", prefix, name)) != nullptr) return std::string(prefix);
        }
    }
    const std::string_view other = config.is_text_only ? kConditionalPrefixes[0] : kTextOnlyPrefixes[0];
    const bool is_other_form = store.find(fmt::format("{}{}", other, kEmbedding)) != nullptr;
    throw Error(ErrorCode::mismatch,
                fmt::format("no text tensors under {}* or {}*, where model_type {} keeps them", prefixes_of(config)[0],
                            prefixes_of(config)[1], config.model_type),
                {{"tensors", std::to_string(store.tensors().size())}},
                is_other_form
                    ? fmt::format("they stand under {}*: take the config.json that was saved with these weights", other)
                    : "check that config.json and the weights are of one checkpoint");
}

std::string shape_text(std::span<const int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

bool is_readable(Dtype dtype) { return dtype == Dtype::bf16 || dtype == Dtype::f16 || dtype == Dtype::f32; }

// The layer of "layers.N.rest", with the rest, or nothing.
struct LayerName {
    size_t layer = 0;
    std::string_view rest;
};
std::optional<LayerName> parse_layer_name(std::string_view name) {
    constexpr std::string_view kLayers = "layers.";
    if (!name.starts_with(kLayers)) return std::nullopt;
    name.remove_prefix(kLayers.size());
    LayerName parsed;
    const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), parsed.layer);
    if (problem != std::errc{} || end == name.data() + name.size() || *end != '.') return std::nullopt;
    parsed.rest = name.substr(static_cast<size_t>(end - name.data()) + 1);
    return parsed;
}

}  // namespace

std::string_view ignore_reason_name(IgnoreReason reason) {
    switch (reason) {
        case IgnoreReason::vision_tower:
            return "vision_tower";
        case IgnoreReason::audio_tower:
            return "audio_tower";
        case IgnoreReason::shared_layer_kv:
            return "shared_layer_kv";
        case IgnoreReason::equal_head:
            return "equal_head";
    }
    return "unknown";
}

Ledger::Ledger(const TensorStore& store, const ModelConfig& config)
    : store_(store), config_(config), prefix_(choose_prefix(store, config)) {}

const StoredTensor& Ledger::take(std::string_view name, std::span<const int64_t> shape) {
    return take_stored(fmt::format("{}{}", prefix_, name), shape);
}

const StoredTensor& Ledger::take_stored(const std::string& name, std::span<const int64_t> shape) {
    const StoredTensor* tensor = store_.find(name);
    if (tensor == nullptr) {
        throw Error(ErrorCode::mismatch,
                    "a tensor that config.json asks for is not stored; nothing is put in its place",
                    {{"tensor", name}, {"shape", shape_text(shape)}},
                    "fetch the checkpoint again, all files from one revision");
    }
    const std::string file = store_.files().at(tensor->file_index).path().string();
    if (!std::equal(shape.begin(), shape.end(), tensor->shape.begin(), tensor->shape.end())) {
        throw Error(ErrorCode::mismatch,
                    fmt::format("the stored shape {} is not the {} that config.json asks for",
                                shape_text(tensor->shape), shape_text(shape)),
                    {{"tensor", name}, {"file", file}}, "take config.json and the weights from one checkpoint");
    }
    if (!is_readable(tensor->dtype)) {
        throw Error(
            ErrorCode::mismatch,
            fmt::format("the tensor is stored as {}, but weights must be BF16, F16 or F32", dtype_name(tensor->dtype)),
            {{"tensor", name}, {"file", file}}, "use the checkpoint that is not quantised");
    }
    if (!consumed_.insert(name).second) {
        throw Error(ErrorCode::mismatch, "a stored tensor was to fill two slots", {{"tensor", name}},
                    "please report this with the config.json");
    }
    return *tensor;
}

const StoredTensor* Ledger::take_untied_head(const StoredTensor& embedding) {
    const std::string name(kHead);
    const StoredTensor* head = store_.find(name);
    if (head == nullptr) {
        if (config_.tie_word_embeddings) return nullptr;
        throw Error(ErrorCode::mismatch, "tie_word_embeddings is false, but no output head is stored",
                    {{"tensor", name}},
                    "fetch the checkpoint again, or set tie_word_embeddings to true if it was tied");
    }
    const bool is_equal = head->dtype == embedding.dtype && head->shape == embedding.shape &&
                          std::memcmp(head->data.data(), embedding.data.data(), head->data.size()) == 0;
    if (is_equal) {
        ignored_.push_back({name, IgnoreReason::equal_head});
        return nullptr;
    }
    return &take_stored(name, embedding.shape);
}

std::optional<IgnoreReason> Ledger::reason_to_ignore(std::string_view stored_name) const {
    if (stored_name.starts_with(prefix_)) {
        const auto parsed = parse_layer_name(stored_name.substr(prefix_.size()));
        const bool is_shared =
            parsed && parsed->layer < config_.layers.size() && config_.layers[parsed->layer].shares_kv;
        for (const std::string_view part : {"k_proj.weight", "v_proj.weight", "k_norm.weight"}) {
            if (is_shared && parsed->rest == fmt::format("self_attn.{}", part)) return IgnoreReason::shared_layer_kv;
        }
    }
    if (config_.is_text_only) return std::nullopt;
    constexpr std::string_view kModel = "model.";
    if (stored_name.starts_with(kModel)) stored_name.remove_prefix(kModel.size());
    for (const std::string_view tower : {"vision_tower.", "embed_vision.", "vision_embedder."}) {
        if (stored_name.starts_with(tower)) return IgnoreReason::vision_tower;
    }
    for (const std::string_view tower : {"audio_tower.", "embed_audio."}) {
        if (stored_name.starts_with(tower)) return IgnoreReason::audio_tower;
    }
    return std::nullopt;
}

void Ledger::close() {
    constexpr size_t kMostNames = 10;
    std::vector<std::string> unread;
    for (const auto& [name, tensor] : store_.tensors()) {
        const bool is_equal_head = name == kHead && !ignored_.empty();
        if (consumed_.contains(name) || is_equal_head) continue;
        if (const auto reason = reason_to_ignore(name)) {
            ignored_.push_back({name, *reason});
        } else {
            unread.push_back(printable(name));
        }
    }
    if (unread.empty()) return;
    const size_t shown = std::min(unread.size(), kMostNames);
    std::string names =
        fmt::format("{}", fmt::join(unread.begin(), unread.begin() + static_cast<ptrdiff_t>(shown), ", "));
    if (unread.size() > shown) names += fmt::format(" and {} more", unread.size() - shown);
    throw Error(
        ErrorCode::mismatch,
        fmt::format("{} stored tensor{} would stay unread: {}", unread.size(), unread.size() == 1 ? "" : "s", names),
        {{"prefix", prefix_}}, "check that config.json belongs to these weights");
}

}  // namespace gemmatrace::checkpoint
