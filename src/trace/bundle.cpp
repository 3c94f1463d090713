// Programs are made one at a time and written into a folder that gets the bundle's name at the end.
#include "trace/bundle.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/error.h"
#include "base/file_mapping.h"
#include "base/printable.h"
#include "base/sha256.h"
#include "hlo/proto.h"
#include "hlo/statistics.h"
#include "hlo/text.h"

namespace gemmatrace::trace {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifestName = "manifest.json";
constexpr const char* kMakeAgain = "make the bundle again with `gemmatrace compile`";

[[noreturn]] void fail_writing(const fs::path& path, int error) {
    throw Error(ErrorCode::resource, fmt::format("cannot write the bundle: {}", std::strerror(error)),
                {{"file", path.string()}}, "free disk space, or choose another folder");
}

// Writes a file and waits until the disk has it.
void write_whole(const fs::path& path, std::string_view bytes) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0) fail_writing(path, errno);
    int error = 0;
    while (!bytes.empty() && error == 0) {
        const ssize_t count = ::write(file, bytes.data(), bytes.size());
        if (count > 0)
            bytes.remove_prefix(static_cast<size_t>(count));
        else if (count < 0 && errno != EINTR)
            error = errno;
    }
    if (error == 0 && ::fsync(file) != 0) error = errno;
    if (::close(file) != 0 && error == 0) error = errno;
    if (error != 0) fail_writing(path, error);
}

// A folder beside the final one, which it becomes when it is complete; otherwise it goes away again.
class DraftFolder {
  public:
    explicit DraftFolder(const fs::path& final_path) : final_(fs::absolute(final_path).lexically_normal()) {
        if (!final_.has_filename()) final_ = final_.parent_path();
        std::error_code problem;
        if (fs::exists(final_, problem) && !(fs::is_directory(final_, problem) && fs::is_empty(final_, problem))) {
            throw Error(ErrorCode::bad_request, "the output is there already and not an empty folder",
                        {{"folder", final_.string()}}, "name a new or empty folder");
        }
        fs::create_directories(final_.parent_path(), problem);
        if (problem) fail_writing(final_.parent_path(), problem.value());
        std::string name = (final_.parent_path() / ("." + final_.filename().string() + ".XXXXXX")).string();
        if (::mkdtemp(name.data()) == nullptr) fail_writing(final_, errno);
        path_ = name;
    }
    ~DraftFolder() {
        std::error_code ignored;  // nothing better can be done than to try
        if (!path_.empty()) fs::remove_all(path_, ignored);
    }
    DraftFolder(const DraftFolder&) = delete;
    DraftFolder& operator=(const DraftFolder&) = delete;

    const fs::path& path() const { return path_; }
    void publish() {
        std::error_code problem;
        constexpr auto kEveryone = fs::perms::group_read | fs::perms::group_exec | fs::perms::others_read |
                                   fs::perms::others_exec;  // mkdtemp's folders are private
        fs::permissions(path_, kEveryone, fs::perm_options::add, problem);
        fs::rename(path_, final_, problem);
        if (problem) fail_writing(final_, problem.value());
        path_.clear();
    }

  private:
    fs::path final_;
    fs::path path_;
};

// Tensors of the entry at these places, as the host names them.
std::vector<ProgramTensor> tensors_of(const hlo::Module& module, const std::vector<int32_t>& places,
                                      const std::vector<std::string>& names) {
    std::vector<ProgramTensor> tensors;
    for (size_t index = 0; index < places.size(); ++index) {
        const hlo::Shape& shape = module.entry().instructions[static_cast<size_t>(places[index])].shape;
        tensors.push_back({names.at(index), ProgramTensor::Role::step, shape});
    }
    return tensors;
}

size_t step_bytes(const ProgramEntry& entry) {
    size_t bytes = 0;
    for (const auto* tensors : {&entry.inputs, &entry.outputs}) {
        for (const ProgramTensor& tensor : *tensors) {
            if (tensor.role == ProgramTensor::Role::step) bytes += tensor.shape.bytes();
        }
    }
    return bytes;
}

