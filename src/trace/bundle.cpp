// Programs are made one at a time and written into a folder that gets the bundle's name at the end.
#include "trace/bundle.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <utility>

#include "base/durable_file.h"
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

// An open folder, locked for as long as it is open; the system lets go of the lock when the process dies.
class LockedFolder {
  public:
    LockedFolder() = default;
    LockedFolder(const fs::path& path, int how)
        : descriptor_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
        if (descriptor_ >= 0) has_lock_ = ::flock(descriptor_, how) == 0;
    }
    ~LockedFolder() {
        if (descriptor_ >= 0) ::close(descriptor_);
    }
    LockedFolder(LockedFolder&& other) noexcept { *this = std::move(other); }
    LockedFolder& operator=(LockedFolder&& other) noexcept {
        std::swap(descriptor_, other.descriptor_);
        std::swap(has_lock_, other.has_lock_);
        return *this;
    }
    LockedFolder(const LockedFolder&) = delete;
    LockedFolder& operator=(const LockedFolder&) = delete;
    bool has_lock() const { return has_lock_; }

  private:
    int descriptor_ = -1;
    bool has_lock_ = false;
};

// A folder beside the final one, which it becomes when it is complete; otherwise it goes away again. Those that killed
// processes have left for the same final one go away too.
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
        const LockedFolder parent(final_.parent_path(), LOCK_EX);  // a draft is never seen without its lock
        const std::string begin = "." + final_.filename().string() + ".";
        if (parent.has_lock()) remove_abandoned(begin);
        std::string name = (final_.parent_path() / (begin + "XXXXXX")).string();
        if (::mkdtemp(name.data()) == nullptr) fail_writing(final_, errno);
        path_ = name;
        lock_ = LockedFolder(path_, LOCK_EX | LOCK_NB);
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
    void remove_abandoned(const std::string& begin) const {
        std::error_code problem;
        for (fs::directory_iterator entry(final_.parent_path(), problem), end; !problem && entry != end;
             entry.increment(problem)) {
            const std::string name = entry->path().filename().string();
            constexpr size_t kRandomDigits = 6;
            if (name.size() != begin.size() + kRandomDigits || !name.starts_with(begin)) continue;
            std::error_code ignored;
            const LockedFolder abandoned(entry->path(), LOCK_EX | LOCK_NB);
            if (abandoned.has_lock()) fs::remove_all(entry->path(), ignored);
        }
    }

    fs::path final_;
    fs::path path_;
    LockedFolder lock_;
};

// Programs and manifest in a draft.
class DraftBundle {
  public:
    DraftBundle(const fs::path& directory, const BundleOutput& output) : output_(output), folder_(directory) {
        std::error_code problem;
        fs::create_directory(folder_.path() / "programs", problem);
        if (problem) fail_writing(folder_.path(), problem.value());
    }
    void stop_if_cancelled() const {
        if (output_.is_cancelled && output_.is_cancelled()) throw Error(ErrorCode::interrupted, "interrupted");
    }
    void add(const EmittedProgram& program) const {
        const fs::path path = folder_.path() / "programs" / program.spec.name();
        write_durably(path.string() + ".hlo.pb", program.proto);
        if (output_.with_text) write_durably(path.string() + ".hlo.txt", hlo::module_text(program.module));
        if (output_.on_program) output_.on_program(program);
    }
    void publish(const Manifest& manifest) {
        write_durably(folder_.path() / kManifestName, manifest_text(manifest));
        if (output_.complete) output_.complete(folder_.path(), manifest);
        stop_if_cancelled();
        folder_.publish();
    }

  private:
    const BundleOutput& output_;
    DraftFolder folder_;
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

void require_clean(const EmittedProgram& program) {
    if (program.findings.empty()) return;
    const hlo::Finding& first = program.findings.front();
    throw Error(ErrorCode::internal,
                fmt::format("the verifier finds fault with {}: {}", program.spec.name(), first.fault),
                {{"instruction", first.instruction}, {"findings", std::to_string(program.findings.size())}},
                "please report this with the command that led to it");
}

}  // namespace

size_t step_bytes(const ProgramEntry& entry) {
    size_t bytes = 0;
    for (const auto* tensors : {&entry.inputs, &entry.outputs}) {
        for (const ProgramTensor& tensor : *tensors) {
            if (tensor.role == ProgramTensor::Role::step) bytes += tensor.shape.bytes();
        }
    }
    return bytes;
}

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
    DraftBundle draft(directory, output);
    Manifest manifest = emitter.manifest();
    for (const ProgramSpec& spec : emitter.spec().programs()) {
        draft.stop_if_cancelled();
        const EmittedProgram emitted = emitter.emit(spec);
        require_clean(emitted);
        ProgramEntry entry = describe_program(spec, emitted.module, manifest.weights);
        entry.bytes = emitted.proto.size();
        entry.sha256 = sha256(emitted.proto);
        const size_t temporary = hlo::statistics_of(emitted.module).peak_temporary_bytes;
        manifest.memory.temporary_bytes = std::max(manifest.memory.temporary_bytes, temporary);
        manifest.programs.push_back(std::move(entry));
        draft.add(emitted);
    }
    StepBytes steps;
    for (const ProgramEntry& program : manifest.programs) steps.add(program.spec.kind, step_bytes(program));
    manifest.memory.step_bytes = steps.total();
    draft.publish(manifest);
    return manifest;
}

Manifest copy_bundle(const fs::path& directory, const Bundle& bundle, const BundleOutput& output) {
    DraftBundle draft(directory, output);
    for (const ProgramEntry& entry : bundle.manifest().programs) {
        draft.stop_if_cancelled();
        EmittedProgram copied;
        copied.spec = entry.spec;
        copied.module = bundle.program(entry.spec);
        copied.proto = read_file(bundle.directory() / entry.file(), hlo::kLargestProtoBytes);
        draft.add(copied);
    }
    draft.publish(bundle.manifest());
    return bundle.manifest();
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
