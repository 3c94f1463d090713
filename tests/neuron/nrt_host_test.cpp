// Cores as they are named, the environment that the runtime is given, and who holds the cores.
#include "neuron/nrt_host.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace gemmatrace::neuron {
namespace {

using gemmatrace::testing::expect_error;

TEST(Cores, AreNamedAsNeighboursInIncreasingOrder) {
    EXPECT_EQ(parse_cores("3", "--cores"), (CoreRange{3, 1}));
    EXPECT_EQ(parse_cores("0-1", "--cores"), (CoreRange{0, 2}));
    EXPECT_EQ(parse_cores("2,3,4-6", "--cores"), (CoreRange{2, 5}));
    EXPECT_EQ(parse_cores("2,3,4-6", "--cores").text(), "2-6");
    for (const char* bad : {"", "a", "1,", "0,2", "1-0", "1,0", "-1", "0-", "0-4096", "0 1"}) {
        expect_error(ErrorCode::bad_request, {"--cores"}, [&] { parse_cores(bad, "--cores"); });
    }
}

TEST(Cores, TheOptionGoesBeforeTheEnvironmentAndThatBeforeTheFirst) {
    ::unsetenv("NEURON_RT_VISIBLE_CORES");
    EXPECT_EQ(choose_cores("", 2), (CoreRange{0, 2}));
    ::setenv("NEURON_RT_VISIBLE_CORES", "4-7", 1);
    EXPECT_EQ(choose_cores("", 2), (CoreRange{4, 2}));
    EXPECT_EQ(choose_cores("8,9", 2), (CoreRange{8, 2}));
    expect_error(ErrorCode::bad_request, {"2 ranks", "one core"}, [] { choose_cores("1", 2); });
    ::unsetenv("NEURON_RT_VISIBLE_CORES");
}

TEST(RuntimeEnvironment, NamesCoresMeetingPointAndTimeout) {
    const auto list = runtime_environment({2, 2}, 120.0);
    std::map<std::string, std::string> variables(list.begin(), list.end());
    EXPECT_EQ(variables["NEURON_RT_VISIBLE_CORES"], "2-3");
    EXPECT_TRUE(variables["NEURON_RT_ROOT_COMM_ID"].starts_with("127.0.0.1:"));
    EXPECT_EQ(variables["NEURON_RT_EXEC_TIMEOUT"], "90") << "the runtime reports before our own deadline";
    EXPECT_EQ(variables["NEURON_RT_IO_RING_CACHE_SIZE"], "1");
    EXPECT_EQ(variables["NEURON_RT_STOCHASTIC_ROUNDING_EN"], "0");
    EXPECT_EQ(variables["NEURON_PROCESS_TAG"], "gemmatrace");
    ::setenv("NEURON_LOGICAL_NC_CONFIG", "2", 1);
    expect_error(ErrorCode::unsupported, {"NEURON_LOGICAL_NC_CONFIG is 2"}, [] { runtime_environment({0, 1}, 1.0); });
    ::unsetenv("NEURON_LOGICAL_NC_CONFIG");
}

TEST(CoreHolders, AreReadFromNeuronLsLeniently) {
    const auto holders = holders_in_listing(
        R"([{"neuron_device":0,"nc_count":2,"neuron_processes":[{"pid":4711,"command":"python3 serve.py"},{"pid":12}]},
            {"neuron_device":1},{"neuron_processes":[{"command":"no pid"}]}])");
    EXPECT_EQ(holders, (std::vector<CoreHolder>{{4711, "python3 serve.py"}, {12, ""}}));
    EXPECT_EQ(holders_text(holders), "held by process 4711 (python3 serve.py), process 12");
    for (const char* other : {"", "[", "{}", "neuron-ls: no devices"}) EXPECT_TRUE(holders_in_listing(other).empty());
}

TEST(CoreHolders, AreFoundByTheirOpenDevices) {
    const gemmatrace::testing::TemporaryFolder proc;
    for (const char* pid : {"17", "18", "self"}) std::filesystem::create_directories(proc / pid / "fd");
    std::filesystem::create_symlink("/dev/neuron0", proc / "17" / "fd" / "5");
    std::filesystem::create_symlink("/dev/null", proc / "18" / "fd" / "5");
    std::filesystem::create_symlink("/dev/neuron0", proc / "self" / "fd" / "5");
    std::ofstream(proc / "17" / "cmdline") << std::string(
        "server\0--port\0"
        "1\0",
        16);
    EXPECT_EQ(holders_in_proc(proc.path(), "/dev/neuron"), (std::vector<CoreHolder>{{17, "server --port 1"}}));
    EXPECT_TRUE(holders_in_proc(proc / "nothing", "/dev/neuron").empty());
}

}  // namespace
}  // namespace gemmatrace::neuron
