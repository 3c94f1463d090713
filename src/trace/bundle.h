// A bundle: a directory of programs and the manifest that describes them, for every checkpoint of one geometry. It
// holds no weights.
//
//   manifest.json
//   programs/prefill_c512.hlo.pb, programs/decode_c512.hlo.pb, …
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "hlo/module.h"
#include "hlo/verifier.h"
#include "trace/device_model.h"
#include "trace/manifest.h"

namespace gemmatrace::trace {

// What a program takes and gives, as a manifest says it; without the file's size and hash. Of a sound module.
ProgramEntry describe_program(const ProgramSpec& spec, const hlo::Module& module,
                              const std::vector<WeightRecipe>& weights);

// Bytes of an entry's inputs and outputs that are neither weights nor caches.
size_t step_bytes(const ProgramEntry& entry);

// Those of all programs: programs of one kind share their buffers, so the largest counts for each kind.
class StepBytes {
  public:
    void add(ProgramKind kind, size_t bytes) {
        size_t& largest = largest_[static_cast<size_t>(kind)];
        largest = std::max(largest, bytes);
    }
    size_t total() const { return largest_[0] + largest_[1] + largest_[2]; }

  private:
    size_t largest_[3] = {};
};

// What to make programs for.
struct BundleSpec {
    checkpoint::ModelConfig config;
    bool has_untied_head = false;
    Geometry geometry;
    std::vector<int64_t> buckets;  // ascending; the last is geometry.context_tokens
    std::string target = "inf2";

    // Of each bucket a prefill, a decode and, where there are several slots, a copy.
    std::vector<ProgramSpec> programs() const;
};

// A program and what making it showed.
struct EmittedProgram {
    ProgramSpec spec;
    hlo::Module module;
    std::string proto;                   // bytes of the file
    std::vector<hlo::Finding> findings;  // of the verifier
    double seconds = 0.0;                // of a processor, to trace and write it; without the verifier
};

// Makes the programs of a bundle one by one. Nothing is read but the config.
class BundleEmitter {
  public:
    // Throws Error(bad_request) or Error(unsupported) for sizes that no program can have.
    explicit BundleEmitter(BundleSpec spec);

    const BundleSpec& spec() const { return spec_; }
    const model::WeightPlan& weight_plan() const { return plan_; }
    const Packing& packing() const { return packing_; }
    EmittedProgram emit(const ProgramSpec& program) const;
    // The manifest without programs.
    Manifest manifest() const;

  private:
    BundleSpec spec_;
    model::WeightPlan plan_;
    Packing packing_;
};

struct BundleOutput {
    bool with_text = false;                                 // each program as text beside its proto, NAME.hlo.txt
    std::function<void(const EmittedProgram&)> on_program;  // told of each when it is written; may be empty
    std::function<bool()> is_cancelled;                     // asked between programs; may be empty
    // Adds to the bundle, which lies complete in `draft`, before it gets its name; may be empty.
    std::function<void(const std::filesystem::path& draft, const Manifest& manifest)> complete = {};
};

// Writes a bundle into `directory`, which must not exist or be empty. It appears there as a whole: on failure or when
// cancelled, which is Error(interrupted), nothing is left. Throws Error(internal) for a program that the verifier finds
// fault with, Error(resource) when the disk is full.
Manifest write_bundle(const std::filesystem::path& directory, const BundleEmitter& emitter, const BundleOutput& output);

// A bundle on disk.
class Bundle {
  public:
    // Reads the manifest, and sees that every program is there in its size. Throws Error(not_found), the errors of
    // parse_manifest, Error(corrupt).
    explicit Bundle(std::filesystem::path directory);

    const std::filesystem::path& directory() const { return directory_; }
    const Manifest& manifest() const { return manifest_; }

    // Reads a program. Throws Error(mismatch) when the bundle has none of that kind and bucket, Error(corrupt) when the
    // file is not the one that the manifest names or is not sound.
    hlo::Module program(const ProgramSpec& spec) const;

    // What a DeviceModel needs to run these programs. The result does not refer to this object.
    DeviceModelOptions options() const;

  private:
    std::filesystem::path directory_;
    Manifest manifest_;
};

// Writes the programs and the manifest of a bundle again, elsewhere and as write_bundle does, each program verified;
// what lies beside them in the bundle is left behind.
Manifest copy_bundle(const std::filesystem::path& directory, const Bundle& bundle, const BundleOutput& output);

// Throws Error(mismatch), naming the first difference, when the bundle is not for the checkpoint in `checkpoint`.
void check_fits_checkpoint(const Bundle& bundle, const std::filesystem::path& checkpoint);

// Whether the checkpoint in a directory stores an output head of its own. Binds its weights: throws the ledger's
// errors.
bool stores_untied_head(const std::filesystem::path& checkpoint, const checkpoint::ModelConfig& config);

}  // namespace gemmatrace::trace
