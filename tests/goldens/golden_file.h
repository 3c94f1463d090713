// Reader of golden.json and layers.bin (format: tools/goldens/README.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/precision.h"

namespace gemmatrace::goldens {

struct GoldenRun {
    size_t prompt = 0;
    model::Precision precision = model::Precision::bf16;
    std::vector<int32_t> ids;  // generated, stops ignored
    int64_t stop_step = -1;
    std::vector<int32_t> top_ids;   // [steps, top]
    std::vector<float> top_logits;  // [steps, top], before the soft cap
    std::vector<float> margins;
    std::vector<int64_t> unjudged;  // fp32: steps too close to judge
    std::vector<std::vector<int64_t>> exceptions;
};

// Hashes of one stage of a full pass, one a row.
struct Stage {
    std::string name;
    std::vector<uint64_t> row_hashes;
};

struct Pass {
    size_t prompt = 0;
    std::vector<int32_t> ids;
    std::vector<Stage> stages;

    const Stage* find(const std::string& name) const;
};

struct Prompt {
    std::string name;
    std::string kind;
    std::vector<int32_t> ids;
};

struct Golden {
    std::filesystem::path checkpoint;
    std::vector<int32_t> eos_token_ids;
    std::vector<int32_t> suppress_token_ids;
    size_t top = 8;
    std::vector<Prompt> prompts;
    std::vector<GoldenRun> runs;
    std::vector<Pass> passes;
};

// The checkpoints of the repository that have goldens, models/ first.
std::vector<std::filesystem::path> checkpoints_with_goldens();

// Reads the goldens of a checkpoint and requires that its weights are the ones they were made from.
Golden read_golden(const std::filesystem::path& checkpoint);

// FNV-1a over the values' bf16 bit patterns, as the golden maker hashes a row.
uint64_t row_hash(std::span<const float> values);

}  // namespace gemmatrace::goldens