// Programs of one kind share their buffers, so the largest counts for each kind.
size_t step_bytes(const std::vector<ProgramEntry>& programs) {
    size_t by_kind[3] = {};
    for (const ProgramEntry& program : programs) {
        size_t& largest = by_kind[static_cast<size_t>(program.spec.kind)];
        largest = std::max(largest, step_bytes(program));
    }
    return by_kind[0] + by_kind[1] + by_kind[2];
}

void require_clean(const EmittedProgram& program) {
    if (program.findings.empty()) return;
    const hlo::Finding& first = program.findings.front();
    throw Error(ErrorCode::internal,
                fmt::format("the verifier finds fault with {}: {}", program.spec.name(), first.fault),
                {{"instruction", first.instruction}, {"findings", std::to_string(program.findings.size())}},
                "please report this with the command that led to it");
}

}  // namespace

ProgramEntry describe_program(const ProgramSpec& spec, const hlo::Module& module,
                              const std::vector<WeightRecipe>& weights) {
    ProgramEntry entry;
    entry.spec = spec;
    entry.inputs = tensors_of(module, module.parameters(), module.parameter_names());
    entry.outputs = tensors_of(module, module.outputs(), module.output_names());
    entry.aliases = module.aliases;
    for (ProgramTensor& input : entry.inputs) {
        const bool is_weight = std::ranges::find(weights, input.name, &WeightRecipe::name) != weights.end();
        if (is_weight) input.role = ProgramTensor::Role::weight;
    }
    for (const hlo::Alias& alias : module.aliases) {
        entry.inputs[static_cast<size_t>(alias.parameter)].role = ProgramTensor::Role::cache;
        entry.outputs[static_cast<size_t>(alias.output)].role = ProgramTensor::Role::cache;
    }
    return entry;
}

std::vector<ProgramSpec> BundleSpec::programs() const {
    std::vector<ProgramSpec> programs;
    for (const ProgramKind kind : {ProgramKind::prefill, ProgramKind::decode, ProgramKind::copy}) {
        if (kind == ProgramKind::copy && geometry.slots == 1) continue;
        for (const int64_t bucket : buckets) programs.push_back({kind, bucket});
    }
    return programs;
}

BundleEmitter::BundleEmitter(BundleSpec spec) : spec_(std::move(spec)) {
    spec_.geometry.check(spec_.config);
    const auto& buckets = spec_.buckets;
    const bool is_ascending = std::ranges::adjacent_find(buckets, std::greater_equal()) == buckets.end();
    require(is_ascending && !buckets.empty() && buckets.back() == spec_.geometry.context_tokens,
            "buckets ascend to the whole context");
    plan_ = model::plan_weights(spec_.config, spec_.has_untied_head);
    packing_ = pack_weights(spec_.config, plan_, spec_.geometry.ranks);
}

EmittedProgram BundleEmitter::emit(const ProgramSpec& program) const {
    const std::clock_t start = std::clock();
    EmittedProgram emitted;
    emitted.spec = program;
    emitted.module = trace_program(spec_.config, plan_, packing_, spec_.geometry, program);
    emitted.proto = hlo::write_proto(emitted.module);
    emitted.seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    emitted.findings = hlo::verify(emitted.module, spec_.geometry.ranks);
    return emitted;
}

Manifest BundleEmitter::manifest() const {
    Manifest manifest;
    manifest.target = spec_.target;
    manifest.geometry = spec_.geometry;
    manifest.buckets = spec_.buckets;
    manifest.model = model_identity(spec_.config, spec_.has_untied_head);
    manifest.weights = weight_recipes(plan_, packing_);
    for (const PackedInput& input : packing_.inputs) {
        manifest.memory.weight_bytes += static_cast<size_t>(input.bytes());
    }
    for (const CacheBuffer& cache : cache_buffers(spec_.config, spec_.geometry)) {
        manifest.memory.cache_bytes += cache.shape.bytes();
    }
    return manifest;
}

