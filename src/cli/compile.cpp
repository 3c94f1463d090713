// `gemmatrace compile`: programs for an accelerator, traced from a config, as a bundle.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/sha256.h"
#include "checkpoint/config.h"
#include "checkpoint/synth.h"
#include "cli/checkpoint_source.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/neuron_compile.h"
#include "cli/output.h"
#include "cli/program_report.h"
#include "cli/token_counts.h"
#include "trace/bundle.h"
#include "trace/program_figures.h"

namespace gemmatrace::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kCompileExamples =
    "Examples:\n"
    "  gemmatrace compile google/gemma-4-E2B-it -o e2b.bundle --tp 2 --context 512,2K\n"
    "  gemmatrace compile models/demo -o /tmp/demo.bundle --context 64,256 --chunk 16 --emit-only\n"
    "  gemmatrace compile /tmp/demo.bundle -o /tmp/demo.compiled --jobs 2\n"
    "  gemmatrace compile models/demo/config.json -o /tmp/demo.bundle --tp 2 --batch 4 --context 256 --emit-only\n"
    "  gemmatrace compile --like E2B --tp 2 --context 512,2K,8K,32K --plan\n"
    "\n"
    "A bundle holds programs and no weights: it serves every checkpoint of the same geometry. Of a directory with\n"
    "weights these are looked at too, to see whether the output head is stored. Compiling needs neuronx-cc and no\n"
    "accelerator, and may take hours; what was compiled is in the cache, so that the same command goes on after an\n"
    "interruption. Ctrl-C leaves no half bundle behind.";

struct CompileOptions {
    std::filesystem::path checkpoint;
    std::optional<std::string> size;
    std::filesystem::path bundle;
    int32_t ranks = 1;
    int32_t slots = 1;
    std::string contexts = "512,2K,8K";
    int32_t chunk_tokens = 64;
    std::string precision = "bf16";
    std::string target = "inf2";
    bool emits_only = false;
    bool emits_text = false;
    bool plans_only = false;
    bool is_json = false;
    NeuronOptions neuron;
};

void check_options(const CompileOptions& options) {
    const auto refuse = [](ErrorCode code, std::string message, const char* field, const char* remedy) {
        throw Error(code, std::move(message), {{"field", field}}, remedy);
    };
    if (options.checkpoint.empty() == !options.size) {
        refuse(ErrorCode::bad_request, "one model is needed", "CHECKPOINT",
               "name a checkpoint, its config.json, or a published size with --like");
    }
    if (options.target != "inf2") {
        refuse(ErrorCode::unsupported, fmt::format("there are no programs for \"{}\"", printable(options.target)),
               "--target", "use inf2");
    }
    if (options.precision != "bf16" && options.precision != "fp32") {
        refuse(ErrorCode::bad_request, fmt::format("there is no precision \"{}\"", printable(options.precision)),
               "--precision", "use bf16, or fp32 to judge by");
    }
    if (options.plans_only || options.neuron.runs_dry) return;
    if (options.bundle.empty()) {
        refuse(ErrorCode::bad_request, "there is no folder to write to", "--output", "name a new folder with -o");
    }
}

// Of weights that are not there the config alone says whether the head is stored.
void read_model(const CompileOptions& options, trace::BundleSpec& spec) {
    const auto of_config = [&](checkpoint::ModelConfig config) {
        spec.has_untied_head = !config.tie_word_embeddings;
        spec.config = std::move(config);
    };
    if (options.size) {
        return of_config(checkpoint::parse_config(checkpoint::published_config(*options.size), "config.json"));
    }
    std::error_code ignored;
    if (std::filesystem::is_regular_file(options.checkpoint, ignored)) {
        return of_config(checkpoint::parse_config(read_json_file(options.checkpoint), options.checkpoint.string()));
    }
    const std::filesystem::path directory = find_checkpoint(options.checkpoint);
    of_config(checkpoint::load_config(directory));
    const bool has_weights = std::filesystem::exists(directory / "model.safetensors", ignored) ||
                             std::filesystem::exists(directory / "model.safetensors.index.json", ignored);
    if (has_weights) spec.has_untied_head = trace::stores_untied_head(directory, spec.config);
}

trace::BundleSpec bundle_spec(const CompileOptions& options) {
    trace::BundleSpec spec;
    read_model(options, spec);
    spec.buckets = parse_token_counts(options.contexts, "--context");
    spec.geometry = {options.ranks, options.slots, spec.buckets.back(), options.chunk_tokens, {}};
    if (options.precision == "fp32") spec.geometry.precision = model::Precision::fp32;
    spec.target = options.target;
    return spec;
}

void show_program(const trace::EmittedProgram& program) {
    write_error(fmt::format("{}: {} instructions, {:.2f} MB, {:.1f} s\n", program.spec.name(),
                            program.module.entry().instructions.size(), static_cast<double>(program.proto.size()) / 1e6,
                            program.seconds));
}

int run_plan(const CompileOptions& options, const trace::BundleEmitter& emitter) {
    std::vector<trace::ProgramFigures> figures;
    for (const trace::ProgramSpec& spec : emitter.spec().programs()) {
        throw_if_interrupted();
        const trace::EmittedProgram program = emitter.emit(spec);
        show_program(program);
        figures.push_back(trace::figures_of(emitter, program));
    }
    const std::string model = options.size ? *options.size : options.checkpoint.string();
    write_out(options.is_json ? dump_json(figures_json(emitter, model, figures), 1) + "\n"
                              : figures_table(emitter, figures));
    return 0;
}

