// Compiling as one loop: what is not seen from outside, chiefly memory. Compilers here are shell scripts.
#include "neuron/compile.h"

#include <stdlib.h>
#include <unistd.h>

#include <fstream>

#include "base/file_mapping.h"
#include "base/sha256.h"
#include "neuron/process.h"
#include "standin/neff_writer.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace gemmatrace::neuron {
namespace {

namespace fs = std::filesystem;
using testing::expect_error;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

// Whether the process whose number a file holds is gone within seconds, or waits for somebody to ask for its status.
bool ends_soon(const fs::path& file) {
    const int pid = std::stoi(read_file(file, 100));
    for (int look = 0; look < 1000; ++look) {
        std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
        std::string line;
        if (!std::getline(stat, line) || line.find(") Z ") != std::string::npos) return true;
        ::usleep(10'000);
    }
    return false;
}

class CompileLoop : public ::testing::Test {
  protected:
    CompileLoop() {
        standin::NeffContent content;
        content.variables = {{"hidden", "input", 128}, {"token", "output", 4}};
        std::ofstream(folder_ / "made.neff", std::ios::binary) << write_neff(content);
        settings_.toolchain = {folder_ / "neuronx-cc", "2.26.6360.0", {2, 26, 6360}, "2023.2.5", nullptr};
        settings_.flags = {"-O1"};
        settings_.limits = {uint64_t{64} << 30, 0, 64, 4};
        settings_.say = [this](const std::string& line) { said_ += line + "\n"; };
        fs::create_directories(folder_ / "bundle/programs");
    }

    // The compiler does `work` and then writes a NEFF.
    void compiler_does(const std::string& work) {
        const fs::path program = settings_.toolchain.compiler;
        std::ofstream(program) << "#!/bin/sh\necho run >> " << (folder_ / "runs").string() << "\n"
                               << work << "\ncp " << (folder_ / "made.neff").string() << " program.neff\n";
        fs::permissions(program, fs::perms::owner_all);
    }

    CompileJob job(const std::string& name, uint64_t memory_bytes = 1'000'000) {
        std::ofstream(folder_ / ("bundle/programs/" + name + ".hlo.pb")) << name;
        using Kind = NeffTensor::Kind;
        return {
            name, sha256(name), {{"hidden", Kind::input, 128}, {"token", Kind::output, 4}}, {memory_bytes, 1.0, 0, 0}};
    }

    std::vector<CompiledJob> compile(const std::vector<CompileJob>& jobs) {
        return compile_programs(folder_ / "bundle", jobs, settings_, GraphCache(folder_ / "cache", settings_.say));
    }

    int64_t runs() const { return static_cast<int64_t>(read_file(folder_ / "runs", 1000).size()) / 4; }

    TemporaryFolder folder_;
    CompileSettings settings_;
    std::string said_;
};

// Holds 200 MB until the file `go` appears above its folder, or for half a minute.
constexpr const char* kHoldsMemory =
    "{ head -c 200000000 /dev/zero; n=0; while [ ! -e ../../go ] && [ $n -lt 600 ]; do sleep 0.05; n=$((n + 1)); done; "
    "}"
    " | tail -c 200000000 > held; rm held";

TEST_F(CompileLoop, F056StopsTheLastOfSeveralBeforeMemoryRunsOutAndRunsItAlone) {
    compiler_does(kHoldsMemory);
    settings_.is_memory_stated = true;
    settings_.limits.memory_bytes = 320'000'000;
    settings_.say = [this](const std::string& line) {
        said_ += line + "\n";
        if (line.find("stopped") != std::string::npos) std::ofstream(folder_ / "bundle/go") << "go";
    };
    const auto results = compile({job("first"), job("second")});
    EXPECT_THAT(said_, HasSubstr("second: stopped for want of memory"));
    EXPECT_EQ(runs(), 3);
    EXPECT_GT(results[0].peak_memory_bytes, 100'000'000U);
    EXPECT_TRUE(fs::exists(folder_ / "bundle/programs/second.neff"));
}

TEST_F(CompileLoop, F056EndsTheOnlyOneThatTakesMoreThanWasAllowed) {
    compiler_does(kHoldsMemory);
    settings_.is_memory_stated = true;
    settings_.limits.memory_bytes = 100'000'000;
    expect_error(ErrorCode::resource, {"compiling alone takes more than 100 MB", "--memory-gib"},
                 [&] { compile({job("alone")}); });
    EXPECT_FALSE(fs::exists(folder_ / "bundle/programs/alone.neff"));
}

TEST_F(CompileLoop, RunsTogetherOnlyWhatFitsByItsEstimate) {
    compiler_does("ls .. > list; test $(wc -l < list) = 1 || exit 9");  // folders of those that run now
    settings_.limits.memory_bytes = 10'000'000'000;
    std::string shown;
    settings_.show = [&](const std::string& state) { shown += state + "\n"; };
    compile({job("a", 6'000'000'000), job("b", 6'000'000'000), job("c", 5'000'000'000)});
    EXPECT_EQ(runs(), 3);
    EXPECT_THAT(shown, HasSubstr("a for 0.0 s of about 1.0 s; 2 more to come"));
}

TEST_F(CompileLoop, GivesEachCompilerAFolderOfItsOwnAndNoWordFromOutside) {
    ::setenv("NEURON_CC_FLAGS", "--planted", 1);
    ::setenv("XLA_FLAGS", "--planted", 1);
    compiler_does(
        "env > ../../environment; cat program.hlo.pb > ../../read; echo $* > ../../arguments; pwd > ../../place");
    compile({job("only")});
    ::unsetenv("NEURON_CC_FLAGS");
    ::unsetenv("XLA_FLAGS");
    const std::string environment = read_file(folder_ / "bundle/environment", 1 << 20);
    EXPECT_THAT(environment, ::testing::Not(HasSubstr("--planted")));
    EXPECT_THAT(environment, HasSubstr("PATH=" + folder_.path().string() + ":"));
    EXPECT_EQ(read_file(folder_ / "bundle/read", 100), "only");
    EXPECT_EQ(read_file(folder_ / "bundle/arguments", 100), "compile program.hlo.pb -O1 --output program.neff\n");
    EXPECT_THAT(read_file(folder_ / "bundle/place", 1000), HasSubstr("scratch/only"));
    EXPECT_FALSE(fs::exists(folder_ / "bundle/scratch"));
}

TEST_F(CompileLoop, StopsEverythingWhenItIsCancelled) {
    compiler_does("(sleep 60 & echo $! > ../../helper; wait)");
    settings_.is_cancelled = [&] {
        std::error_code ignored;
        return fs::exists(folder_ / "bundle/helper", ignored) && fs::file_size(folder_ / "bundle/helper", ignored) > 1;
    };
    const auto error = testing::thrown_error([&] { compile({job("a"), job("b")}); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::interrupted);
    EXPECT_TRUE(ends_soon(folder_ / "bundle/helper"));
}

TEST_F(CompileLoop, F054RefusesADiskThatIsTooSmallBeforeAnyCompilerStarts) {
    compiler_does("");
    CompileJob large = job("large");
    large.cost.scratch_bytes = uint64_t{1} << 60;
    expect_error(ErrorCode::resource, {"of disk", "bundle"}, [&] { compile({large}); });
    EXPECT_FALSE(fs::exists(folder_ / "runs"));
}

TEST_F(CompileLoop, DoesNotUseACachedNeffOfAnotherInterface) {
    compiler_does("");
    compile({job("a")});
    standin::NeffContent content;
    content.variables = {{"hidden", "input", 64}, {"token", "output", 4}};
    const CompileJob same = job("a");
    const CacheIngredients ingredients = {same.program_sha256, settings_.flags, "2.26.6360.0", "2023.2.5"};
    GraphCache(folder_ / "cache", settings_.say).store(ingredients, "a", {write_neff(content), 1.0, 1});
    fs::remove(folder_ / "bundle/programs/a.neff");
    fs::remove_all(folder_ / "bundle/logs");
    compile({same});
    EXPECT_THAT(said_, HasSubstr("is not used"));
    EXPECT_EQ(runs(), 2);
}

TEST(Processes, SayHowTheyEndedAndTakeTheirHelpersAlong) {
    const TemporaryFolder folder;
    const auto run = [&](const std::string& script) {
        Process process({{"/bin/sh", "-c", script}, folder.path(), folder / "output", {}});
        while (!process.poll()) ::usleep(1000);
        return *process.poll();
    };
    EXPECT_EQ(run("exit 7").status, 7);
    EXPECT_EQ(run("kill -9 $$").signal, 9);
    EXPECT_EQ(run("echo words; echo more >&2").status, 0);
    EXPECT_EQ(read_file(folder / "output", 100), "words\nmore\n");
    run("(sleep 60; echo late > late) & echo $! > helper");
    EXPECT_TRUE(ends_soon(folder / "helper"));
}

}  // namespace
}  // namespace gemmatrace::neuron
