// A stand-in for the Neuron compiler: takes its command line, looks at the program as it would, and writes a NEFF with
// a true header and list of variables that carries the program. It fails on request, in every way that is on record.
//
// Environment (read at each run):
//   STANDIN_CC_LOG=FILE           a line a compile: the program's name and its options
//   STANDIN_CC_VERSION, STANDIN_CC_ISLPY, STANDIN_CC_FEATURES, STANDIN_CC_PLAIN=1   what it says it is; its NEFFs
//   STANDIN_CC_ONLY=NAME          the following only for the program of that name
//   STANDIN_CC_FAIL=TEXT          prints TEXT as an error and exits with 70, e.g. NCC_EVRF001 or [XTP002]
//   STANDIN_CC_EXIT=N             exits with N; STANDIN_CC_ONCE=FILE: only while FILE is not there, which it makes
//   STANDIN_CC_KILL=1             kills itself with signal 9
//   STANDIN_CC_NO_FILE=1          success without a file; STANDIN_CC_CUT=N: a file of N bytes less
//   STANDIN_CC_WRONG=size|name|more   a NEFF that takes something else
//   STANDIN_CC_SLOW_MS=N          takes that long, with a helper process that writes its number to helper.pid
//   STANDIN_CC_EAT_MB=N           holds that much memory
//   STANDIN_CC_ISMP902_ABOVE=N    NCC_ISMP902 when a cache has more rows than N
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/file_mapping.h"
#include "hlo/proto.h"
#include "hlo/verifier.h"
#include "standin/neff_writer.h"

