// compiled.json written and read.
#include "neuron/compiled.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file_mapping.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/sha256.h"

namespace gemmatrace::neuron {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kCompiledName = "compiled.json";
constexpr const char* kCompileAgain = "make the bundle again with `gemmatrace compile`";

ordered_json compiled_program_json(const CompiledProgram& program) {
    return {{"name", program.name},
            {"file", program.file()},
            {"bytes", program.bytes},
            {"sha256", program.sha256},
            {"program_sha256", program.program_sha256},
            {"key", program.key},
            {"seconds", program.seconds},
            {"peak_memory_bytes", program.peak_memory_bytes},
            {"feature_bits", program.feature_bits},
            {"scratchpad_bytes", program.scratchpad_bytes}};
}

CompiledProgram read_compiled_program(const ordered_json& entry) {
    CompiledProgram program;
    program.name = entry.at("name").get<std::string>();
    program.bytes = entry.at("bytes").get<uint64_t>();
    program.sha256 = entry.at("sha256").get<std::string>();
    program.program_sha256 = entry.at("program_sha256").get<std::string>();
    program.key = entry.at("key").get<std::string>();
    program.seconds = entry.at("seconds").get<double>();
    program.peak_memory_bytes = entry.at("peak_memory_bytes").get<uint64_t>();
    program.feature_bits = entry.at("feature_bits").get<uint64_t>();
    program.scratchpad_bytes = entry.at("scratchpad_bytes").get<uint64_t>();
    return program;
}

[[noreturn]] void refuse_compiled(ErrorCode code, std::string fault, const fs::path& file) {
    throw Error(code, std::move(fault), {{"file", printable(file.string())}}, kCompileAgain);
}

// Names come from the manifest, so that no file outside the bundle is ever meant.
void check_belongs(const Compiled& compiled, const trace::Manifest& manifest, const fs::path& file) {
    if (compiled.manifest_hash != manifest.hash() || compiled.target != manifest.target) {
        refuse_compiled(ErrorCode::mismatch, "the NEFFs were compiled for another manifest", file);
    }
    const auto& programs = compiled.programs;
    if (programs.size() != manifest.programs.size()) {
        refuse_compiled(
            ErrorCode::mismatch,
            fmt::format("{} programs are compiled, and the manifest has {}", programs.size(), manifest.programs.size()),
            file);
    }
    for (size_t place = 0; place < programs.size(); ++place) {
        const trace::ProgramEntry& entry = manifest.programs[place];
        if (programs[place].name == entry.spec.name() && programs[place].program_sha256 == entry.sha256) continue;
        refuse_compiled(ErrorCode::mismatch,
                        fmt::format("the NEFF of {} was made of another program", entry.spec.name()), file);
    }
}

}  // namespace

std::string CompiledProgram::file() const { return "programs/" + name + ".neff"; }

const CompiledProgram& Compiled::find(const std::string& name) const {
    const auto found = std::ranges::find(programs, name, &CompiledProgram::name);
    if (found != programs.end()) return *found;
    throw Error(ErrorCode::mismatch, fmt::format("the bundle has no NEFF of {}", name), {}, kCompileAgain);
}

std::string compiled_text(const Compiled& compiled) {
    ordered_json document = {{"schema_version", kCompiledSchema}, {"hash", compiled.manifest_hash},
                             {"target", compiled.target},         {"compiler", compiled.compiler},
                             {"islpy", compiled.islpy},           {"flags", compiled.flags},
                             {"programs", ordered_json::array()}};
    for (const CompiledProgram& program : compiled.programs) {
        document["programs"].push_back(compiled_program_json(program));
    }
    return dump_json(document, 1) + "\n";
}

Compiled read_compiled(const fs::path& bundle, const trace::Manifest& manifest) {
    const fs::path file = bundle / kCompiledName;
    std::error_code problem;
    if (!fs::exists(file, problem)) {
        refuse_compiled(ErrorCode::not_found, "the bundle holds programs that were not compiled", file);
    }
    const ordered_json document = read_json_file(file, {trace::kLargestManifestBytes, 16});
    Compiled compiled;
    try {
        const auto schema = document.at("schema_version").get<int64_t>();
        if (schema != kCompiledSchema) {
            refuse_compiled(ErrorCode::mismatch,
                            fmt::format("its schema_version is {}, this program reads {}", schema, kCompiledSchema),
                            file);
        }
        compiled.manifest_hash = document.at("hash").get<std::string>();
        compiled.target = document.at("target").get<std::string>();
        compiled.compiler = document.at("compiler").get<std::string>();
        compiled.islpy = document.at("islpy").get<std::string>();
        compiled.flags = document.at("flags").get<std::vector<std::string>>();
        for (const ordered_json& entry : document.at("programs")) {
            compiled.programs.push_back(read_compiled_program(entry));
        }
    } catch (const nlohmann::json::exception& error) {
        refuse_compiled(ErrorCode::corrupt, fmt::format("compiled.json is not as it was written: {}", error.what()),
                        file);
    }
    check_belongs(compiled, manifest, file);
    return compiled;
}

std::string neff_of(const fs::path& bundle, const CompiledProgram& program) {
    const fs::path file = bundle / program.file();
    std::string bytes = read_file(file, kLargestNeffBytes);
    if (bytes.size() != program.bytes) {
        refuse_compiled(ErrorCode::corrupt, fmt::format("the NEFF has {} bytes, not {}", bytes.size(), program.bytes),
                        file);
    }
    if (sha256(bytes) != program.sha256) {
        refuse_compiled(ErrorCode::corrupt, "the NEFF is not the one that was compiled", file);
    }
    return bytes;
}

std::vector<NeffTensor> expected_tensors(const trace::ProgramEntry& program) {
    std::vector<NeffTensor> tensors;
    for (const trace::ProgramTensor& input : program.inputs) {
        tensors.push_back({input.name, NeffTensor::Kind::input, input.shape.bytes()});
    }
    for (const trace::ProgramTensor& output : program.outputs) {
        tensors.push_back({output.name, NeffTensor::Kind::output, output.shape.bytes()});
    }
    return tensors;
}

}  // namespace gemmatrace::neuron
