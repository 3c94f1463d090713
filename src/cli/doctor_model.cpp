// Steps of `gemmatrace doctor --first-contact` with a checkpoint: two and four layers of its geometry with random
// weights, then the model itself.
#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "base/progress.h"
#include "checkpoint/synth.h"
#include "cli/doctor_bench.h"
#include "cli/doctor_parity.h"
#include "cli/doctor_run.h"
#include "cli/interrupt.h"
#include "cli/synth.h"
#include "cli/token_counts.h"
#include "hlo/statistics.h"
#include "model/weight_plan.h"
#include "neuron/compiled.h"
#include "trace/bundle.h"
#include "trace/program_figures.h"

namespace gemmatrace::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// The config of a checkpoint cut to its first layers, the last of which attends to everything, as in every Gemma.
ordered_json cut_config(ordered_json document, size_t layers) {
    ordered_json& text = document.contains("text_config") ? document["text_config"] : document;
    const auto all = text["num_hidden_layers"].get<size_t>();
    for (auto& [name, value] : text.items()) {
        if (!value.is_array() || value.size() != all) continue;
        while (value.size() > layers) value.erase(value.size() - 1);
        if (name == "layer_types") value.back() = "full_attention";
    }
    text["num_hidden_layers"] = layers;
    if (!text.contains("num_kv_shared_layers") || !text["num_kv_shared_layers"].is_number_integer()) return document;
    const auto kinds = text.value("layer_types", ordered_json::array());
    size_t shared = layers * text["num_kv_shared_layers"].get<size_t>() / all;
    const auto has_donors = [&] {
        for (size_t layer = layers - shared; layer < layers; ++layer) {
            const auto own = kinds.begin() + static_cast<std::ptrdiff_t>(layers - shared);
            if (kinds.size() != layers || std::find(kinds.begin(), own, kinds[layer]) == own) return false;
        }
        return true;
    };
    while (shared > 0 && !has_donors()) --shared;
    text["num_kv_shared_layers"] = shared;
    return document;
}

void write_cut_checkpoint(const fs::path& directory, const ordered_json& document) {
    const auto config = checkpoint::parse_config(document, "the cut config.json");
    std::vector<checkpoint::SynthTensor> tensors;
    for (const model::WeightSlot& slot : model::weight_plan(config)) tensors.push_back(synthetic_tensor(slot));
    constexpr size_t kShard = size_t{48} << 30;
    checkpoint::write_synthetic_checkpoint(
        directory, document, tensors, 0, kShard, [](size_t, size_t) {}, is_interrupted);
}

trace::BundleSpec doctor_spec(const StepContext& context, const checkpoint::ModelConfig& config, bool has_untied_head) {
    trace::BundleSpec spec;
    spec.config = config;
    spec.has_untied_head = has_untied_head;
    const DoctorOptions& options = context.options;
    spec.geometry = {options.ranks, options.slots, 0, options.chunk_tokens, {}};
    if (options.contexts.empty()) {
        const int64_t chunk = std::max(options.chunk_tokens, 1);
        const int64_t tokens = spec.geometry.ring_rows(config) + 2 * chunk;
        spec.buckets = {(tokens + chunk - 1) / chunk * chunk};
    } else {
        spec.buckets = parse_token_counts(options.contexts, "--context");
    }
    spec.geometry.context_tokens = spec.buckets.back();
    return spec;
}

// What compiling took, by program.
ordered_json compiled_figures(const fs::path& bundle) {
    const trace::Bundle made(bundle);
    const neuron::Compiled compiled = neuron::read_compiled(bundle, made.manifest());
    ordered_json figures = {{"compiler", compiled.compiler}, {"islpy", compiled.islpy}, {"flags", compiled.flags}};
    for (const neuron::CompiledProgram& program : compiled.programs) {
        const trace::ProgramEntry* entry = nullptr;
        for (const auto& known : made.manifest().programs) entry = known.spec.name() == program.name ? &known : entry;
        const hlo::Statistics statistics = hlo::statistics_of(made.program(entry->spec));
        const uint64_t largest = statistics.largest.empty() ? 0 : statistics.largest.front().shape.bytes();
        const neuron::CompileCost cost = neuron::estimate_compile({statistics.instructions, largest});
        figures["programs"][program.name] = {{"seconds", program.seconds},
                                             {"estimated_seconds", cost.seconds},
                                             {"peak_memory_bytes", program.peak_memory_bytes},
                                             {"estimated_memory_bytes", cost.memory_bytes},
                                             {"neff_bytes", program.bytes},
                                             {"scratchpad_bytes", program.scratchpad_bytes}};
    }
    return figures;
}