namespace {

namespace fs = std::filesystem;
namespace hlo = gemmatrace::hlo;
using gemmatrace::standin::NeffContent;

constexpr int kInternalError = 70;

std::string setting(const char* name, const char* otherwise = "") {
    const char* value = std::getenv(name);
    return value == nullptr ? otherwise : value;
}

struct Failure {
    int status = 1;
    std::string text;
};

[[noreturn]] void fail(const std::string& code, const std::string& what, int status = kInternalError) {
    throw Failure{status, "[ERROR] [NCC_" + code + "] " + what};
}

std::string version_text() { return setting("STANDIN_CC_VERSION", "2.26.6360.0+standin"); }

void print_version() {
    std::printf("NeuronX Compiler version %s\n\nPython version 3.10.12\nHWM version 2.26.0.0\nNumPy version 1.26.4\n",
                version_text().c_str());
    const std::string islpy = setting("STANDIN_CC_ISLPY", "2023.2.5");
    if (!islpy.empty()) std::printf("islpy version %s\n", islpy.c_str());
}

struct CommandLine {
    fs::path input;
    fs::path output;
    std::vector<std::string> options;
    std::string target;
};

CommandLine parse_command_line(const std::vector<std::string>& words) {
    static const std::set<std::string> valued = {"--framework",
                                                 "--target",
                                                 "--model-type",
                                                 "--auto-cast",
                                                 "--auto-cast-type",
                                                 "--optlevel",
                                                 "--output",
                                                 "--logfile",
                                                 "--logfile-verbose",
                                                 "--verbose",
                                                 "--lnc",
                                                 "--logical-nc-config",
                                                 "--hbm-scratchpad-page-size",
                                                 "--tensorizer-options",
                                                 "--internal-hlo2tensorizer-options",
                                                 "--implicit-integer-downcast"};
    static const std::set<std::string> plain = {"-O1",
                                                "-O2",
                                                "-O3",
                                                "--enable-saturate-infinity",
                                                "--enable-mixed-precision-accumulation",
                                                "--disable-mixed-precision-accumulation",
                                                "--enable-fast-context-switch",
                                                "--enable-fast-loading-neuron-binaries",
                                                "--disable-dge"};
    CommandLine line;
    for (size_t place = 0; place < words.size(); ++place) {
        const std::string& word = words[place];
        if (!word.starts_with('-')) {
            if (!line.input.empty()) fail("EARG002", "unrecognized arguments: " + word, 1);
            line.input = word;
            continue;
        }
        const size_t equals = word.find('=');
        const std::string name = word.substr(0, equals);
        if (plain.contains(word)) {
            line.options.push_back(word);
            continue;
        }
        if (!valued.contains(name)) fail("EARG002", "unrecognized arguments: " + word, 1);
        std::string value;
        if (equals != std::string::npos)
            value = word.substr(equals + 1);
        else if (++place < words.size())
            value = words[place];
        else
            fail("EARG002", "expected one argument: " + word, 1);
        if ((name == "--lnc" || name == "--logical-nc-config") && value != "1") {
            fail("EARG001", "logical-nc-config " + value + " is invalid for this target", 1);
        }
        const bool is_new_option = name == "--implicit-integer-downcast";
        if (is_new_option && version_text() < "2.27") fail("EARG002", "unrecognized arguments: " + word, 1);
        if (name == "--output") line.output = value;
        if (name == "--target") line.target = value;
        if (name == "--framework" && value != "XLA") fail("EARG002", "framework " + value, 1);
        line.options.push_back(name + "=" + value);
    }
    if (line.input.empty() || line.output.empty()) fail("EARG002", "an input and --output are required", 1);
    if (line.target != "inf2" && line.target != "trn1") fail("EARG002", "invalid target '" + line.target + "'", 1);
    return line;
}

// Two compiles in one folder would overwrite each other's scratch files.
class FolderLock {
  public:
    FolderLock() {
        const int file = open("standin.lock", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file < 0) throw Failure{1, "[ERROR] another compile runs in this folder"};
        close(file);
    }
    ~FolderLock() { unlink("standin.lock"); }
    FolderLock(const FolderLock&) = delete;
    FolderLock& operator=(const FolderLock&) = delete;
};

hlo::Module read_program(const fs::path& path) {
    constexpr uintmax_t kTwoGibibytes = uintmax_t{1} << 31;
    if (!fs::exists(path)) throw Failure{1, "[ERROR] no such file: " + path.string()};
    if (fs::file_size(path) >= kTwoGibibytes) throw Failure{1, "[ERROR] the module exceeds the 2 GiB of a protobuf"};
    const std::string bytes = gemmatrace::read_file(path, hlo::kLargestProtoBytes);
    try {
        return hlo::read_proto(std::as_bytes(std::span(bytes)), path.string());
    } catch (const gemmatrace::Error& error) {
        const std::string said = error.what();
        if (error.code() != gemmatrace::ErrorCode::unsupported) throw Failure{1, "[ERROR] " + said};
        fail(said.find("type") == std::string::npos ? "EVRF001" : "EVRF004", said);
    }
}

// Ranks that the first sum over ranks names; programs of one rank have none.
int32_t ranks_of(const hlo::Module& module) {
    for (const hlo::Instruction& instruction : module.entry().instructions) {
        if (instruction.opcode != hlo::Opcode::all_reduce) continue;
        size_t ranks = 0;
        for (const auto& group : instruction.groups) ranks += group.size();
        return static_cast<int32_t>(std::max<size_t>(ranks, 1));
    }
    return 1;
}

void check_program(const hlo::Module& module) {
    if (module.host_shape.parameters.empty()) throw Failure{1, "[ERROR] no program shape was found in the module"};
    for (const hlo::Finding& finding : hlo::verify(module, ranks_of(module))) {
        fail(finding.is_sound ? "EVRF001" : "EVRF064", finding.instruction + ": " + finding.fault);
    }
    // A row of a transcendental stays in one partition of the core's memory.
    constexpr int64_t kPartitionBytes = 196608;
    for (const hlo::Instruction& instruction : module.entry().instructions) {
        if (instruction.opcode != hlo::Opcode::tanh || instruction.shape.dimensions.empty()) continue;
        const int64_t row =
            instruction.shape.dimensions.back() * static_cast<int64_t>(hlo::element_bytes(instruction.shape.type));
        if (row <= kPartitionBytes) continue;
        fail("INLA001", instruction.name + " wants " + std::to_string(row) + " of 196608 bytes per partition");
    }
}

int64_t cache_rows(const hlo::Module& module) {
    int64_t rows = 0;
    const auto names = module.parameter_names();
    const auto places = module.parameters();
    for (size_t number = 0; number < names.size(); ++number) {
        const auto& shape = module.entry().instructions[static_cast<size_t>(places[number])].shape;
        if (names[number].ends_with(hlo::kAliasSuffix) && !shape.dimensions.empty()) {
            rows = std::max(rows, shape.dimensions[0]);
        }
    }
    return rows;
}

void plant_before(const hlo::Module& module) {
    const std::string once = setting("STANDIN_CC_ONCE");
    if (!once.empty() && fs::exists(once)) return;
    if (!once.empty()) std::ofstream(once) << "once\n";
    if (const std::string megabytes = setting("STANDIN_CC_EAT_MB"); !megabytes.empty()) {
        static std::vector<char> eaten;
        eaten.assign(std::stoul(megabytes) << 20, 'x');
    }
    if (const std::string slow = setting("STANDIN_CC_SLOW_MS"); !slow.empty()) {
        const pid_t helper = fork();
        if (helper == 0) {
            std::ofstream("helper.pid") << getpid() << "\n";
            std::this_thread::sleep_for(std::chrono::milliseconds(std::stoul(slow)));
            _exit(0);
        }
        waitpid(helper, nullptr, 0);
    }
    if (const std::string text = setting("STANDIN_CC_FAIL"); !text.empty()) {
        throw Failure{kInternalError, "[ERROR] " + (text.starts_with('[') ? text : "[" + text + "]") + " as planted"};
    }
    if (const std::string above = setting("STANDIN_CC_ISMP902_ABOVE"); !above.empty()) {
        if (cache_rows(module) > std::stol(above)) fail("ISMP902", "islpy: unexpected set");
    }
    if (!setting("STANDIN_CC_KILL").empty()) kill(getpid(), SIGKILL);
    if (const std::string status = setting("STANDIN_CC_EXIT"); !status.empty()) {
        throw Failure{std::stoi(status), "Compilation terminated"};
    }
}

NeffContent neff_of(const hlo::Module& module, const std::string& proto, const std::string& wrong) {
    NeffContent content;
    content.build_version = version_text();
    content.name = module.name;
    content.feature_bits = std::stoull(setting("STANDIN_CC_FEATURES", "0"), nullptr, 0);
    content.is_compressed = setting("STANDIN_CC_PLAIN").empty();
    const auto& instructions = module.entry().instructions;
    const auto add = [&](const std::string& name, const char* type, int32_t place) {
        content.variables.push_back({name, type, instructions[static_cast<size_t>(place)].shape.bytes(), 0});
    };
    const auto inputs = module.parameter_names();
    const auto outputs = module.output_names();
    for (size_t number = 0; number < inputs.size(); ++number) add(inputs[number], "input", module.parameters()[number]);
    for (size_t number = 0; number < outputs.size(); ++number) add(outputs[number], "output", module.outputs()[number]);
    content.variables.push_back({"spill", "virtual", 4096, 0});
    if (wrong == "size") content.variables.front().bytes += 2;
    if (wrong == "name") content.variables.front().name = "input0";
    if (wrong == "more") content.variables.push_back({"seed", "input", 4, 0});
    content.members = {{gemmatrace::standin::kProgramMember, proto}};
    return content;
}

void compile(const std::vector<std::string>& words) {
    const CommandLine line = parse_command_line(words);
    const FolderLock lock;
    std::ofstream("log-neuron-cc.txt") << "standin: " << line.input.string() << "\n";
    const hlo::Module module = read_program(line.input);
    if (const std::string log = setting("STANDIN_CC_LOG"); !log.empty()) {
        std::string text = module.name;
        for (const std::string& option : line.options) text += " " + option;
        text += setting("NEURON_CC_FLAGS");  // the real one would obey it
        std::ofstream(log, std::ios::app) << text + "\n";
    }
    check_program(module);
    const std::string only = setting("STANDIN_CC_ONLY");
    const bool is_meant = only.empty() || only == module.name;
    if (is_meant) plant_before(module);
    if (is_meant && !setting("STANDIN_CC_NO_FILE").empty()) return;
    const std::string proto = gemmatrace::read_file(line.input, hlo::kLargestProtoBytes);
    std::string neff = write_neff(neff_of(module, proto, is_meant ? setting("STANDIN_CC_WRONG") : ""));
    if (is_meant) neff.resize(neff.size() - std::min(neff.size(), std::stoul(setting("STANDIN_CC_CUT", "0"))));
    std::ofstream file(line.output, std::ios::binary);
    file << neff << std::flush;
    if (!file) throw Failure{1, "[ERROR] cannot write " + line.output.string()};
    std::printf("Compiler status PASS\n");
}

}  // namespace

int main(int count, char** arguments) {
    const std::vector<std::string> words(arguments + 1, arguments + count);
    try {
        if (words.size() == 1 && words[0] == "--version") {
            print_version();
            return 0;
        }
        if (words.empty() || words[0] != "compile") throw Failure{1, "usage: neuronx-cc compile MODULE --output FILE"};
        compile({words.begin() + 1, words.end()});
        return 0;
    } catch (const Failure& failure) {
        std::fprintf(stderr, "%s\n", failure.text.c_str());
        return failure.status;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "[ERROR] %s\n", error.what());
        return kInternalError;
    }
}
