// The tables of the compiler room: releases, options, failures, and the estimates of what a compile takes.
#include "neuron/compile_cost.h"

#include "base/file_mapping.h"
#include "neuron/compiler_flags.h"
#include "neuron/failures.h"
#include "neuron/releases.h"
#include "neuron/toolchain.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

#include <csignal>
#include <fstream>
#include <set>

namespace gemmatrace::neuron {
namespace {

using ::testing::ElementsAre;
using testing::expect_error;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

TEST(Versions, AreFoundInWhateverSurroundsThem) {
    EXPECT_EQ(parse_version("2.26.6360.0+1d2a3b"), (Version{2, 26, 6360}));
    EXPECT_EQ(parse_version("neuronx-cc version 2.23"), (Version{2, 23, 0}));
    EXPECT_EQ(parse_version("cp310 v1 2.30.51.0-abc"), (Version{2, 30, 51}));
    for (const char* nothing : {"", "none", "2", "2.", "v", "x86_64 64"})
        EXPECT_FALSE(parse_version(nothing)) << nothing;
    EXPECT_LT((Version{2, 9, 900}), (Version{2, 27, 0}));
}

TEST(Releases, AreThoseOfTheDocument) {
    const std::string document = read_file(std::string(GEMMATRACE_SOURCE_DIR) + "/docs/compiling.md", 1 << 20);
    for (const Release& release : known_releases()) {
        EXPECT_THAT(document, HasSubstr(release.compiler.text()));
        EXPECT_THAT(document, HasSubstr(std::string(release.sdk)));
        EXPECT_THAT(document, HasSubstr("| " + std::string(release.islpy.empty() ? "any before 2026" : release.islpy)));
    }
}

TEST(Releases, FollowEachOtherAndOneRule) {
    for (const Release& release : known_releases()) {
        const int32_t sdk = parse_version(release.sdk)->minor;
        EXPECT_EQ(release.runtime.minor, sdk + 2) << release.sdk;
        EXPECT_EQ(release.driver.minor, sdk - 2) << release.sdk;
        EXPECT_EQ(release.compiler.minor, sdk - 5) << release.sdk;
        EXPECT_EQ(release_of_compiler(release.compiler), &release);
        EXPECT_THAT(known_compilers_text(), HasSubstr(release.compiler.text()));
    }
    EXPECT_EQ(release_of_compiler({2, 26, 6361}), nullptr);
}

Toolchain toolchain_of(const char* compiler, const char* islpy) {
    const Version version = *parse_version(compiler);
    return {"neuronx-cc", compiler, version, islpy, release_of_compiler(version)};
}

TEST(Toolchains, F036AreHeldToTheIslpyTheirCompilerWasMadeFor) {
    for (const auto& [compiler, islpy] : std::vector<std::pair<const char*, const char*>>{{"2.27.5334.0+abc", "2026.1"},
                                                                                          {"2.26.6360.0", "2023.2.5"},
                                                                                          {"2.23.6484", "2023.1"},
                                                                                          {"2.18.121", "2024.2"}}) {
        EXPECT_EQ(toolchain_fault(toolchain_of(compiler, islpy)), std::nullopt) << compiler << " " << islpy;
    }
    for (const auto& [compiler, islpy, said] : std::vector<std::array<const char*, 3>>{
             {"2.27.5334.0+abc", "2026.2.1", "goes with islpy 2026.1"},
             {"2.27.5334.0+abc", "", "islpy of compiler 2.27.5334 was not found; it needs 2026.1"},
             {"2.26.6360.0", "2026.1", "goes with islpy 2023.2.5"},
             {"2.23.6484", "2026.1", "made before"},
             {"2.23.6484", "", "not found"},
             {"2.23.6484", "new", "made before"},
             {"2.40.1.0", "2026.1", "no release"}}) {
        const auto fault = toolchain_fault(toolchain_of(compiler, islpy));
        ASSERT_TRUE(fault.has_value()) << compiler << " " << islpy;
        EXPECT_THAT(*fault, HasSubstr(said));
        expect_error(ErrorCode::mismatch, {said, "2.26.6360 (SDK 2.31, islpy 2023.2.5)", "--any-compiler"},
                     [&] { require_known(toolchain_of(compiler, islpy)); });
    }
}

void make_program(const std::filesystem::path& path, const std::string& text) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

TEST(Toolchains, AreSearchedForWherePeopleHaveThem) {
    const TemporaryFolder folder;
    std::map<std::string, std::string> environment = {{"PATH", (folder / "a").string() + ":" + (folder / "b").string()},
                                                      {"VIRTUAL_ENV", folder / "venv"},
                                                      {"HOME", folder / "home"}};
    CompilerSearch search;
    search.environments = folder / "opt";
    search.environment = [&](const char* name) -> std::optional<std::string> {
        const auto found = environment.find(name);
        return found == environment.end() ? std::nullopt : std::optional(found->second);
    };
    expect_error(ErrorCode::not_found, {"neuronx-cc", "venv/bin", "--compiler", "--emit-only"},
                 [&] { find_compiler(search); });
    // The last one made goes before the others.
    for (const char* place :
         {"home/.local/bin", "opt/aws_neuronx_venv_a/bin", "opt/aws_neuronx_venv_b/bin", "venv/bin", "b", "named"}) {
        const auto program = folder.path() / place / "neuronx-cc";
        make_program(program, "#!/bin/sh\n");
        if (std::string(place) == "named") environment["GEMMATRACE_NEURONX_CC"] = program.parent_path();
        EXPECT_EQ(find_compiler(search), program);
    }
    search.compiler = folder / "b" / "neuronx-cc";
    EXPECT_EQ(find_compiler(search), search.compiler);
    search.compiler = folder / "nowhere";
    expect_error(ErrorCode::not_found, {"--compiler", "nowhere"}, [&] { find_compiler(search); });
}

TEST(Toolchains, TellTheirVersionAndTheIslpyBesideThem) {
    const TemporaryFolder folder;
    const auto program = folder.path() / "venv" / "bin" / "neuronx-cc";
    const std::string block =
        "#!/bin/sh\necho 'NeuronX Compiler version 2.23.6484.0+3b612583\n\nPython version 3.10.12'\n";
    make_program(program, block);
    EXPECT_EQ(read_toolchain(program, folder.path()).islpy, "");
    make_program(folder.path() / "venv/lib/python3.10/site-packages/islpy-2023.2.5.dist-info/METADATA", "");
    const Toolchain toolchain = read_toolchain(program, folder.path());
    EXPECT_EQ(toolchain.version_text, "2.23.6484.0+3b612583");
    EXPECT_EQ(toolchain.islpy, "2023.2.5");
    ASSERT_NE(toolchain.release, nullptr);
    EXPECT_EQ(toolchain.release->sdk, "2.28");
    make_program(program, block + "echo 'islpy version 2026.1'\n");
    EXPECT_EQ(read_toolchain(program, folder.path()).islpy, "2026.1");
    make_program(program, "#!/bin/sh\necho hello\n");
    expect_error(ErrorCode::corrupt, {"no version", "hello"}, [&] { read_toolchain(program, folder.path()); });
    make_program(program, "#!/bin/sh\necho 'No module named neuronxcc'; exit 1\n");
    expect_error(ErrorCode::not_found, {"No module named neuronxcc"}, [&] { read_toolchain(program, folder.path()); });
    make_program(program, "#!/nowhere/python\n");
    expect_error(ErrorCode::not_found, {"cannot run"}, [&] { read_toolchain(program, folder.path()); });
}

TEST(CompilerFlags, DependOnTheVersionAndTakeTheUsersWord) {
    EXPECT_THAT(compiler_flags("inf2", {2, 23, 6484}),
                ElementsAre("--framework=XLA", "--target=inf2", "--model-type=transformer", "--auto-cast=none", "-O1",
                            "--enable-mixed-precision-accumulation"));
    EXPECT_EQ(compiler_flags("inf2", {2, 27, 5334}).back(), "--implicit-integer-downcast=all");
    const auto changed = compiler_flags("inf2", {2, 23, 0},
                                        {"--optlevel=2", "--disable-mixed-precision-accumulation", "--verbose=info"});
    EXPECT_THAT(changed, ElementsAre("--framework=XLA", "--target=inf2", "--model-type=transformer", "--auto-cast=none",
                                     "--optlevel=2", "--disable-mixed-precision-accumulation", "--verbose=info"));
    expect_error(ErrorCode::unsupported, {"gpu"}, [] { compiler_flags("gpu", {2, 23, 0}); });
    for (const char* word : {"", "-", "file", "--output=x", "--target=trn2", "--logfile=/etc/passwd"}) {
        expect_error(ErrorCode::bad_request, {"--compiler-flag"}, [&] { compiler_flags("inf2", {2, 23, 0}, {word}); });
    }
}

TEST(CompilerFailures, AreToldByTheLastCodeOfALog) {
    EXPECT_EQ(failure_code_in("2026 INFO [Main]\n[ERROR] [NCC_EVRF007] too many\nexit"), "EVRF007");
    EXPECT_EQ(failure_code_in("ERROR NCC_ABC123: other\n[XTP002] too many instructions"), "XTP002");
    EXPECT_EQ(failure_code_in("NCC_ABC123 alone"), "ABC123");
    EXPECT_EQ(failure_code_in("NCC_EVRF007 then NCC_INLA001"), "INLA001");
    for (const char* none :
         {"", "[2026]", "[ERROR] failed", "NCC_", "NCC_EVRF", "[INFO123]x [A001]", "NCC_TOOLONG123"}) {
        EXPECT_EQ(failure_code_in(none), "") << none;
    }
}

TEST(CompilerFailures, EachHaveOneRowWithCauseAndRemedy) {
    std::set<std::string_view> codes;
    for (const KnownFailure& failure : known_failures()) {
        for (const std::string_view code : failure.codes) {
            EXPECT_TRUE(codes.insert(code).second) << code;
            const std::string log = "[ERROR] [NCC_" + std::string(code) + "] words";
            EXPECT_EQ(failure_code_in(log), code);
            const Error error = compiler_error("decode_c512", {70, 0}, log, "kept.log");
            EXPECT_EQ(error.code(), failure.code);
            EXPECT_THAT(error.what(), HasSubstr(std::string(failure.cause)));
            EXPECT_THAT(error.what(), HasSubstr("decode_c512"));
            EXPECT_THAT(error.what(), HasSubstr("NCC_" + std::string(code)));
            EXPECT_THAT(error.what(), HasSubstr("kept.log"));
            EXPECT_FALSE(error.remedy().empty());
            EXPECT_FALSE(may_pass_when_repeated({70, 0}, log)) << "a refusal is repeated in vain: " << code;
        }
    }
    EXPECT_GE(codes.size(), 38U);
}

TEST(CompilerFailures, WithoutACodeAreToldByTheirEnd) {
    const auto error_of = [](CompilerExit end, const char* log) { return compiler_error("decode_c512", end, log, ""); };
    EXPECT_EQ(error_of({0, SIGKILL}, "").code(), ErrorCode::resource);
    EXPECT_THAT(error_of({0, SIGKILL}, "NCC_EVRF007").what(), HasSubstr("want of memory"));
    EXPECT_THAT(error_of({0, SIGSEGV}, "").what(), HasSubstr("signal 11"));
    EXPECT_THAT(error_of({70, 0}, "").what(), HasSubstr("internal error, twice"));
    EXPECT_THAT(error_of({1, 0}, "").what(), HasSubstr("exit status 1"));
    EXPECT_THAT(error_of({1, 0}, "NCC_ABC123").what(), HasSubstr("NCC_ABC123"));
    EXPECT_THAT(error_of({1, 0}, "walrus_driver: libxml2.so.2: cannot open").remedy(), HasSubstr("libxml2"));
    EXPECT_TRUE(may_pass_when_repeated({70, 0}, "no code"));
    EXPECT_FALSE(may_pass_when_repeated({1, 0}, ""));
    EXPECT_FALSE(may_pass_when_repeated({0, SIGKILL}, ""));
}

TEST(CompileCosts, AreNearTheCompilesThatWereMeasured) {
    const auto within = [](double value, double measured, double factor) {
        return value > measured / factor && value < measured * factor;
    };
    const CompileCost decode = estimate_compile({7926, 390'000});  // E2B, 35 layers, 512 tokens
    EXPECT_TRUE(within(static_cast<double>(decode.memory_bytes), 7.5e9, 1.1));
    EXPECT_TRUE(within(decode.seconds, 1173, 3));
    EXPECT_TRUE(within(static_cast<double>(decode.neff_bytes), 44.3e6, 1.1));
    const CompileCost long_prefill = estimate_compile({7926, 2'147'483'648});  // 512 rows of 131,072, 8 heads, fp32
    EXPECT_TRUE(within(static_cast<double>(long_prefill.memory_bytes), 38e9, 1.1));
    EXPECT_TRUE(within(estimate_compile({13134, 0}).seconds, 2365, 3));  // 31B
}

TEST(CompileCosts, F056SayHowManyCompilesAMachineBears) {
    const std::vector<std::string> names = {"a", "b", "c"};
    const auto costs = [](std::initializer_list<uint64_t> gigabytes) {
        std::vector<CompileCost> list;
        for (const uint64_t each : gigabytes) list.push_back({each * 1'000'000'000, 0, 0, 0});
        return list;
    };
    const auto limits = [](uint64_t gigabytes, int32_t cores, int32_t jobs, uint64_t swap = 0) {
        return HostLimits{gigabytes * 1'000'000'000, swap * 1'000'000'000, cores, jobs};
    };
    EXPECT_EQ(plan_jobs(names, costs({8, 9, 7}), limits(64, 32, 0)), 3);
    EXPECT_EQ(plan_jobs(names, costs({8, 9, 7}), limits(64, 8, 0)), 2);  // cores
    EXPECT_EQ(plan_jobs(names, costs({8, 9, 7}), limits(64, 2, 0)), 1);
    EXPECT_EQ(plan_jobs(names, costs({8, 9, 7}), limits(18, 32, 0)), 2);  // memory
    EXPECT_EQ(plan_jobs(names, costs({8, 9, 7}), limits(16, 32, 3)), 1);  // also when more are asked for
    EXPECT_EQ(plan_jobs(names, costs({8, 9, 7}), limits(64, 2, 2)), 2);
    EXPECT_EQ(plan_jobs(names, costs({8, 90, 7}), limits(64, 32, 0, 40)), 1);  // with swap, alone
    EXPECT_EQ(plan_jobs({}, {}, limits(64, 32, 0)), 1);
    expect_error(ErrorCode::resource, {"compiling b takes about 90.0 GB", "64.0 GB", "--memory-gib"}, [&] {
        plan_jobs(names, costs({8, 90, 7}), limits(64, 32, 0));
    });
    expect_error(ErrorCode::bad_request, {"--jobs"}, [&] { plan_jobs({}, {}, limits(64, 32, -1)); });
}

}  // namespace
}  // namespace gemmatrace::neuron
