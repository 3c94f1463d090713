// A program is the forward pass run by TraceOps.
#include "trace/program.h"

#include <fmt/format.h>

#include "base/error.h"
#include "model/forward.h"
#include "model/shard.h"
#include "trace/trace_ops.h"

namespace gemmatrace::trace {

int64_t Geometry::ring_rows(const checkpoint::ModelConfig& config) const {
    const int64_t rows = int64_t{config.sliding_window} + chunk_tokens;
    return (rows + chunk_tokens - 1) / chunk_tokens * chunk_tokens;
}

void Geometry::check(const checkpoint::ModelConfig& config) const {
    model::check_sharding(config, ranks);
    const auto require = [](bool holds, std::string message, const char* field, const char* remedy) {
        if (!holds) throw Error(ErrorCode::bad_request, std::move(message), {{"field", field}}, remedy);
    };
    require(slots >= 1 && slots <= 256, fmt::format("{} slots are not possible", slots), "--batch", "use 1 to 256");
    require(chunk_tokens >= 1 && chunk_tokens <= 4096, fmt::format("a chunk of {} tokens is not possible", chunk_tokens),
            "--chunk", "use 1 to 4096");
    require(context_tokens >= chunk_tokens && context_tokens % chunk_tokens == 0,
            fmt::format("a context of {} tokens is no multiple of the chunk of {}", context_tokens, chunk_tokens),
            "--context", "use a multiple of --chunk");
    require(context_tokens <= config.max_position_embeddings,
            fmt::format("a context of {} tokens is beyond the model's {} positions", context_tokens,
                        config.max_position_embeddings),
            "--context", "use a smaller context");
}

std::string ProgramSpec::name() const {
    return fmt::format("{}_c{}", kind == ProgramKind::decode ? "decode" : "prefill", bucket);
}

std::string keys_name(int32_t layer) { return fmt::format("l{}.keys", layer); }
std::string values_name(int32_t layer) { return fmt::format("l{}.values", layer); }

hlo::Module trace_program(const checkpoint::ModelConfig& config, const model::WeightPlan& plan, const Packing& packing,
                          const Geometry& geometry, const ProgramSpec& spec) {
    geometry.check(config);
    if (spec.bucket < geometry.chunk_tokens || spec.bucket > geometry.context_tokens) {
        throw Error(ErrorCode::bad_request,
                    fmt::format("a bucket of {} tokens is not between the chunk of {} and the context of {}", spec.bucket,
                                geometry.chunk_tokens, geometry.context_tokens),
                    {{"field", "--context"}}, "use other sizes");
    }
    hlo::Builder builder(spec.name(), geometry.ranks);
    TraceOps ops(builder, config, packing, geometry, spec);
    return ops.finish(model::forward(ops, config, plan.weights));
}

}  // namespace gemmatrace::trace
