// The runtime's library opened, with all that it may have and lack.
#include "neuron/nrt_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "neuron/standin_programs.h"
#include "support/expect_error.h"

namespace gemmatrace::neuron {
namespace {

using gemmatrace::testing::expect_error;
using testing::StandinRuntime;

TEST(NrtLibrary, SaysItsVersionItsCoresAndItsInstance) {
    const StandinRuntime runtime;
    const NrtLibrary library = NrtLibrary::open();
    EXPECT_EQ(library.version_text(), "2.33.10");
    EXPECT_EQ(library.core_count(), 2U);
    EXPECT_EQ(library.instance().family, abi::kFamilyInf2);
    EXPECT_STREQ(library.instance().arch_name, "NCv2");
    EXPECT_THAT(library.missing(), ::testing::IsEmpty());
}

// Fault F146: structs grew from one release to the next.
TEST(NrtLibrary, F146_AnOlderOneHasLessAndIsReadAllTheSame) {
    StandinRuntime runtime("old");
    runtime.set("GEMMATRACE_STANDIN_NRT_VERSION", "2.26.1");
    const NrtLibrary library = NrtLibrary::open();
    EXPECT_EQ(library.core_count(), 2U);
    EXPECT_EQ(library.instance().family, abi::kFamilyInf2);
    EXPECT_STREQ(library.instance().arch_name, "");
    EXPECT_THAT(library.missing(), ::testing::Contains("nrt_get_vnc_memory_stats"));
}

// Fault F041: releases that do not go together.
TEST(NrtLibrary, F041_WhatIsNotThereOrTooOldIsRefusedWithARemedy) {
    StandinRuntime runtime("broken");
    expect_error(ErrorCode::mismatch, {"nrt_load_collectives", "library="}, [] { NrtLibrary::open(); });
    runtime.set(kLibraryVariable, "/nowhere/libnrt.so.1");
    expect_error(ErrorCode::not_found, {"/nowhere/libnrt.so.1", kLibraryVariable}, [] { NrtLibrary::open(); });
    runtime.set(kLibraryVariable, std::string(GEMMATRACE_STANDIN_NRT_FOLDER) + "/all/libnrt.so.1");
    for (const char* version : {"2.24.9", "3.0.0"}) {
        runtime.set("GEMMATRACE_STANDIN_NRT_VERSION", version);
        expect_error(ErrorCode::mismatch, {version}, [] { NrtLibrary::open(); });
    }
}

}  // namespace
}  // namespace gemmatrace::neuron
