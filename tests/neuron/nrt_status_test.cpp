// Every status that the runtime can return says what it means and what to do.
#include "neuron/nrt_status.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/file_mapping.h"

namespace gemmatrace::neuron {
namespace {

TEST(NrtStatus, EachKnownOneHasAMeaningAndARemedy) {
    std::set<int32_t> seen;
    for (const StatusMeaning& meaning : status_meanings()) {
        EXPECT_TRUE(seen.insert(meaning.status).second) << meaning.status;
        EXPECT_FALSE(std::string(meaning.name).empty()) << meaning.status;
        EXPECT_FALSE(std::string(meaning.meaning).empty()) << meaning.status;
        EXPECT_EQ(std::string(meaning.remedy).empty(), meaning.status == 0) << meaning.status;
    }
    const std::set<int32_t> published = {0,    1,    2,    3,    4,    5,    6,    7,    9,    10,
                                         11,   13,   14,   15,   101,  1002, 1003, 1004, 1005, 1006,
                                         1100, 1200, 1201, 1202, 1203, 1204, 1205, 1206};
    EXPECT_EQ(seen, published);
}

// Fault F145: garbage that follows such a status must not be answered with.
TEST(NrtStatus, F145_WhatLeavesGarbageIsFatal) {
    for (const int32_t status : {5, 6, 101, 1006, 1200, 1201, 1202, 1203, 1204, 1205, 1206}) {
        EXPECT_TRUE(meaning_of(status).is_fatal) << status;
    }
    for (const int32_t status : {1, 2, 3, 4, 9, 10, 13, 14, 1002, 1005})
        EXPECT_FALSE(meaning_of(status).is_fatal) << status;
}

// docs/neuron.md has the table as it is here: put the printed one there when it differs.
TEST(NrtStatus, TheDocumentationHasThisTable) {
    std::string table = "| status | name | meaning | remedy | ends the process |\n|---:|---|---|---|---|\n";
    for (const StatusMeaning& meaning : status_meanings()) {
        if (meaning.status == 0) continue;
        table += fmt::format("| {} | {} | {} | {} | {} |\n", meaning.status, meaning.name, meaning.meaning,
                             meaning.remedy, meaning.is_fatal ? "yes" : "");
    }
    const std::string document = read_file(GEMMATRACE_SOURCE_DIR "/docs/neuron.md", 1 << 20);
    EXPECT_NE(document.find(table), std::string::npos) << table;
}

TEST(NrtStatus, AnErrorSaysCallRankSubjectAndStatus) {
    const Error error = error_of({"nrt_execute", 1, "decode_c512"}, 1200);
    for (const char* part : {"nrt_execute", "rank 1", "of=decode_c512", "1200 (EXEC_HW_ERR_COLLECTIVES)", "Remedy"}) {
        EXPECT_THAT(error.what(), ::testing::HasSubstr(part));
    }
    EXPECT_THAT(error_of({"nrt_load"}, 8888).what(), ::testing::HasSubstr("8888 (UNKNOWN)"));
}

}  // namespace
}  // namespace gemmatrace::neuron
