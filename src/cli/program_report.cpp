// Sizes in decimal units, as neuron.md and the compiler's own messages have them; memory of a core in GiB.
#include "cli/program_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace gemmatrace::cli {
namespace {

using nlohmann::ordered_json;

ordered_json program_figures_json(const trace::ProgramFigures& figures) {
    auto largest = ordered_json::object();
    for (const auto& [operation, buffer] : figures.largest) {
        largest[operation] = {
            {"bytes", buffer.shape.bytes()}, {"shape", buffer.shape.text()}, {"instruction", buffer.instruction}};
    }
    ordered_json json = {{"name", figures.spec.name()},
                         {"bucket", figures.spec.bucket},
                         {"seconds", figures.seconds},
                         {"proto_bytes", figures.proto_bytes},
                         {"instructions", figures.instructions},
                         {"inputs", figures.inputs},
                         {"weight_inputs", figures.weight_inputs},
                         {"findings", figures.findings},
                         {"bytes_read", figures.bytes_read}};
    if (figures.floor_bytes > 0) json["floor_bytes"] = figures.floor_bytes;
    json["temporary_bytes"] = figures.temporary_bytes;
    json["memory_bytes"] = figures.memory_bytes;
    json["largest_by_operation"] = std::move(largest);
    return json;
}

double mega(size_t bytes) { return static_cast<double>(bytes) / 1e6; }
double gibi(size_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

std::string over_floor(const trace::ProgramFigures& figures) {
    if (figures.floor_bytes == 0) return "";
    const double ratio = static_cast<double>(figures.bytes_read) / static_cast<double>(figures.floor_bytes);
    return fmt::format("{:+.2f} %", 100.0 * (ratio - 1.0));
}

std::string host_lines(const trace::HostFigures& host) {
    return fmt::format(
        "host: own memory {:.2f} GiB (weights on their way {:.2f}, inputs and outputs of steps {:.2f}, the rest\n"
        "{:.2f}); of {:.2f} GiB of weights in the page cache {:.2f} stay in use, tables whose rows the host looks up,\n"
        "and the others are given back while they are sent: a host of 16 GB {}\n",
        gibi(host.own_bytes), gibi(host.transfer_bytes), gibi(host.step_bytes), gibi(trace::kHostBaseBytes),
        gibi(host.stored_bytes), gibi(host.table_bytes),
        host.fits ? "needs no swap"
                  : "reads rows of tables from its disk when memory is short, and needs no swap either");
}

}  // namespace

ordered_json figures_json(const trace::BundleEmitter& emitter, const std::string& model,
                          const std::vector<trace::ProgramFigures>& programs) {
    const trace::BundleSpec& spec = emitter.spec();
    const trace::Manifest manifest = emitter.manifest();
    ordered_json json = {{"model", model},
                         {"hash", manifest.hash()},
                         {"target", spec.target},
                         {"ranks", spec.geometry.ranks},
                         {"slots", spec.geometry.slots},
                         {"context_tokens", spec.geometry.context_tokens},
                         {"chunk_tokens", spec.geometry.chunk_tokens},
                         {"weight_bytes", manifest.memory.weight_bytes},
                         {"cache_bytes", manifest.memory.cache_bytes},
                         {"core_memory_bytes", trace::kCoreMemoryBytes},
                         {"reserved_bytes", trace::kReservedBytes},
                         {"programs", ordered_json::array()}};
    for (const trace::ProgramFigures& figures : programs) json["programs"].push_back(program_figures_json(figures));
    const trace::HostFigures host = trace::host_figures(emitter, programs);
    json["host"] = {{"stored_bytes", host.stored_bytes},
                    {"table_bytes", host.table_bytes},
                    {"transfer_bytes", host.transfer_bytes},
                    {"step_bytes", host.step_bytes},
                    {"own_bytes", host.own_bytes},
                    {"memory_bytes", trace::kHostMemoryBytes},
                    {"fits", host.fits}};
    return json;
}

std::string figures_table(const trace::BundleEmitter& emitter, const std::vector<trace::ProgramFigures>& programs) {
    const trace::Manifest manifest = emitter.manifest();
    std::string text = fmt::format("one rank of {}: weights {:.2f} GiB in {} inputs, caches {:.2f} GiB\n\n",
                                   emitter.spec().geometry.ranks, gibi(manifest.memory.weight_bytes),
                                   manifest.weights.size(), gibi(manifest.memory.cache_bytes));
    text += fmt::format("  {:<15} {:>8} {:>9} {:>12} {:>12} {:>10} {:>12}\n", "program", "seconds", "proto MB",
                        "instructions", "reads MB", "over floor", "memory GiB");
    for (const trace::ProgramFigures& figures : programs) {
        text += fmt::format("  {:<15} {:>8.2f} {:>9.2f} {:>12} {:>12.1f} {:>10} {:>12.2f}\n", figures.spec.name(),
                            figures.seconds, mega(figures.proto_bytes), figures.instructions, mega(figures.bytes_read),
                            over_floor(figures), gibi(figures.memory_bytes));
    }
    text += fmt::format(
        "\nmemory: of a bundle whose context is that bucket; a core has {:.0f} GiB, of which about {:.1f} go to code\n"
        "and runtime\n",
        gibi(trace::kCoreMemoryBytes), gibi(trace::kReservedBytes));
    return text + host_lines(trace::host_figures(emitter, programs));
}

}  // namespace gemmatrace::cli
