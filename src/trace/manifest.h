// What a bundle says of itself: for which model and sizes its programs are, and what each program takes and gives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/config.h"
#include "hlo/module.h"
#include "trace/packing.h"
#include "trace/program.h"

namespace gemmatrace::trace {

inline constexpr int32_t kManifestSchema = 1;  // of manifest.json; raised when its members change their meaning
// Of trace_program: raised when the same arguments give another program, so that older bundles are refused.
inline constexpr int32_t kProgramVersion = 1;

inline constexpr size_t kLargestManifestBytes = size_t{32} << 20;  // longer files are refused

// The members of a config that decide what is computed, each by its name; what only names tokens, files or stored types
// is not among them, so that a bundle serves every checkpoint of the same geometry.
nlohmann::ordered_json model_identity(const checkpoint::ModelConfig& config, bool has_untied_head);

// An input or an output of a program.
struct ProgramTensor {
    enum class Role {
        weight,  // packed by the recipe of that name
        cache,   // written in place
        step,    // what the host writes or reads at every step
    };
    std::string name;
    Role role = Role::step;
    hlo::Shape shape;
    bool operator==(const ProgramTensor&) const = default;
};

struct ProgramEntry {
    ProgramSpec spec;
    size_t bytes = 0;                    // of the file
    std::string sha256;                  // of the file
    std::vector<ProgramTensor> inputs;   // by parameter number
    std::vector<ProgramTensor> outputs;  // by place in the result
    std::vector<hlo::Alias> aliases;

    // "programs/decode_c512.hlo.pb"
    std::string file() const;
    bool operator==(const ProgramEntry&) const = default;
};

// A run of rows and columns of a stored tensor, of each of its outer indices.
struct RecipePiece {
    std::string tensor;  // stored name without the text prefix
    int64_t row_begin = 0;
    int64_t rows = 0;
    int64_t column_begin = 0;
    int64_t columns = 0;
    bool operator==(const RecipePiece&) const = default;
};

// How a weight input is made of stored tensors: for each outer index the pieces one below the other, as bf16.
struct WeightRecipe {
    std::string name;
    std::vector<int64_t> dimensions;  // on one rank
    int64_t outer = 1;
    std::vector<std::vector<RecipePiece>> pieces;  // [rank]
    bool operator==(const WeightRecipe&) const = default;
};
std::vector<WeightRecipe> weight_recipes(const model::WeightPlan& plan, const Packing& packing);

// Bytes that one rank needs.
struct RankMemory {
    size_t weight_bytes = 0;
    size_t cache_bytes = 0;
    size_t step_bytes = 0;       // inputs and outputs beside them, of all programs
    size_t temporary_bytes = 0;  // the most that one program holds while it runs, as hlo::statistics_of counts
    bool operator==(const RankMemory&) const = default;
};

struct Manifest {
    int32_t schema_version = kManifestSchema;
    int32_t program_version = kProgramVersion;
    std::string target;
    Geometry geometry;
    std::vector<int64_t> buckets;  // ascending; the last is geometry.context_tokens
    nlohmann::ordered_json model;  // model_identity
    RankMemory memory;
    std::vector<WeightRecipe> weights;
    std::vector<ProgramEntry> programs;

    // Everything that determines the programs, and its SHA-256.
    nlohmann::ordered_json identity() const;
    std::string hash() const;
    // Null when the bundle has no such program.
    const ProgramEntry* find(const ProgramSpec& spec) const;
    bool operator==(const Manifest&) const = default;
};

// manifest.json: a line for what is short, further lines for what is not.
std::string manifest_text(const Manifest& manifest);

// Reads what manifest_text writes; `where` is the file, for messages. Throws Error(corrupt) naming the member for
// anything that no bundle of this program says, a hash among them that is not the one of the rest, and Error(mismatch)
// for another schema version.
Manifest parse_manifest(std::string_view text, const std::string& where);

// Throws Error(mismatch) with the first member that differs and both values, unless the programs are those that this
// binary makes for a model of `config` whose output head is stored or tied as said.
void check_fits(const Manifest& manifest, const checkpoint::ModelConfig& config, bool has_untied_head);

}  // namespace gemmatrace::trace
