// Programs survive their files unchanged, and files that hold something else are refused by name.
#include "hlo/proto.h"

#include <gtest/gtest.h>

#include "hlo/toy_modules.h"
#include "support/expect_error.h"

namespace gemmatrace::hlo {
namespace {

using gemmatrace::testing::expect_error;
using enum ElementType;

Module read_back(const std::string& bytes) { return read_proto(std::as_bytes(std::span(bytes)), "test.pb"); }

// The proto of a small program in which one piece of bytes is another of the same length.
std::string replaced(const std::string& from, const std::string& to) {
    Builder builder("small");
    const Value x = builder.parameter("x", Shape(f32, {2, 3}));
    const Value least = builder.compare(Comparison::lt, x, builder.splat_like(x, 1.5));
    std::string bytes = write_proto(builder.finish({{"y", least}}));
    const size_t at = bytes.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    if (at != std::string::npos) bytes.replace(at, from.size(), to);
    return bytes;
}

TEST(Proto, AProgramReadBackIsTheProgramThatWasWritten) {
    for (const Module& module :
         {testing::elementwise_module(), testing::movement_module(4), testing::decode_step({})}) {
        const std::string bytes = write_proto(module);
        EXPECT_TRUE(read_back(bytes) == module) << module.name;
        EXPECT_EQ(write_proto(read_back(bytes)), bytes) << module.name;
    }
}

TEST(Proto, AnUnknownOperationIsRefusedByNameAndInstruction) {
    expect_error(ErrorCode::unsupported, {"the operation 'xompare'", "instruction=compare.3", "file=test.pb"}, [] {
        read_back(
            replaced("\x12\x07"
                     "compare",
                     "\x12\x07"
                     "xompare"));
    });
}

TEST(Proto, WhatAModuleCannotHoldIsRefused) {
    expect_error(ErrorCode::unsupported, {"the layout is not row-major", "instruction=x"},
                 [] { read_back(replaced(std::string("\x0a\x02\x01\x00", 4), std::string("\x0a\x02\x00\x01", 4))); });
    expect_error(ErrorCode::unsupported, {"element type 12"},
                 [] { read_back(replaced(std::string("\x10\x0b\x1a\x02", 4), std::string("\x10\x0c\x1a\x02", 4))); });
    expect_error(ErrorCode::corrupt, {"no direction"}, [] { read_back(replaced("LT", "XX")); });
    expect_error(ErrorCode::unsupported, {"says more than we keep"},
                 [] { read_back(write_proto(testing::decode_step({})) + "\x28\x05"); });
}

TEST(Proto, DamagedFilesAreErrorsNotCrashes) {
    expect_error(ErrorCode::corrupt, {"no HLO proto"}, [] { read_back("no proto at all"); });
    expect_error(ErrorCode::corrupt, {"entry computation"}, [] { read_back(""); });
    const std::string bytes = write_proto(testing::decode_step({}));
    expect_error(ErrorCode::corrupt, {}, [&] { read_back(bytes.substr(0, bytes.size() / 2)); });
    expect_error(ErrorCode::corrupt, {"larger than 32 MiB"},
                 [] { read_back(std::string(kLargestProtoBytes + 1, 'x')); });
}

}  // namespace
}  // namespace gemmatrace::hlo