void make_bundle(const StepContext& context, const trace::BundleSpec& spec, const std::vector<std::string>& flags,
                 const fs::path& folder) {
    fs::remove_all(folder);
    NeuronOptions options = doctor_compiler_options(context);
    options.flags.insert(options.flags.end(), flags.begin(), flags.end());
    NeuronCompiler compiler(options, spec.target);
    trace::BundleOutput output;
    output.is_cancelled = is_interrupted;
    output.on_program = [&](const trace::EmittedProgram& program) { compiler.note(program); };
    output.complete = [&](const fs::path& draft, const trace::Manifest& manifest) {
        compiler.complete(draft, manifest);
    };
    trace::write_bundle(folder, trace::BundleEmitter(spec), output);
}

// Compares layers of the checkpoint's geometry, once for each set of further options of the compiler.
StepFinding run_layers(const StepContext& context, size_t layers,
                       const std::vector<std::vector<std::string>>& variants) {
    StepFinding finding;
    const auto document = read_json_file(context.options.checkpoint / "config.json");
    const auto whole = checkpoint::load_config(context.options.checkpoint);
    const fs::path checkpoint = context.folder(fmt::format("layers_{}", layers));
    fs::remove_all(checkpoint);
    write_cut_checkpoint(checkpoint, cut_config(document, std::min(layers, whole.layers.size())));
    const auto config = checkpoint::load_config(checkpoint);
    const trace::BundleSpec spec = doctor_spec(context, config, trace::stores_untied_head(checkpoint, config));
    for (size_t variant = 0; variant < variants.size(); ++variant) {
        const fs::path bundle = context.folder(fmt::format("layers_{}_{}", layers, variant));
        make_bundle(context, spec, variants[variant], bundle);
        // The runtime starts once in a process.
        const ApartResult result = run_apart([&] {
            const StepFinding found = compare_with_cpu(context, checkpoint, bundle);
            return ordered_json{{"seen", found.seen}, {"faults", found.faults}};
        });
        const std::string name = variants[variant].empty() ? "as usual" : variants[variant].front();
        auto& seen = finding.seen[name];
        if (!result.answer) {
            finding.fail(fmt::format("{}: {}", name,
                                     result.error ? result.error->at("message").get<std::string>()
                                                  : fmt::format("ended by signal {}", result.signal)));
            continue;
        }
        seen = result.answer->at("seen");
        seen["compiled"] = compiled_figures(bundle)["programs"];
        for (const auto& fault : result.answer->at("faults")) {
            finding.fail(fmt::format("{}: {}", name, fault.get<std::string>()));
        }
    }
    std::error_code ignored;
    fs::remove_all(checkpoint, ignored);
    return finding;
}

fs::path bundle_of_model(const StepContext& context) {
    return context.options.bundle.empty() ? context.folder("model.bundle") : context.options.bundle;
}

}  // namespace

StepFinding run_two_layers(const StepContext& context) {
    // Fewer would not have both kinds of attention, and programs take inputs for both.
    return run_layers(context, 2, {{}, {"--disable-mixed-precision-accumulation"}});
}

StepFinding run_four_layers(const StepContext& context) { return run_layers(context, 4, {{}}); }

StepFinding compile_model(const StepContext& context) {
    StepFinding finding;
    const fs::path bundle = bundle_of_model(context);
    if (context.options.bundle.empty()) {
        const auto config = checkpoint::load_config(context.options.checkpoint);
        const bool has_head = trace::stores_untied_head(context.options.checkpoint, config);
        make_bundle(context, doctor_spec(context, config, has_head), {}, bundle);
    } else {
        trace::check_fits_checkpoint(trace::Bundle(bundle), context.options.checkpoint);
        finding.remark("compiled elsewhere");
    }
    finding.seen = compiled_figures(bundle);
    constexpr double kTimes = 3.0;
    for (const auto& [name, figures] : finding.seen["programs"].items()) {
        const double memory =
            figures["peak_memory_bytes"].get<double>() / figures["estimated_memory_bytes"].get<double>();
        const double seconds = figures["seconds"].get<double>() / figures["estimated_seconds"].get<double>();
        if (memory > kTimes)
            finding.remark(fmt::format("{} took {:.1f} times the memory that was estimated", name, memory));
        if (seconds > kTimes)
            finding.remark(fmt::format("{} took {:.1f} times the time that was estimated", name, seconds));
    }
    return finding;
}

