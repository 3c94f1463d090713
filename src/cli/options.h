// Options that several commands share: declared once, described once, checked once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "cli/command.h"
#include "cpu/runner.h"
#include "engine/sampling_parameters.h"

namespace gemmatrace::cli {

// How the model is run; none of these but the precision changes a token.
struct ModelOptions {
    std::filesystem::path checkpoint;  // a directory or a hub's name: find_checkpoint()
    bool may_pull = false;
    std::string precision = "bf16";
    std::string isa = "auto";
    int threads = 0;
    std::optional<int32_t> chunk_tokens;
    std::string device = "cpu";
    std::optional<int32_t> ranks;
    std::filesystem::path bundle;
    std::string cores;
    std::optional<double> device_timeout;
};

// What the user said about choosing tokens; what was not said comes from the checkpoint.
struct SamplingOptions {
    std::optional<double> temperature;
    std::optional<int32_t> top_k;
    std::optional<double> top_p;
    std::optional<double> min_p;
    std::optional<uint64_t> seed;
};

// The positional CHECKPOINT.
Option checkpoint_argument(std::filesystem::path& checkpoint);
// CHECKPOINT, --pull, --device, --tp, --bundle, --cores, --device-timeout, --precision, --isa, --threads, --chunk.
void add_model_options(Command& command, ModelOptions& options);
// --temperature, --top-k, --top-p, --min-p, --seed.
void add_sampling_options(Command& command, SamplingOptions& options);

// Throws Error(bad_request) for a value out of range, Error(unsupported) for an instruction set this machine lacks.
cpu::RunnerOptions runner_options(const ModelOptions& options);
// Command line over generation_config.json over Transformers' defaults (temperature 1, top_k 50). Sampling is on when
// the file says do_sample or any of temperature, top_k, top_p, min_p was given; `--temperature 0` turns it off. Without
// a seed one is drawn from the system.
engine::SamplingParameters sampling_parameters(const SamplingOptions& options,
                                               const checkpoint::GenerationConfig& defaults);

}  // namespace gemmatrace::cli
