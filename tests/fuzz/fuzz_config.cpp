// Any text as a config.json: a table that the model code may rely on, or an error that blames the file.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/json.h"
#include "checkpoint/config.h"

using gemmatrace::Error;
using gemmatrace::ErrorCode;
using gemmatrace::require;

namespace {

// What every reader of the table takes for granted.
void check(const gemmatrace::checkpoint::ModelConfig& config) {
    require(!config.layers.empty() && config.hidden_size > 0 && config.vocab_size > 0, "there is a model");
    require(config.pad_token_id >= 0 && config.pad_token_id < config.vocab_size, "pad is a row");
    require(config.ple_dim == 0 || config.ple_vocab_size >= config.vocab_size, "each token has a per-layer row");
    for (size_t index = 0; index < config.layers.size(); ++index) {
        const auto& layer = config.layers[index];
        require(layer.q_heads > 0 && layer.kv_heads > 0 && layer.q_heads % layer.kv_heads == 0, "kv heads divide");
        require(layer.head_dim > 0 && layer.head_dim % 2 == 0 && layer.ff > 0, "sizes are positive, heads even");
        require(layer.kv_layer >= 0 && static_cast<size_t>(layer.kv_layer) <= index, "the donor comes first");
        const auto& donor = config.layers[static_cast<size_t>(layer.kv_layer)];
        require(!donor.shares_kv && donor.attention == layer.attention, "the donor has keys of this kind");
        require(config.rope(layer.attention).rotated_pairs <= layer.head_dim / 2, "the table fits the heads");
        require(!layer.moe || layer.moe->top_k <= layer.moe->experts, "there are enough experts");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    try {
        check(gemmatrace::checkpoint::parse_config(gemmatrace::parse_json(text, "fuzz", ErrorCode::corrupt), "fuzz"));
    } catch (const Error& error) {
        const bool is_expected = error.code() == ErrorCode::corrupt || error.code() == ErrorCode::unsupported ||
                                 error.code() == ErrorCode::mismatch;
        if (!is_expected) throw;
    }
    return 0;
}