// A bundle that was written before, whose sizes are then those of its programs; nothing for a checkpoint.
std::optional<trace::Bundle> bundle_to_compile(const CompileOptions& options) {
    std::error_code ignored;
    if (options.checkpoint.empty() || !std::filesystem::exists(options.checkpoint / "manifest.json", ignored) ||
        std::filesystem::exists(options.checkpoint / "config.json", ignored)) {
        return std::nullopt;
    }
    const CompileOptions defaults;
    const bool is_plain = options.ranks == defaults.ranks && options.slots == defaults.slots &&
                          options.contexts == defaults.contexts && options.chunk_tokens == defaults.chunk_tokens &&
                          options.precision == defaults.precision && !options.emits_only && !options.plans_only;
    if (is_plain) return trace::Bundle(options.checkpoint);
    throw Error(
        ErrorCode::bad_request, "this is a bundle, whose programs are what they are",
        {{"bundle", options.checkpoint.string()}},
        "leave --tp, --batch, --context, --chunk, --precision, --emit-only and --plan out, or name a checkpoint");
}

int run_dry(const CompileOptions& options, const trace::Bundle* bundle, NeuronCompiler& compiler) {
    if (bundle != nullptr) {
        for (const trace::ProgramEntry& entry : bundle->manifest().programs) {
            compiler.note({entry.spec, bundle->program(entry.spec), {}, {}, 0.0});
        }
        return compiler.show_dry_run(bundle->manifest().programs, options.is_json);
    }
    const trace::BundleEmitter emitter(bundle_spec(options));
    const std::vector<trace::WeightRecipe> weights = emitter.manifest().weights;
    std::vector<trace::ProgramEntry> programs;
    for (const trace::ProgramSpec& spec : emitter.spec().programs()) {
        throw_if_interrupted();
        const trace::EmittedProgram program = emitter.emit(spec);
        compiler.note(program);
        programs.push_back(trace::describe_program(spec, program.module, weights));
        programs.back().sha256 = sha256(program.proto);
    }
    return compiler.show_dry_run(programs, options.is_json);
}

void show_bundle(const CompileOptions& options, const trace::Manifest& manifest, const NeuronCompiler* compiler) {
    if (!options.is_json) {
        write_out(options.bundle.string() + "\n");
        return;
    }
    ordered_json json = {{"bundle", options.bundle.string()}, {"hash", manifest.hash()}};
    auto& programs = json["programs"] = ordered_json::array();
    for (const trace::ProgramEntry& program : manifest.programs) {
        programs.push_back({{"name", program.spec.name()},
                            {"file", program.file()},
                            {"bytes", program.bytes},
                            {"sha256", program.sha256}});
    }
    if (compiler != nullptr) json.update(compiler->result_json());
    write_out(dump_json(json, 1) + "\n");
}

int run_compile(const CompileOptions& options) {
    check_options(options);
    const std::optional<trace::Bundle> bundle = bundle_to_compile(options);
    if (options.plans_only) return run_plan(options, trace::BundleEmitter(bundle_spec(options)));
    std::optional<NeuronCompiler> compiler;  // found before hours are spent on anything else
    if (!options.emits_only) compiler.emplace(options.neuron, options.target);
    if (options.neuron.runs_dry) return run_dry(options, bundle ? &*bundle : nullptr, *compiler);

    trace::BundleOutput output;
    output.with_text = options.emits_text;
    output.is_cancelled = is_interrupted;
    output.on_program = [&](const trace::EmittedProgram& program) {
        show_program(program);
        if (compiler) compiler->note(program);
    };
    if (compiler) {
        output.complete = [&](const std::filesystem::path& draft, const trace::Manifest& manifest) {
            compiler->complete(draft, manifest);
        };
    }
    const trace::Manifest manifest =
        bundle ? trace::copy_bundle(options.bundle, *bundle, output)
               : trace::write_bundle(options.bundle, trace::BundleEmitter(bundle_spec(options)), output);
    show_bundle(options, manifest, compiler ? &*compiler : nullptr);
    return 0;
}

void describe(Command& command, CompileOptions& options) {
    Option checkpoint = {"CHECKPOINT", &options.checkpoint,
                         "a config.json, what other commands take, or a bundle that was only emitted"};
    checkpoint.is_optional = true;
    Option output = {"--output", &options.bundle, "folder to write; must not exist or be empty", "BUNDLE"};
    output.short_name = "-o";
    command.options = {
        std::move(checkpoint),
        std::move(output),
        {"--like", &options.size, "a published size instead of a checkpoint", "E2B|E4B|12B|26B|31B"},
        {"--tp", &options.ranks, "ranks (cores) that share the model", "N", "", true},
        {"--batch", &options.slots, "slots: sequences that decode in one step", "N", "", true},
        {"--context", &options.contexts, "cached tokens that programs are made for; the largest is a slot's", "LIST",
         "", true},
        {"--chunk", &options.chunk_tokens, "prompt tokens of one prefill", "N", "", true},
        {"--precision", &options.precision, "of values and caches; fp32 is for judging", "bf16|fp32", "", true},
        {"--target", &options.target, "accelerator", "inf2", "", true},
        {"--emit-only",
         &options.emits_only,
         "write the programs without running the Neuron compiler",
         "",
         "",
         false,
         "",
         {"--dry-run"}},
        {"--emit-hlo-text", &options.emits_text, "each program as text too"},
        {"--plan",
         &options.plans_only,
         "write nothing; print what each program costs",
         "",
         "",
         false,
         "",
         {"--dry-run"}},
        {"--json", &options.is_json, "the result as one JSON object"},
    };
    add_neuron_options(command, options.neuron);
}

}  // namespace

Command compile_command() {
    return make_command("compile", "Make a bundle of programs for an accelerator", kCompileExamples, run_compile,
                        describe);
}

}  // namespace gemmatrace::cli
