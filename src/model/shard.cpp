// Division over ranks. Groups follow from the local heads; nothing else decides them.
#include "model/shard.h"

#include <fmt/format.h>

#include <numeric>

#include "base/error.h"

namespace gemmatrace::model {
namespace {

void check_divides(int64_t size, int32_t ranks, const std::string& what) {
    if (size % ranks == 0) return;
    throw Error(ErrorCode::unsupported, fmt::format("{} {} cannot be divided over {} ranks", size, what, ranks),
                {{"field", "--tp"}}, "use a number of ranks that divides it, e.g. 1, 2, 4 or 8");
}

}  // namespace

int32_t HeadShard::global_kv_head(const checkpoint::LayerSpec& spec, int32_t rank, int32_t index) const {
    return (rank * q_heads + index * group) / (spec.q_heads / spec.kv_heads);
}

HeadShard shard_heads(const checkpoint::LayerSpec& spec, int32_t ranks) {
    HeadShard shard;
    shard.q_heads = spec.q_heads / ranks;
    // The longest run of query heads that reads one KV head on every rank.
    shard.group = std::gcd(spec.q_heads / spec.kv_heads, shard.q_heads);
    shard.kv_heads = shard.q_heads / shard.group;
    return shard;
}

void check_sharding(const checkpoint::ModelConfig& config, int32_t ranks) {
    if (ranks < 1) {
        throw Error(ErrorCode::bad_request, fmt::format("{} ranks are none", ranks), {{"field", "--tp"}},
                    "use 1, 2, 4 or 8");
    }
    check_divides(config.vocab_size, ranks, "vocabulary entries");
    for (size_t layer = 0; layer < config.layers.size(); ++layer) {
        const checkpoint::LayerSpec& spec = config.layers[layer];
        check_divides(spec.q_heads, ranks, fmt::format("query heads of layer {}", layer));
        check_divides(spec.ff, ranks, fmt::format("MLP columns of layer {}", layer));
        if (spec.moe) check_divides(spec.moe->ff, ranks, fmt::format("expert columns of layer {}", layer));
    }
}

}  // namespace gemmatrace::model
