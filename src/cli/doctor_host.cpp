// The quick steps of `gemmatrace doctor`: the machine, its software, its cores, the checkpoint. No core is taken.
#include <fcntl.h>
#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/durable_file.h"
#include "base/host_memory.h"
#include "base/printable.h"
#include "checkpoint/config.h"
#include "cli/doctor_steps.h"
#include "cpu/isa.h"
#include "neuron/neuron_device.h"
#include "neuron/nrt_host.h"
#include "neuron/nrt_library.h"
#include "neuron/releases.h"
#include "neuron/toolchain.h"
#include "trace/bundle.h"

namespace gemmatrace::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr size_t kLongestFact = size_t{16} << 20;

std::string text_of(const fs::path& file) {
    std::ifstream in(file);
    std::ostringstream text;
    if (in) text << in.rdbuf();
    std::string all = text.str().substr(0, kLongestFact);
    return all;
}

std::string line_of(const fs::path& file) {
    const std::string text = text_of(file);
    return printable(text.substr(0, text.find('\n')));
}

// What follows "NAME" and a separator in the first line that begins with it.
std::string field_of(const std::string& text, const std::string& name) {
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find('\n', at), text.size());
        if (text.compare(at, name.size(), name) == 0) {
            const size_t begin = text.find_first_not_of(" \t:=\"", at + name.size());
            return begin >= end ? "" : printable(text.substr(begin, text.find_last_not_of("\" ", end - 1) + 1 - begin));
        }
        at = end + 1;
    }
    return "";
}

ordered_json cpu_flags() {
    const std::string text = text_of("/proc/cpuinfo");
    const size_t begin = std::min(text.find("\nflags"), text.size());
    const std::string flags = text.substr(begin, text.find('\n', begin + 1) - begin) + " ";
    ordered_json found = ordered_json::array();
    for (const char* flag : {"avx2", "fma", "f16c", "avx512f", "avx512_bf16", "amx_bf16"}) {
        if (flags.find(fmt::format(" {} ", flag)) != std::string::npos) found.push_back(flag);
    }
    return found;
}

// The largest file of weights in a checkpoint, or nothing.
fs::path largest_weights(const fs::path& checkpoint) {
    fs::path largest;
    uintmax_t bytes = 0;
    std::error_code problem;
    for (fs::directory_iterator file(checkpoint, problem), end; !problem && file != end; file.increment(problem)) {
        std::error_code unknown;
        const uintmax_t size = fs::file_size(file->path(), unknown);
        if (unknown || file->path().extension() != ".safetensors" || size <= bytes) continue;
        largest = file->path();
        bytes = size;
    }
    return largest;
}

// MB/s at which a file's beginning comes from the disk; pages that the kernel keeps are dropped first where it lets.
double read_rate(const fs::path& file, size_t most_bytes) {
    const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) throw Error(ErrorCode::not_found, "a file cannot be read", {{"file", file.string()}});
    ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    std::vector<char> part(size_t{4} << 20);
    size_t done = 0;
    const auto start = std::chrono::steady_clock::now();
    while (done < most_bytes) {
        const ssize_t count = ::read(descriptor, part.data(), part.size());
        if (count <= 0) break;
        done += static_cast<size_t>(count);
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    ::close(descriptor);
    return static_cast<double>(done) / 1e6 / std::max(seconds, 1e-6);
}

void measure_disk(const StepContext& context, StepFinding& finding) {
    const size_t bytes = context.options.is_small ? size_t{4} << 20 : size_t{1} << 30;
    fs::path file = context.options.checkpoint.empty() ? fs::path() : largest_weights(context.options.checkpoint);
    const bool is_made = file.empty();
    if (is_made) {
        fs::create_directories(context.options.work);
        file = context.folder("read_rate");
        write_durably(file, std::string(std::min(bytes, size_t{256} << 20), 'x'));
    }
    finding.seen["disk_mb_per_s"] = read_rate(file, bytes);
    std::error_code ignored;
    if (is_made) fs::remove(file, ignored);
    finding.seen["disk_free_bytes"] = fs::space(context.options.work, ignored).available;
    if (context.options.is_small) return finding.remark("the disk was read for a moment only: not judged");
    if (finding.seen["disk_mb_per_s"].get<double>() < context.expect.of("disk_mb_per_s")) {
        finding.fail(fmt::format("the disk reads {:.0f} MB/s", finding.seen["disk_mb_per_s"].get<double>()));
    }
}

// Packages by the databases of Debian and of RPM.
ordered_json neuron_packages() {
    constexpr const char* kCommands[] = {
        "dpkg-query -W -f '${Package} ${Version}\\n' 'aws-neuron*' 2>/dev/null",
        "rpm -qa --qf '%{NAME} %{VERSION}\\n' 'aws-neuron*' 2>/dev/null",
    };
    ordered_json packages = ordered_json::object();
    for (const char* command : kCommands) {
        FILE* output = ::popen(command, "re");
        if (output == nullptr) continue;
        char line[512];
        while (::fgets(line, sizeof line, output) != nullptr) {
            std::istringstream words(line);
            std::string name, version;
            if (words >> name >> version) packages[printable(name)] = printable(version);
        }
        ::pclose(output);
    }
    return packages;
}