Manifest write_bundle(const fs::path& directory, const BundleEmitter& emitter, const BundleOutput& output) {
    DraftFolder draft(directory);
    const auto stop_if_cancelled = [&] {
        if (output.is_cancelled && output.is_cancelled()) throw Error(ErrorCode::interrupted, "interrupted");
    };
    std::error_code problem;
    fs::create_directory(draft.path() / "programs", problem);
    if (problem) fail_writing(draft.path(), problem.value());
    Manifest manifest = emitter.manifest();
    for (const ProgramSpec& spec : emitter.spec().programs()) {
        stop_if_cancelled();
        const EmittedProgram emitted = emitter.emit(spec);
        require_clean(emitted);
        ProgramEntry entry = describe_program(spec, emitted.module, manifest.weights);
        entry.bytes = emitted.proto.size();
        entry.sha256 = sha256(emitted.proto);
        write_whole(draft.path() / entry.file(), emitted.proto);
        if (output.with_text) {
            write_whole(draft.path() / ("programs/" + spec.name() + ".hlo.txt"), hlo::module_text(emitted.module));
        }
        const size_t temporary = hlo::statistics_of(emitted.module).peak_temporary_bytes;
        manifest.memory.temporary_bytes = std::max(manifest.memory.temporary_bytes, temporary);
        manifest.programs.push_back(std::move(entry));
        if (output.on_program) output.on_program(emitted);
    }
    manifest.memory.step_bytes = step_bytes(manifest.programs);
    write_whole(draft.path() / kManifestName, manifest_text(manifest));
    stop_if_cancelled();
    draft.publish();
    return manifest;
}

Bundle::Bundle(fs::path directory) : directory_(std::move(directory)) {
    const fs::path path = directory_ / kManifestName;
    std::error_code problem;
    if (!fs::is_directory(directory_, problem) || !fs::exists(path, problem)) {
        throw Error(ErrorCode::not_found, fmt::format("there is no bundle: {} is missing", printable(path.string())),
                    {}, "make one with `gemmatrace compile`");
    }
    manifest_ = parse_manifest(read_file(path, kLargestManifestBytes), path.string());
    for (const ProgramEntry& entry : manifest_.programs) {
        const fs::path file = directory_ / entry.file();
        const auto bytes = fs::file_size(file, problem);
        if (!problem && bytes == entry.bytes) continue;
        throw Error(ErrorCode::corrupt,
                    problem ? "a program of the bundle is missing"
                            : fmt::format("a program of the bundle has {} bytes, not {}", bytes, entry.bytes),
                    {{"file", file.string()}}, kMakeAgain);
    }
}

hlo::Module Bundle::program(const ProgramSpec& spec) const {
    const ProgramEntry* entry = manifest_.find(spec);
    if (entry == nullptr) {
        throw Error(ErrorCode::mismatch, fmt::format("the bundle has no program {}", spec.name()),
                    {{"bundle", directory_.string()}}, kMakeAgain);
    }
    const fs::path path = directory_ / entry->file();
    const std::string bytes = read_file(path, hlo::kLargestProtoBytes);
    const auto refuse = [&](const char* fault) {
        throw Error(ErrorCode::corrupt, fault, {{"file", path.string()}}, kMakeAgain);
    };
    if (sha256(bytes) != entry->sha256) refuse("the program is not the one that was written with the manifest");
    hlo::Module module = hlo::read_proto(std::as_bytes(std::span(bytes)), path.string());
    hlo::require_sound(module, manifest_.geometry.ranks);
    ProgramEntry found = describe_program(spec, module, manifest_.weights);
    found.bytes = entry->bytes;
    found.sha256 = entry->sha256;
    if (found != *entry) refuse("the program's inputs and outputs are not those of the manifest");
    return module;
}

DeviceModelOptions Bundle::options() const {
    DeviceModelOptions options;
    options.geometry = manifest_.geometry;
    options.buckets = manifest_.buckets;
    options.program_of = [bundle = *this](const ProgramSpec& spec) { return bundle.program(spec); };
    return options;
}

bool stores_untied_head(const fs::path& checkpoint, const checkpoint::ModelConfig& config) {
    const auto store = checkpoint::TensorStore::open(checkpoint);
    const model::ModelWeights weights = model::StoredWeights(store, config).plan.weights;
    return weights.head.slot != weights.embedding.slot;
}

void check_fits_checkpoint(const Bundle& bundle, const fs::path& checkpoint) {
    const checkpoint::ModelConfig config = checkpoint::load_config(checkpoint);
    try {
        check_fits(bundle.manifest(), config, stores_untied_head(checkpoint, config));
    } catch (Error& error) {
        throw error.add_context("bundle_folder", bundle.directory().string());
    }
}

}  // namespace gemmatrace::trace
