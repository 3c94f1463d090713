// Counted from the program itself; the floor from the config.
#include "trace/program_figures.h"

#include <algorithm>
#include <utility>

#include "hlo/evaluation_plan.h"

namespace gemmatrace::trace {
namespace {

// The caches when the bucket is the whole context.
size_t cache_bytes_at(const BundleSpec& spec, int64_t bucket) {
    Geometry geometry = spec.geometry;
    geometry.context_tokens = bucket;
    size_t bytes = 0;
    for (const CacheBuffer& cache : cache_buffers(spec.config, geometry)) bytes += cache.shape.bytes();
    return bytes;
}

// Experts of a layer that the rows of a step choose at most, and all there are.
std::pair<int64_t, int64_t> chosen_experts(const BundleSpec& spec) {
    for (const checkpoint::LayerSpec& layer : spec.config.layers) {
        if (!layer.moe) continue;
        const int64_t all = layer.moe->experts;
        return {std::min(all, int64_t{layer.moe->top_k} * spec.geometry.slots), all};
    }
    return {1, 1};
}

size_t stored_bytes(const model::WeightSlot& slot) {
    size_t bytes = 2;
    for (const int64_t size : slot.shape) bytes *= static_cast<size_t>(size);
    return bytes;
}

std::map<std::string, hlo::Buffer> largest_results(const hlo::Module& module) {
    std::map<std::string, hlo::Buffer> largest;
    const auto& instructions = module.entry().instructions;
    for (const hlo::Step& step : hlo::plan_evaluation(module).steps) {
        if (step.manner != hlo::Manner::computed && step.manner != hlo::Manner::reduced) continue;
        const hlo::Instruction& instruction = instructions[static_cast<size_t>(step.place)];
        hlo::Buffer& buffer = largest[std::string(hlo::opcode_name(instruction.opcode))];
        if (!buffer.instruction.empty() && buffer.shape.bytes() >= instruction.shape.bytes()) continue;
        buffer = {instruction.name, instruction.opcode, instruction.shape};
    }
    return largest;
}

}  // namespace

size_t decode_floor_bytes(const BundleEmitter& emitter, const ProgramSpec& spec) {
    const BundleSpec& bundle = emitter.spec();
    int64_t bytes = 0;
    const auto [chosen, all] = chosen_experts(bundle);
    for (const PackedInput& input : emitter.packing().inputs) {
        bytes += input.outer > 1 ? input.bytes() / all * chosen : input.bytes();
    }
    for (const CacheBuffer& cache : cache_buffers(bundle.config, bundle.geometry)) {
        const int64_t window = bundle.config.layers[static_cast<size_t>(cache.layer)].window;
        const int64_t seen = cache.is_ring ? std::min(window, spec.bucket) : spec.bucket;
        bytes += static_cast<int64_t>(cache.shape.bytes()) / cache.shape.dimensions[0] * seen;
    }
    return static_cast<size_t>(bytes);
}

ProgramFigures figures_of(const BundleEmitter& emitter, const EmittedProgram& program) {
    const hlo::Statistics statistics = hlo::statistics_of(program.module);
    const Manifest manifest = emitter.manifest();
    ProgramFigures figures;
    figures.spec = program.spec;
    figures.seconds = program.seconds;
    figures.proto_bytes = program.proto.size();
    figures.instructions = statistics.instructions;
    figures.inputs = statistics.input_count;
    figures.findings = program.findings.size();
    figures.bytes_read = statistics.bytes_read;
    figures.temporary_bytes = statistics.peak_temporary_bytes;
    const ProgramEntry entry = describe_program(program.spec, program.module, manifest.weights);
    figures.step_bytes = step_bytes(entry);
    figures.weight_inputs = std::ranges::count(entry.inputs, ProgramTensor::Role::weight, &ProgramTensor::role);
    if (program.spec.kind == ProgramKind::decode) figures.floor_bytes = decode_floor_bytes(emitter, program.spec);
    figures.memory_bytes = manifest.memory.weight_bytes + cache_bytes_at(emitter.spec(), program.spec.bucket) +
                           figures.step_bytes + figures.temporary_bytes;
    figures.largest = largest_results(program.module);
    return figures;
}

HostFigures host_figures(const BundleEmitter& emitter, std::span<const ProgramFigures> programs) {
    const model::WeightPlan& plan = emitter.weight_plan();
    const auto ranks = static_cast<size_t>(emitter.spec().geometry.ranks);
    HostFigures host;
    for (const model::WeightSlot& slot : plan.slots) host.stored_bytes += stored_bytes(slot);
    host.table_bytes = stored_bytes(plan.slots.at(static_cast<size_t>(plan.weights.embedding.slot)));
    if (const auto& table = plan.weights.ple_embedding) {
        host.table_bytes += stored_bytes(plan.slots.at(static_cast<size_t>(table->slot)));
    }
    // A slice is gathered while of each rank one queue is filled and one is sent, each a slice over its measure at
    // most.
    host.transfer_bytes = kTransferBytes * (2 + ranks * 4);
    StepBytes steps;
    for (const ProgramFigures& figures : programs) steps.add(figures.spec.kind, figures.step_bytes);
    host.step_bytes = ranks * steps.total();
    host.own_bytes = host.transfer_bytes + host.step_bytes + kHostBaseBytes;
    host.fits = host.own_bytes + host.table_bytes <= kHostMemoryBytes;
    return host;
}

}  // namespace gemmatrace::trace