// Names of variables that steer the runtime, the compiler and us; of values only what can be no secret.
ordered_json neuron_variables() {
    ordered_json variables = ordered_json::object();
    for (char** variable = environ; *variable != nullptr; ++variable) {
        const std::string text = *variable;
        const size_t equals = text.find('=');
        if (!text.starts_with("NEURON_") || equals == std::string::npos) continue;
        const std::string value = text.substr(equals + 1);
        const bool is_plain = value.size() <= 16 && value.find_first_not_of("0123456789-,.") == std::string::npos;
        variables[printable(text.substr(0, equals))] = is_plain ? value : "(not shown)";
    }
    return variables;
}

const neuron::Release* release_of_runtime(const neuron::Version& runtime) {
    for (const neuron::Release& release : neuron::known_releases()) {
        if (release.runtime.major == runtime.major && release.runtime.minor == runtime.minor) return &release;
    }
    return nullptr;
}

std::optional<neuron::Version> see_runtime(const StepContext& context, StepFinding& finding) {
    try {
        const auto library = neuron::NrtLibrary::open();
        finding.seen["runtime"] = library.version_text();
        return neuron::parse_version(library.version_text());
    } catch (const Error& error) {
        finding.seen["runtime"] = nullptr;
        if (error.code() == ErrorCode::not_found)
            finding.lack(context.options, error.message() + "; " + error.remedy());
        else
            finding.fail(error.message() + "; " + error.remedy());
    }
    return std::nullopt;
}

std::optional<neuron::Toolchain> see_compiler(const StepContext& context, StepFinding& finding) {
    const auto variable = [](const char* name) -> std::optional<std::string> {
        const char* value = std::getenv(name);
        return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>(value);
    };
    try {
        const fs::path compiler = neuron::find_compiler({context.options.compiler.compiler, variable});
        neuron::Toolchain toolchain = neuron::read_toolchain(compiler, fs::temp_directory_path());
        finding.seen["compiler"] = toolchain.version_text;
        finding.seen["islpy"] = toolchain.islpy;
        return toolchain;
    } catch (const Error& error) {
        finding.seen["compiler"] = nullptr;
        if (context.options.is_first_contact)
            finding.fail(error.message() + "; " + error.remedy());
        else
            finding.remark("no compiler here, which only `compile` needs: " + error.message());
    }
    return std::nullopt;
}

// Rules of AWS's release notes.
void judge_driver(const std::string& text, const std::optional<neuron::Version>& runtime, StepFinding& finding) {
    const auto driver = neuron::parse_version(text);
    if (!driver) return finding.remark("no driver is loaded (/sys/module/neuron/version is not there)");
    if (!runtime) return;
    constexpr neuron::Version kDriverOf2_31 = {2, 29, 0}, kRuntimeOf2_31 = {2, 33, 0};
    constexpr neuron::Version kOldDriver = {2, 27, 0}, kRuntimeOf2_30 = {2, 32, 0};
    if (*driver >= kDriverOf2_31 && *runtime < kRuntimeOf2_31) {
        finding.fail(fmt::format("driver {} needs runtime 2.33 or later, and {} is here", text, runtime->text()));
    }
    if (*driver < kOldDriver && *runtime >= kRuntimeOf2_30) {
        finding.remark(fmt::format("runtime {} does not promise to work with driver {}", runtime->text(), text));
    }
}

void judge_pair(const StepContext& context, const neuron::Toolchain& compiler, const neuron::Version& runtime,
                StepFinding& finding) {
    const neuron::Release* of_runtime = release_of_runtime(runtime);
    finding.seen["release_of_compiler"] = compiler.release == nullptr ? "unknown" : std::string(compiler.release->sdk);
    finding.seen["release_of_runtime"] = of_runtime == nullptr ? "unknown" : std::string(of_runtime->sdk);
    if (of_runtime == nullptr) return finding.remark("the runtime is of no release that this program knows");
    if (compiler.release == nullptr || of_runtime->compiler >= compiler.release->compiler) return;
    if (compiler.version.major == of_runtime->compiler.major && compiler.version.minor == of_runtime->compiler.minor)
        return;
    const std::string fault = fmt::format("compiler {} is newer than runtime {}, which goes with compiler {}",
                                          compiler.version.text(), runtime.text(), of_runtime->compiler.text());
    context.options.compiler.takes_any_compiler ? finding.remark(fault) : finding.fail(fault);
}

}  // namespace