StepFinding compare_model(const StepContext& context) {
    return compare_with_cpu(context, context.options.checkpoint, bundle_of_model(context));
}

StepFinding judge_speed(const StepContext& context) {
    StepFinding finding;
    const ordered_json* parity = context.seen_by("parity");
    if (parity == nullptr) {
        finding.skipped = "`parity`, which measures it, has not passed";
        return finding;
    }
    const trace::Manifest manifest = trace::Bundle(bundle_of_model(context)).manifest();
    trace::BundleSpec spec;
    spec.config = checkpoint::load_config(context.options.checkpoint);
    spec.has_untied_head = trace::stores_untied_head(context.options.checkpoint, spec.config);
    spec.geometry = manifest.geometry;
    spec.buckets = manifest.buckets;
    const trace::BundleEmitter emitter(spec);
    for (const auto& [bucket, measured] : parity->at("decode_ms").items()) {
        const trace::EmittedProgram program = emitter.emit({trace::ProgramKind::decode, std::stoll(bucket)});
        const hlo::Statistics statistics = hlo::statistics_of(program.module);
        const auto sums = statistics.operations.find("all-reduce");
        const auto count = sums == statistics.operations.end() ? 0.0 : static_cast<double>(sums->second);
        const double planned = static_cast<double>(statistics.bytes_read) / context.expect.of("core_gb_per_s") / 1e6 +
                               count * context.expect.of("all_reduce_us") / 1e3 + context.expect.of("call_ms");
        const double milliseconds = measured.get<double>();
        finding.seen[program.spec.name()] = {
            {"milliseconds", milliseconds},
            {"planned_ms", planned},
            {"bytes_read", statistics.bytes_read},
            {"sums_over_ranks", count},
            {"gb_per_s_in_all", static_cast<double>(statistics.bytes_read) / milliseconds / 1e6},
            {"tokens_per_s", 1e3 * manifest.geometry.slots / milliseconds}};
        if (context.options.is_small || milliseconds <= planned * context.expect.of("speed_slack")) continue;
        finding.fail(
            fmt::format("{} takes {:.1f} ms, {:.1f} were planned", program.spec.name(), milliseconds, planned));
    }
    if (context.options.is_small) finding.remark("small probes: times are not judged");
    return finding;
}

StepFinding judge_memory(const StepContext& context) {
    StepFinding finding;
    const ordered_json* parity = context.seen_by("parity");
    if (parity == nullptr || parity->at("core_memory").is_null()) {
        finding.skipped = parity == nullptr ? "`parity`, which measures it, has not passed"
                                            : "this runtime does not tell the memory of its cores";
        return finding;
    }
    const trace::Bundle bundle(bundle_of_model(context));
    const neuron::Compiled compiled = neuron::read_compiled(bundle.directory(), bundle.manifest());
    uint64_t scratch = 0;
    for (const neuron::CompiledProgram& program : compiled.programs)
        scratch = std::max(scratch, program.scratchpad_bytes);
    const trace::RankMemory& memory = bundle.manifest().memory;
    const uint64_t planned = memory.weight_bytes + memory.cache_bytes + memory.step_bytes + scratch;
    const auto reserved = static_cast<uint64_t>(context.expect.of("reserved_gb") * 1e9);
    const auto core = static_cast<uint64_t>(context.expect.of("core_gib") * (1 << 30));
    finding.seen = {{"planned_bytes", planned},     {"weights", memory.weight_bytes},
                    {"caches", memory.cache_bytes}, {"inputs_and_outputs", memory.step_bytes},
                    {"scratch", scratch},           {"core_memory", parity->at("core_memory")}};
    for (const auto& rank : parity->at("core_memory")) {
        const auto used = rank["used_bytes"].get<uint64_t>();
        const auto limit = rank["limit_bytes"].get<uint64_t>();
        if (used > planned + reserved) {
            finding.fail(fmt::format("a core uses {}, planned were {} and {} more", format_bytes(used),
                                     format_bytes(planned), format_bytes(reserved)));
        }
        if (used < memory.weight_bytes) {
            finding.fail(fmt::format("a core counts {}, and the weights alone take {}", format_bytes(used),
                                     format_bytes(memory.weight_bytes)));
        }
        if (limit < core) finding.fail(fmt::format("a core has {}", format_bytes(limit)));
    }
    return finding;
}

}  // namespace gemmatrace::cli
