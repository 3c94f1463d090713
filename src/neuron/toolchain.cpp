// Search, the version block, and installed packages.
#include "neuron/toolchain.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/file_mapping.h"
#include "base/printable.h"
#include "neuron/process.h"

namespace gemmatrace::neuron {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCompilerName = "neuronx-cc";
constexpr size_t kMostOutput = size_t{1} << 20;

bool is_program(const fs::path& path) {
    std::error_code ignored;
    return fs::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

// Folders of virtual environments below `parent`, the newest name first.
std::vector<fs::path> neuron_environments(const fs::path& parent) {
    std::vector<fs::path> folders;
    std::error_code problem;
    for (fs::directory_iterator entry(parent, problem), end; !problem && entry != end; entry.increment(problem)) {
        if (entry->path().filename().string().starts_with("aws_neuron")) folders.push_back(entry->path());
    }
    std::ranges::sort(folders, std::greater());
    return folders;
}

std::vector<fs::path> places_to_look(const CompilerSearch& search) {
    std::vector<fs::path> places;
    std::string path = search.environment("PATH").value_or("");
    while (!path.empty()) {
        const std::string folder = path.substr(0, path.find(':'));
        path.erase(0, folder.size() + 1);
        if (!folder.empty()) places.emplace_back(folder);
    }
    if (const auto active = search.environment("VIRTUAL_ENV")) places.push_back(fs::path(*active) / "bin");
    for (const fs::path& folder : neuron_environments(search.environments)) places.push_back(folder / "bin");
    if (const auto home = search.environment("HOME")) places.push_back(fs::path(*home) / ".local" / "bin");
    return places;
}

// Runs "COMPILER --version" and gives what it prints.
std::string version_block(const fs::path& compiler, const fs::path& scratch) {
    using Clock = std::chrono::steady_clock;
    constexpr auto kPatience = std::chrono::seconds(120);  // a Python program on a cold disk
    const fs::path output = scratch / "version.txt";
    Process process({{compiler.string(), "--version"}, scratch, output, compiler_environment(compiler)});
    const auto deadline = Clock::now() + kPatience;
    while (!process.poll()) {
        if (Clock::now() > deadline) {
            throw Error(ErrorCode::timeout, "the Neuron compiler does not say its version",
                        {{"compiler", compiler.string()}}, "run `neuronx-cc --version` and see what keeps it");
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    std::string text = read_file(output, kMostOutput);
    const CompilerExit end = *process.poll();
    if (end.signal == 0 && end.status == 0) return text;
    const std::string last = text.substr(0, text.find_last_not_of(" \n") + 1);
    throw Error(ErrorCode::not_found,
                fmt::format("the Neuron compiler does not run: \"{}\"", printable(last.substr(last.rfind('\n') + 1))),
                {{"compiler", compiler.string()}}, "run `neuronx-cc --version` and mend what it complains about");
}

// The word after `label` in a text, or nothing.
std::string word_after(std::string_view text, std::string_view label) {
    size_t begin = text.find(label);
    if (begin == std::string_view::npos) return "";
    begin = text.find_first_not_of(" :=", begin + label.size());
    if (begin == std::string_view::npos) return "";
    return std::string(text.substr(begin, text.find_first_of(" \r\n\t", begin) - begin));
}

// islpy's version from the name of its metadata folder, in the Python libraries beside bin/; empty when there is none,
// or when several are there and only Python could tell which one counts.
std::string installed_islpy(const fs::path& compiler) {
    constexpr std::string_view kBegin = "islpy-";
    constexpr std::string_view kEnd = ".dist-info";
    std::set<std::string> versions;
    std::error_code problem;
    const fs::path resolved = fs::absolute(compiler, problem);
    for (const char* library : {"lib", "lib64"}) {
        const fs::path folder = resolved.parent_path().parent_path() / library;
        for (fs::directory_iterator python(folder, problem), end; !problem && python != end;
             python.increment(problem)) {
            if (!python->path().filename().string().starts_with("python")) continue;
            for (const char* packages : {"site-packages", "dist-packages"}) {
                std::error_code absent;
                for (fs::directory_iterator entry(python->path() / packages, absent); !absent && entry != end;
                     entry.increment(absent)) {
                    const std::string name = entry->path().filename().string();
                    if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) continue;
                    versions.insert(name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size()));
                }
            }
        }
        problem.clear();
    }
    return versions.size() == 1 ? *versions.begin() : "";
}

}  // namespace

fs::path find_compiler(const CompilerSearch& search) {
    fs::path named = search.compiler;
    if (named.empty()) named = search.environment("GEMMATRACE_NEURONX_CC").value_or("");
    std::error_code ignored;
    if (!named.empty()) {
        if (fs::is_directory(named, ignored)) named /= kCompilerName;
        if (is_program(named)) return fs::absolute(named, ignored);
        throw Error(ErrorCode::not_found, fmt::format("there is no compiler at {}", printable(named.string())),
                    {{"field", "--compiler"}}, "name the program neuronx-cc, or the folder that it is in");
    }
    std::string looked_at;
    for (const fs::path& place : places_to_look(search)) {
        const fs::path program = place / kCompilerName;
        if (is_program(program)) return fs::absolute(program, ignored);
        looked_at += (looked_at.empty() ? "" : ", ") + place.string();
    }
    throw Error(ErrorCode::not_found, "the Neuron compiler (neuronx-cc) was not found",
                {{"looked_in", looked_at.empty() ? "nowhere: PATH is empty" : looked_at}},
                "install it (any x86-64 Linux machine will do, no accelerator is needed), name it with --compiler, or "
                "write the programs alone with --emit-only");
}

Toolchain read_toolchain(const fs::path& compiler, const fs::path& scratch) {
    const std::string block = version_block(compiler, scratch);
    Toolchain toolchain;
    toolchain.compiler = compiler;
    toolchain.version_text = word_after(block, "Compiler version");
    const auto version = parse_version(toolchain.version_text);
    if (!version) {
        throw Error(ErrorCode::corrupt, fmt::format("the Neuron compiler says no version: \"{}\"", printable(block)),
                    {{"compiler", compiler.string()}}, "name the real neuronx-cc with --compiler");
    }
    toolchain.version = *version;
    toolchain.islpy = word_after(block, "islpy version");
    if (toolchain.islpy.empty()) toolchain.islpy = installed_islpy(compiler);
    toolchain.release = release_of_compiler(toolchain.version);
    return toolchain;
}

std::optional<std::string> toolchain_fault(const Toolchain& toolchain) {
    if (toolchain.release == nullptr) {
        return fmt::format("compiler {} belongs to no release that this version knows",
                           printable(toolchain.version_text));
    }
    const std::string_view needed = toolchain.release->islpy;
    if (toolchain.islpy.empty()) {
        return fmt::format("the islpy of compiler {} was not found{}", toolchain.version.text(),
                           needed.empty() ? "" : fmt::format("; it needs {}", needed));
    }
    const auto islpy = parse_version(toolchain.islpy);
    constexpr int32_t kBreakingYear = 2026;
    if (needed.empty()) {
        if (islpy && islpy->major < kBreakingYear) return std::nullopt;
        return fmt::format("compiler {} was made before islpy {}", toolchain.version.text(),
                           printable(toolchain.islpy));
    }
    if (islpy && *islpy == *parse_version(needed)) return std::nullopt;
    return fmt::format("compiler {} goes with islpy {}, and {} is installed", toolchain.version.text(), needed,
                       printable(toolchain.islpy));
}

void require_known(const Toolchain& toolchain) {
    const auto fault = toolchain_fault(toolchain);
    if (!fault) return;
    throw Error(ErrorCode::mismatch, *fault,
                {{"compiler", toolchain.compiler.string()}, {"known_compilers", known_compilers_text()}},
                "install a compiler of the list with its islpy, or try this one all the same with --any-compiler");
}

}  // namespace gemmatrace::neuron