StepFinding look_at_host(const StepContext& context) {
    StepFinding finding;
    struct utsname system = {};
    ::uname(&system);
    const std::string memory = text_of("/proc/meminfo");
    const double gib = std::strtod(field_of(memory, "MemTotal").c_str(), nullptr) / (1 << 20);
    finding.seen = {{"instance", line_of("/sys/devices/virtual/dmi/id/product_name")},
                    {"system", field_of(text_of("/etc/os-release"), "PRETTY_NAME")},
                    {"kernel", system.release},
                    {"architecture", system.machine},
                    {"libc", gnu_get_libc_version()},
                    {"cpu", field_of(text_of("/proc/cpuinfo"), "model name")},
                    {"cpu_flags", cpu_flags()},
                    {"isa", cpu::isa_name(cpu::best_isa())},
                    {"threads", std::thread::hardware_concurrency()},
                    {"memory_gib", gib},
                    {"free_memory_bytes", available_memory_bytes()},
                    {"free_swap_bytes", free_swap_bytes()}};
    if (std::string_view(system.machine) != "x86_64") finding.fail("the processor is no x86-64");
    if (cpu::best_isa() == cpu::Isa::scalar) finding.remark("no AVX2: the CPU's reference will be slow");
    if (!context.options.is_first_contact) return finding;
    if (gib < context.expect.of("memory_gib") && !context.options.is_small) {
        finding.fail(fmt::format("the host has {:.1f} GiB of memory", gib));
    }
    measure_disk(context, finding);
    return finding;
}

StepFinding look_at_versions(const StepContext& context) {
    StepFinding finding;
    const std::string driver = line_of("/sys/module/neuron/version");
    finding.seen["driver"] = driver.empty() ? ordered_json() : ordered_json(driver);
    const auto runtime = see_runtime(context, finding);
    const auto compiler = see_compiler(context, finding);
    finding.seen["packages"] = neuron_packages();
    finding.seen["collectives"] =
        fs::exists("/opt/aws/neuron/lib/libnccom.so") || fs::exists("/opt/aws/neuron/lib/libnccom.so.2");
    finding.seen["variables"] = neuron_variables();
    judge_driver(driver, runtime, finding);
    if (context.options.ranks > 1 && !finding.seen["collectives"]) {
        finding.remark("libnccom.so, which several ranks need, is not in /opt/aws/neuron/lib");
    }
    if (compiler) {
        if (const auto fault = neuron::toolchain_fault(*compiler)) {
            context.options.compiler.takes_any_compiler ? finding.remark(*fault) : finding.fail(*fault);
        }
        if (runtime) judge_pair(context, *compiler, *runtime, finding);
    }
    for (const std::string& name : neuron::logical_core_variables()) {
        finding.fail(fmt::format("{} is not 1: unset it", name));
    }
    return finding;
}

StepFinding look_at_cores(const StepContext& context) {
    StepFinding finding;
    auto& devices = finding.seen["devices"] = ordered_json::array();
    std::error_code problem;
    for (fs::directory_iterator node("/dev", problem), end; !problem && node != end; node.increment(problem)) {
        const std::string name = node->path().filename().string();
        if (name.starts_with("neuron")) devices.push_back(name);
    }
    auto& holders = finding.seen["held_by_processes"] = ordered_json::array();
    for (const neuron::CoreHolder& holder : neuron::find_core_holders()) holders.push_back(holder.pid);
    if (!holders.empty()) finding.lack(context.options, "other processes use the accelerator");
    try {
        const auto library = neuron::NrtLibrary::open();
        const neuron::abi::InstanceInfo instance = library.instance();
        finding.seen["runtime"] = library.version_text();
        finding.seen["runtime_detail"] = printable(std::string(
            library.version().detail, ::strnlen(library.version().detail, sizeof library.version().detail)));
        finding.seen["family"] = instance.family;
        finding.seen["size"] = instance.size;
        finding.seen["core"] =
            printable(std::string(instance.arch_name, ::strnlen(instance.arch_name, sizeof instance.arch_name)));
        finding.seen["cores"] = library.core_count();
        finding.seen["missing_functions"] = library.missing();
    } catch (const Error& error) {
        finding.lack(context.options, error.message());
        return finding;
    }
    const std::string obstacle = neuron::why_no_neuron(context.options.ranks, context.options.cores);
    if (!obstacle.empty()) finding.lack(context.options, obstacle);
    return finding;
}

StepFinding look_at_checkpoint(const StepContext& context) {
    StepFinding finding;
    const auto config = checkpoint::load_config(context.options.checkpoint);
    finding.seen = {{"model_type", config.model_type},
                    {"layers", config.layers.size()},
                    {"hidden_size", config.hidden_size},
                    {"vocabulary", config.vocab_size},
                    {"window", config.sliding_window},
                    {"dtype", config.dtype},
                    {"own_head", trace::stores_untied_head(context.options.checkpoint, config)}};
    return finding;
}

}  // namespace gemmatrace::cli
