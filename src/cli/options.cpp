// Shared options: their text, their checks, and what they become.
#include "cli/options.h"

#include <fmt/format.h>

#include <random>

#include "base/error.h"
#include "engine/sampler.h"

namespace gemmatrace::cli {
namespace {

constexpr int kMaxThreads = 1024;
constexpr int32_t kMaxChunkTokens = 65536;
constexpr int32_t kCpuChunkTokens = 128;
constexpr int32_t kReferenceTopK = 50;  // what Transformers samples with when no file and no call says otherwise

uint64_t random_seed() {
    std::random_device device;
    // 53 bits, so that every JSON reader gives the same number back.
    return ((static_cast<uint64_t>(device()) << 32) | device()) >> 11;
}

}  // namespace

Option checkpoint_argument(std::filesystem::path& checkpoint) {
    return {"CHECKPOINT", &checkpoint, "directory with config.json and the safetensors, or a pulled ORG/NAME"};
}

void add_model_options(Command& command, ModelOptions& options) {
    command.options.push_back(checkpoint_argument(options.checkpoint));
    command.options.push_back({"--pull", &options.may_pull, "fetch the checkpoint ORG/NAME if it is not here yet"});
    constexpr bool kShowsDefault = true;
    command.add(
        "How to compute (only --precision can change a token)",
        {{"--precision", &options.precision, "bf16, rounding as Transformers does, or fp32, the judge", "bf16|fp32", "",
          kShowsDefault},
         {"--threads", &options.threads, "threads to compute with; 0: one a core", "N", "", kShowsDefault},
         {"--isa", &options.isa, "instruction set of the kernels", "auto|scalar|avx2|avx512", "", kShowsDefault},
         {"--chunk", &options.chunk_tokens, "prompt tokens computed together [128; 64 in programs]", "N"},
         {"--device", &options.device,
          "cpu; neuron: the accelerator; auto: that, or else cpu; sim: its programs, simulated (slow)",
          "cpu|neuron|auto|sim", "", kShowsDefault},
         {"--tp", &options.ranks, "cores that share the model, with --device sim [1]", "N"},
         {"--bundle", &options.bundle, "the programs of `gemmatrace compile`, with --device neuron or sim", "DIR"},
         {"--cores", &options.cores, "cores of the accelerator [NEURON_RT_VISIBLE_CORES, or the first]", "LIST"},
         {"--device-timeout", &options.device_timeout,
          "seconds a step of the accelerator may take, a load ten times as long [120]", "S"}});
}

void add_sampling_options(Command& command, SamplingOptions& options) {
    command.add("Choosing tokens (defaults: the checkpoint's generation_config.json, else greedy)",
                {{"--temperature", &options.temperature, "0: greedy; higher: more varied", "T"},
                 {"--top-k", &options.top_k, "only the K most likely; 0: all", "K"},
                 {"--top-p", &options.top_p, "only the most likely that together reach P", "P"},
                 {"--min-p", &options.min_p, "only those at least P times as likely as the best", "P"},
                 {"--seed", &options.seed, "repeats a sampled answer; drawn at random if not given", "S"}});
}

cpu::RunnerOptions runner_options(const ModelOptions& options) {
    cpu::RunnerOptions result;
    if (options.precision == "fp32") {
        result.precision = model::Precision::fp32;
    } else if (options.precision != "bf16") {
        throw Error(ErrorCode::bad_request, fmt::format("unknown precision '{}'", options.precision),
                    {{"field", "--precision"}}, "use bf16 or fp32");
    }
    if (options.threads < 0 || options.threads > kMaxThreads) {
        throw Error(ErrorCode::bad_request, fmt::format("{} threads were asked for", options.threads),
                    {{"field", "--threads"}}, fmt::format("use 1 to {}, or 0 for one a core", kMaxThreads));
    }
    const int32_t chunk_tokens = options.chunk_tokens.value_or(kCpuChunkTokens);
    if (chunk_tokens < 1 || chunk_tokens > kMaxChunkTokens) {
        throw Error(ErrorCode::bad_request, fmt::format("a chunk of {} tokens was asked for", chunk_tokens),
                    {{"field", "--chunk"}}, fmt::format("use 1 to {}", kMaxChunkTokens));
    }
    result.threads = options.threads;
    result.chunk_tokens = chunk_tokens;
    if (options.isa != "auto") result.isa = cpu::parse_isa(options.isa);
    return result;
}

engine::SamplingParameters sampling_parameters(const SamplingOptions& options,
                                               const checkpoint::GenerationConfig& defaults) {
    const bool is_asked_for = options.temperature || options.top_k || options.top_p || options.min_p;
    engine::SamplingParameters result;  // greedy
    if (is_asked_for || defaults.do_sample) {
        result.temperature = options.temperature.value_or(defaults.temperature.value_or(1.0));
        result.top_k = options.top_k.value_or(defaults.top_k.value_or(kReferenceTopK));
        result.top_p = options.top_p.value_or(defaults.top_p.value_or(1.0));
        result.min_p = options.min_p.value_or(defaults.min_p.value_or(0.0));
    }
    engine::check_sampling(result);
    if (options.seed) {
        result.seed = *options.seed;
    } else if (result.temperature > 0.0) {
        result.seed = random_seed();
    }
    return result;
}

}  // namespace gemmatrace::cli
