// A program is the forward pass run by TraceOps.
#include "trace/program.h"

#include <fmt/format.h>

#include <array>

#include "base/error.h"
#include "model/forward.h"
#include "model/shard.h"
#include "trace/trace_ops.h"

namespace gemmatrace::trace {

int64_t Geometry::ring_rows(const checkpoint::ModelConfig& config) const {
    const int64_t rows = int64_t{config.sliding_window} + chunk_tokens;
    return (rows + chunk_tokens - 1) / chunk_tokens * chunk_tokens;
}

hlo::ElementType Geometry::value_type() const {
    return precision == model::Precision::bf16 ? hlo::ElementType::bf16 : hlo::ElementType::f32;
}

void Geometry::check(const checkpoint::ModelConfig& config) const {
    model::check_sharding(config, ranks);
    const auto require = [](bool holds, std::string message, const char* field, const char* remedy) {
        if (!holds) throw Error(ErrorCode::bad_request, std::move(message), {{"field", field}}, remedy);
    };
    require(slots >= 1 && slots <= 256, fmt::format("{} slots are not possible", slots), "--batch", "use 1 to 256");
    require(chunk_tokens >= 1 && chunk_tokens <= 4096,
            fmt::format("a chunk of {} tokens is not possible", chunk_tokens), "--chunk", "use 1 to 4096");
    require(context_tokens >= chunk_tokens && context_tokens % chunk_tokens == 0,
            fmt::format("a context of {} tokens is no multiple of the chunk of {}", context_tokens, chunk_tokens),
            "--context", "use a multiple of --chunk");
    require(context_tokens <= config.max_position_embeddings,
            fmt::format("a context of {} tokens is beyond the model's {} positions", context_tokens,
                        config.max_position_embeddings),
            "--context", "use a smaller context");
}

std::string ProgramSpec::name() const {
    const char* kinds[] = {"prefill", "decode", "copy"};
    return fmt::format("{}_c{}", kinds[static_cast<size_t>(kind)], bucket);
}

std::string keys_name(int32_t layer) { return fmt::format("l{}.keys", layer); }
std::string values_name(int32_t layer) { return fmt::format("l{}.values", layer); }

namespace {

hlo::Module copy_program(const checkpoint::ModelConfig& config, const Geometry& geometry, const ProgramSpec& spec) {
    hlo::Builder builder(spec.name(), geometry.ranks);
    const hlo::Value from = builder.parameter(kSlot, hlo::Shape(hlo::ElementType::s32, {}));
    const hlo::Value to = builder.parameter(kTarget, hlo::Shape(hlo::ElementType::s32, {}));
    const hlo::Value zero = builder.constant(hlo::ElementType::s32, 0);
    std::vector<hlo::Output> outputs;
    for (const CacheBuffer& cache : cache_buffers(config, geometry)) {
        const hlo::Value buffer = builder.parameter(cache.name + std::string(hlo::kAliasSuffix), cache.shape);
        auto sizes = cache.shape.dimensions;
        sizes[0] = cache.is_ring ? sizes[0] - 1 : spec.bucket;
        sizes[1] = 1;
        const hlo::Value rows = builder.dynamic_slice(buffer, std::array{zero, from, zero, zero}, sizes);
        const hlo::Value copied = builder.dynamic_update_slice(buffer, rows, std::array{zero, to, zero, zero});
        outputs.push_back({cache.name, copied, buffer});
    }
    return builder.finish(std::move(outputs));
}

}  // namespace

std::vector<CacheBuffer> cache_buffers(const checkpoint::ModelConfig& config, const Geometry& geometry) {
    std::vector<CacheBuffer> buffers;
    for (int32_t layer = 0; layer < static_cast<int32_t>(config.layers.size()); ++layer) {
        const checkpoint::LayerSpec& spec = config.layers[static_cast<size_t>(layer)];
        if (spec.shares_kv) continue;
        const bool is_ring = spec.window > 0;
        const int64_t rows = (is_ring ? geometry.ring_rows(config) : geometry.context_tokens) + 1;
        const int64_t heads = model::shard_heads(spec, geometry.ranks).kv_heads;
        const hlo::Shape shape(geometry.value_type(), {rows, geometry.slots, heads, spec.head_dim});
        buffers.push_back({keys_name(layer), layer, is_ring, shape});
        buffers.push_back({values_name(layer), layer, is_ring, shape});
    }
    return buffers;
}

size_t cache_bytes_of_slot(const checkpoint::ModelConfig& config, const Geometry& geometry) {
    size_t bytes = 0;
    for (const CacheBuffer& cache : cache_buffers(config, geometry)) bytes += cache.shape.bytes();
    return bytes / static_cast<size_t>(geometry.slots) * static_cast<size_t>(geometry.ranks);
}

hlo::Module trace_program(const checkpoint::ModelConfig& config, const model::WeightPlan& plan, const Packing& packing,
                          const Geometry& geometry, const ProgramSpec& spec) {
    geometry.check(config);
    if (spec.bucket < geometry.chunk_tokens || spec.bucket > geometry.context_tokens) {
        throw Error(ErrorCode::bad_request,
                    fmt::format("a bucket of {} tokens is not between the chunk of {} and the context of {}",
                                spec.bucket, geometry.chunk_tokens, geometry.context_tokens),
                    {{"field", "--context"}}, "use other sizes");
    }
    if (spec.kind == ProgramKind::copy) return copy_program(config, geometry, spec);
    hlo::Builder builder(spec.name(), geometry.ranks);
    TraceOps ops(builder, config, packing, geometry, spec);
    return ops.finish(model::forward(ops, config, plan.weights));
}

}  // namespace gemmatrace::trace
