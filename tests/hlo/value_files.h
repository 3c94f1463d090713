// Programs and values as the files that tools/judge_hlo.py reads and writes: FOLDER/rankR/NAME.bin, raw elements.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "hlo/evaluator.h"
#include "hlo/proto.h"

namespace gemmatrace::hlo::testing {

inline void write_bytes(const std::filesystem::path& path, std::span<const std::byte> bytes) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!file) throw Error(ErrorCode::resource, "cannot write", {{"file", path.string()}}, "make room");
}

inline void write_text(const std::filesystem::path& path, const std::string& text) {
    write_bytes(path, std::as_bytes(std::span(text)));
}

inline std::vector<std::byte> read_bytes(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw Error(ErrorCode::not_found, "there is no such file", {{"file", path.string()}}, "make it first");
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

inline Module read_module(const std::filesystem::path& path) { return read_proto(read_bytes(path), path.string()); }

inline std::filesystem::path value_path(const std::filesystem::path& folder, int32_t rank, const std::string& name) {
    return folder / fmt::format("rank{}", rank) / (name + ".bin");
}

inline Tensor read_value(const std::filesystem::path& folder, int32_t rank, const Instruction& instruction) {
    Tensor tensor{instruction.shape, read_bytes(value_path(folder, rank, instruction.name))};
    if (tensor.bytes.size() == tensor.shape.bytes()) return tensor;
    throw Error(ErrorCode::mismatch, fmt::format("{} bytes for {}", tensor.bytes.size(), tensor.shape.text()),
                {{"instruction", instruction.name}}, "write its elements in row-major order");
}

// FOLDER/module.hlo.pb and FOLDER/ranks.
inline void write_program(const std::filesystem::path& folder, const Module& module, int32_t ranks) {
    write_text(folder / "module.hlo.pb", write_proto(module));
    write_text(folder / "ranks", std::to_string(ranks));
}

}  // namespace gemmatrace::hlo::testing
