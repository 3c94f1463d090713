// Programs on the stand-in runtime: the simulator's results, and every fault told with call, rank and remedy.
#include "neuron/neuron_device.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "neuron/nrt_status.h"
#include "neuron/rank_threads.h"
#include "neuron/standin_programs.h"
#include "support/expect_error.h"
#include "trace/sim_device.h"

namespace gemmatrace::neuron {
namespace {

using gemmatrace::testing::expect_error;
using testing::LoadedStep;
using testing::standin_options;
using testing::standin_step;
using testing::StandinRuntime;
using testing::step_module;

nlohmann::ordered_json last_log(const StandinRuntime& runtime) {
    std::ifstream file(runtime.log());
    std::string line, last;
    while (std::getline(file, line)) last = line;
    return nlohmann::ordered_json::parse(last);
}

TEST(NeuronDevice, GivesTheSimulatorsResultsAndFreesEverything) {
    const StandinRuntime runtime;
    for (const int32_t ranks : {1, 2}) {
        {
            LoadedStep neuron = standin_step(ranks);
            LoadedStep sim(trace::make_sim_device(ranks, 1), step_module(ranks));
            for (int32_t row = 0; row < 5; ++row) {
                const float first = 0.25F * static_cast<float>(row);
                for (int32_t rank = 0; rank < ranks; ++rank) {
                    EXPECT_EQ(neuron.step(row, first, rank), sim.step(row, first, rank)) << row << " " << rank;
                    EXPECT_EQ(neuron.result("kv", rank, 32), sim.result("kv", rank, 32)) << row << " " << rank;
                }
            }
        }
        const auto log = last_log(runtime);
        for (const char* kind : {"tensors_left", "sets_left", "models_left"}) EXPECT_EQ(log[kind], 0) << kind;
        EXPECT_EQ(log["environment"]["NEURON_RT_VISIBLE_CORES"], ranks == 1 ? "0" : "0-1");
        EXPECT_EQ(log["environment"]["NEURON_PROCESS_TAG"], "gemmatrace");
    }
}

// The host may write the next step's inputs while a step runs; that one does not see them.
TEST(NeuronDevice, InputsWrittenBesideARunningStepAreTheNextOnes) {
    StandinRuntime runtime;
    runtime.plant("nrt_execute * 1 delay=0.2");
    LoadedStep step = standin_step(2);
    step.start(0, 8.0F);
    const float next = 99.0F;
    step.device->write(step.buffers.at("x"), 0, 0, std::as_bytes(std::span(&next, 1)));
    EXPECT_EQ(step.result("total", 0, 1)[0], 8.0F * 1 + 8.0F * 2);
    EXPECT_EQ(step.result("x", 0, 1)[0], 99.0F);
}

// A transfer of weights goes in parts that are sent while the next is gathered.
TEST(NeuronDevice, LargeWritesArriveWhole) {
    const StandinRuntime runtime;
    const auto device = make_neuron_device(2, standin_options());
    std::vector<std::byte> bytes(size_t{9} << 20);
    for (size_t at = 0; at < bytes.size(); ++at) bytes[at] = static_cast<std::byte>(at * 2654435761U >> 24);
    const auto buffer = device->allocate("weights", bytes.size());
    for (int32_t rank = 0; rank < 2; ++rank) {
        const size_t part = bytes.size() / 3;
        for (size_t at = 0; at < bytes.size(); at += part) {
            device->write(buffer, rank, at, std::span(bytes).subspan(at, std::min(part, bytes.size() - at)));
        }
        std::vector<std::byte> found(bytes.size());
        const trace::Device::Read read{buffer, rank, 0, found};
        device->read(std::span(&read, 1));
        EXPECT_TRUE(found == bytes) << rank;
    }
}

// Fault F148: the stand-in's fresh memory is full of NaN.
TEST(NeuronDevice, F148_FreshBuffersAreZeroAlsoWithoutAMemset) {
    for (const char* kind : {"all", "old"}) {
        StandinRuntime runtime(kind);
        if (std::string(kind) == "old") runtime.set("GEMMATRACE_STANDIN_NRT_VERSION", "2.26.1");
        const auto device = make_neuron_device(1, standin_options());
        const auto buffer = device->allocate("fresh", 5 << 20);
        std::vector<std::byte> found(5 << 20, std::byte{1});
        const trace::Device::Read read{buffer, 0, 0, found};
        device->read(std::span(&read, 1));
        EXPECT_TRUE(found == std::vector<std::byte>(5 << 20)) << kind;
    }
}

// Fault F146: two numberings of element types, and two opinions of an argument.
TEST(NeuronDevice, F146_ReleasesThatDifferAreServedAlike) {
    for (const char* version : {"2.28.3", "2.34.0"}) {
        for (const char* count : {"-1", "1"}) {
            StandinRuntime runtime;
            runtime.set("GEMMATRACE_STANDIN_NRT_VERSION", version);
            runtime.set("GEMMATRACE_STANDIN_NRT_COUNT", count);
            EXPECT_EQ(standin_step(2).step(0, 1.0F)[0], 3.0F) << version << " " << count;
        }
    }
}

TEST(NeuronDevice, AProgramThatIsNotTheCompiledOneIsRefusedBeforeItIsLoaded) {
    const StandinRuntime runtime;
    const auto refuse = [](const std::vector<std::string>& said, const auto& bend) {
        expect_error(ErrorCode::mismatch, said, [&] { standin_step(1, standin_options(), bend); });
    };
    refuse({"input x has 20 bytes", "16", "step.neff"}, [](auto& neff) { neff.variables[1].bytes = 20; });
    refuse({"lacks the input x"}, [](auto& neff) { neff.variables[1].name = "z"; });
    refuse({"an input more: more"}, [](auto& neff) { neff.variables.push_back({"more", "input", 4}); });
    refuse({"lacks the output kv"}, [](auto& neff) { neff.variables[5].type = "tmp-buf"; });
    refuse({"logical cores of 2"}, [](auto& neff) { neff.lnc_size = 2; });
    refuse({"10 (UNSUPPORTED_NEFF_VERSION)", "older than the compiler"}, [](auto& neff) { neff.feature_bits = 0x100; });
}

TEST(NeuronDevice, AMachineWithoutTheCoresIsRefused) {
    StandinRuntime runtime;
    runtime.set("GEMMATRACE_STANDIN_NRT_CORES", "1");
    expect_error(ErrorCode::unsupported, {"1 cores", "0-1"}, [] { make_neuron_device(2, standin_options()); });
    EXPECT_EQ(why_no_neuron(1, ""), "");
    EXPECT_THAT(why_no_neuron(2, ""), ::testing::HasSubstr("1 cores"));
    runtime.set(kLibraryVariable, "/nowhere");
    EXPECT_THAT(why_no_neuron(1, ""), ::testing::HasSubstr("cannot be opened"));
}

// Fault F043: who holds the cores is said.
TEST(NeuronDevice, F043_CoresThatAreHeldAreSaidWithTheirHolder) {
    StandinRuntime runtime;
    const gemmatrace::testing::TemporaryFolder tools;
    {
        std::ofstream script(tools / "neuron-ls");
        script << "#!/bin/sh\necho '[{\"neuron_processes\":[{\"pid\":4711,\"command\":\"other\"}]}]'\n";
    }
    std::filesystem::permissions(tools / "neuron-ls", std::filesystem::perms::owner_all);
    runtime.set("PATH", tools.path().string() + ":/usr/bin:/bin");
    runtime.set("GEMMATRACE_STANDIN_NRT_FOLDER", tools.path().string());
    const int file = ::open((tools / "core1").c_str(), O_RDWR | O_CREAT, 0666);
    ASSERT_EQ(::flock(file, LOCK_EX | LOCK_NB), 0);
    expect_error(ErrorCode::device, {"nrt_init", "1 (FAILURE)", "held by process 4711 (other)"},
                 [] { make_neuron_device(2, standin_options()); });
    EXPECT_EQ(make_neuron_device(1, standin_options())->ranks(), 1) << "the other core is free";
    ::close(file);
    EXPECT_EQ(make_neuron_device(2, standin_options())->ranks(), 2);
}

TEST(NeuronDevice, TooLittleMemoryIsToldBesideThePlan) {
    StandinRuntime runtime;
    runtime.set("GEMMATRACE_STANDIN_NRT_BYTES", "1000000");
    NeuronOptions options = standin_options();
    options.planned = {{"weights", 1'400'000}, {"caches", 2'000}};
    const auto device = make_neuron_device(2, std::move(options));
    device->allocate("first", 400'000);
    expect_error(ErrorCode::resource,
                 {"nrt_tensor_allocate", "of=second", "4 (RESOURCE)", "weights 1.40 MB, caches 2.00 kB",
                  "taken_by_us=400 kB", "counted_by_runtime=400 kB of 1.00 MB"},
                 [&] { device->allocate("second", 700'000); });
}

// Each status of each call comes out with its meaning; what is not fatal leaves the device as it was.
TEST(NeuronDevice, APlantedStatusIsToldWithCallRankMeaningAndRemedy) {
    struct Planted {
        const char* call;
        int32_t status;
    };
    for (const auto& [call, status] : {Planted{"nrt_init", 1},
                                       {"nrt_init", 6},
                                       {"nrt_tensor_allocate", 4},
                                       {"nrt_tensor_memset", 3},
                                       {"nrt_load", 1},
                                       {"nrt_load", 9},
                                       {"nrt_load", 10},
                                       {"nrt_allocate_tensor_set", 4},
                                       {"nrt_add_tensor_to_tensor_set", 2},
                                       {"nrt_tensor_write", 13},
                                       {"nrt_execute", 2},
                                       {"nrt_execute", 1002},
                                       {"nrt_execute", 1005},
                                       {"nrt_execute", 7},
                                       {"nrt_tensor_read", 3}}) {
        StandinRuntime runtime;
        runtime.plant(std::string(call) + " 0 1 status=" + std::to_string(status));
        const StatusMeaning& meaning = meaning_of(status);
        expect_error(meaning.code, {call, "rank=0", meaning.name, meaning.meaning, meaning.remedy},
                     [] { standin_step(1).step(0, 1.0F); });
    }
    StandinRuntime runtime;
    runtime.plant("nrt_execute 0 1 status=1005");
    LoadedStep step = standin_step(1);
    expect_error(ErrorCode::device, {"1005"}, [&] { step.step(0, 1.0F); });
    EXPECT_EQ(step.step(0, 1.0F)[0], 1.0F);
}

// Fault F145: after such a status nothing is computed any more, and the process ends when its clients had their answer.
TEST(NeuronDeviceDeathTest, F145_AFatalStatusEndsTheDeviceAndSoonTheProcess) {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    for (const char* action : {"garbage=1006", "status=101"}) {
        StandinRuntime runtime;
        runtime.plant(std::string("nrt_execute 0 2 ") + action);
        const auto step_on = [] {
            LoadedStep step = standin_step(1);
            if (step.step(0, 1.0F)[0] != 1.0F) std::exit(1);
            for (int32_t row = 1; row < 3; ++row) {
                const auto error = gemmatrace::testing::thrown_error([&] { step.step(row, 1.0F); });
                std::fprintf(stderr, "answered: %s\n", error ? error->message().c_str() : "no error");
            }
            std::this_thread::sleep_for(std::chrono::seconds(100));
        };
        EXPECT_EXIT(
            step_on(), ::testing::ExitedWithCode(kWatchdogStatus),
            "answered: nrt_execute failed.*\nanswered: nrt_execute failed.*\nerror: nrt_execute failed on rank 0")
            << action;
    }
}

// Fault F143, with the runtime itself waiting.
TEST(NeuronDeviceDeathTest, F143_ARankThatHangsOrFailsAloneEndsTheProcess) {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    StandinRuntime runtime;
    NeuronOptions options = standin_options();
    options.timeout_seconds = 0.5;
    const auto step = [&] { standin_step(2, options).step(0, 1.0F); };
    runtime.plant("nrt_execute 1 1 hang");
    EXPECT_EXIT(step(), ::testing::ExitedWithCode(kWatchdogStatus),
                "step has not come back for 0.5 s: .*rank 1 in nrt_execute");
    runtime.plant("nrt_execute 1 1 status=1202");
    EXPECT_EXIT(step(), ::testing::ExitedWithCode(kWatchdogStatus),
                "nrt_execute failed on rank 1.*1202.*still_waiting: rank 0 in nrt_execute");
    runtime.plant("nrt_tensor_write 1 1 hang");
    EXPECT_EXIT(step(), ::testing::ExitedWithCode(kWatchdogStatus), "rank 1 in nrt_tensor_write");
    options.timeout_seconds = 0.1;  // a load may take ten times as long
    runtime.plant("nrt_load_collectives 0 1 status=2; nrt_load_collectives 0 2 status=2");
    EXPECT_EXIT(step(), ::testing::ExitedWithCode(kWatchdogStatus), "nrt_load_collectives failed on rank 0");
}

// The stand-in's own rules, on which the tests above rest: what it does not check cannot be shown.
TEST(StandinRuntime, HoldsItsCallersToTheRules) {
    StandinRuntime runtime;
    const NrtLibrary library = NrtLibrary::open();
    const abi::Functions& nrt = library.call();
    abi::Tensor* tensor = nullptr;
    EXPECT_THAT(nrt.nrt_tensor_allocate(0, 0, 16, "early", &tensor), ::testing::AnyOf(13, 14));
    ::setenv("NEURON_RT_VISIBLE_CORES", "0-1", 1);
    ::unsetenv("NEURON_RT_ROOT_COMM_ID");
    ASSERT_EQ(nrt.nrt_init(1, "", ""), 0);
    EXPECT_EQ(nrt.nrt_init(1, "", ""), 1) << "once a process";
    EXPECT_EQ(nrt.nrt_tensor_allocate(0, 2, 16, "no such core", &tensor), 2);
    EXPECT_EQ(nrt.nrt_tensor_allocate(0, 0, 0, "empty", &tensor), 2);
    EXPECT_EQ(nrt.nrt_tensor_allocate(0, 0, size_t{1} << 40, "vast", &tensor), 4);
    ASSERT_EQ(nrt.nrt_tensor_allocate(0, 1, 16, "x", &tensor), 0);
    uint16_t bits[8] = {};
    EXPECT_EQ(nrt.nrt_tensor_read(tensor, bits, 0, 16), 0);
    EXPECT_EQ(bits[7], 0xffff) << "fresh memory is NaN";
    EXPECT_EQ(nrt.nrt_tensor_write(tensor, bits, 8, 16), 2) << "outside";

    const std::string neff = standin::write_neff(testing::neff_content(step_module(1)));
    abi::Model* model = nullptr;
    EXPECT_EQ(nrt.nrt_load(neff.data(), neff.size() - 1, 0, -1, &model), 2);
    EXPECT_EQ(nrt.nrt_load(neff.data(), neff.size(), 5, -1, &model), 2);
    EXPECT_EQ(nrt.nrt_load_collectives(neff.data(), neff.size(), 0, -1, 0, 2, &model), 1) << "no meeting point";
    ASSERT_EQ(nrt.nrt_load(neff.data(), neff.size(), 0, -1, &model), 0);
    abi::TensorSet *inputs = nullptr, *outputs = nullptr;
    ASSERT_EQ(nrt.nrt_allocate_tensor_set(&inputs), 0);
    ASSERT_EQ(nrt.nrt_allocate_tensor_set(&outputs), 0);
    EXPECT_EQ(nrt.nrt_execute(model, inputs, outputs), 1002) << "inputs are missing";
    const auto add = [&](abi::TensorSet* set, const char* name, int32_t core, size_t bytes) {
        abi::Tensor* added = nullptr;
        ASSERT_EQ(nrt.nrt_tensor_allocate(0, core, bytes, name, &added), 0);
        const std::vector<std::byte> zeros(bytes);
        ASSERT_EQ(nrt.nrt_tensor_write(added, zeros.data(), 0, bytes), 0);
        ASSERT_EQ(nrt.nrt_add_tensor_to_tensor_set(set, name, added), 0);
    };
    add(inputs, "x", 0, 16);
    add(inputs, "row", 0, 4);
    add(inputs, "rank", 0, 4);
    add(inputs, "kv.must_alias_input", 0, 128);
    add(outputs, "total", 0, 16);
    EXPECT_EQ(nrt.nrt_execute(model, inputs, outputs), 2) << "the aliased output is missing";
    add(outputs, "kv", 0, 128);
    EXPECT_EQ(nrt.nrt_execute(model, inputs, outputs), 2) << "it is another tensor";
    add(inputs, "x", 1, 16);
    EXPECT_EQ(nrt.nrt_execute(model, inputs, outputs), 2) << "on another core";
    EXPECT_EQ(nrt.nrt_unload(model), 0);
    EXPECT_EQ(nrt.nrt_unload(model), 3) << "after its end";
    abi::Tensor* freed = tensor;
    nrt.nrt_tensor_free(&tensor);
    EXPECT_EQ(nrt.nrt_tensor_read(freed, bits, 0, 16), 3) << "after its end";
    nrt.nrt_close();
    EXPECT_EQ(nrt.nrt_tensor_allocate(0, 0, 16, "late", &tensor), 14);
}

// Fault F144: what killed a client whose threads had 2 MiB.
TEST(StandinRuntimeDeathTest, F144_ASmallStackCrashesInExecute) {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    const StandinRuntime runtime;
    const NrtLibrary library = NrtLibrary::open();
    EXPECT_EXIT(
        {
            pthread_attr_t attributes;
            ::pthread_attr_init(&attributes);
            ::pthread_attr_setstacksize(&attributes, size_t{2} << 20);
            pthread_t thread = {};
            const auto enter = [](void* call) -> void* {
                static_cast<const abi::Functions*>(call)->nrt_execute(nullptr, nullptr, nullptr);
                return nullptr;
            };
            ::pthread_create(&thread, &attributes, enter, const_cast<abi::Functions*>(&library.call()));
            ::pthread_join(thread, nullptr);
        },
        ::testing::KilledBySignal(SIGSEGV), "");
}

}  // namespace
}  // namespace gemmatrace::neuron
