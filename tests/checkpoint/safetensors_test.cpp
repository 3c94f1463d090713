// What read_safetensors_bytes believes, and that no lie of a header gets past it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/tensor_store.h"
#include "support/expect_error.h"
#include "support/safetensors_writer.h"

namespace gemmatrace::checkpoint {
namespace {

using testing::bf16_tensor;
using ::testing::ElementsAre;
using testing::expect_error;
using testing::safetensors_file;
using testing::TensorToWrite;

std::vector<StoredTensor> read(const std::string& file) {
    return read_safetensors_bytes(std::as_bytes(std::span(file)), "weights.safetensors");
}

void expect_corrupt(const std::string& file, std::vector<std::string> fragments) {
    fragments.push_back("file=weights.safetensors");
    expect_error(ErrorCode::corrupt, fragments, [&] { read(file); });
}

// A header with one tensor "a" and the given fields, before four bytes of data.
void expect_corrupt_entry(const std::string& fields, const std::vector<std::string>& fragments) {
    expect_corrupt(safetensors_file("{\"a\":{" + fields + "}}", "1234"), fragments);
}

TEST(Safetensors, GivesNamesShapesDtypesAndBytes) {
    const std::string file = safetensors_file(
        {bf16_tensor("norm", {3}, {1.0F, 2.0F, -0.5F}), {"ids", "I64", {1, 2}, std::string(16, '\1')}});
    const auto tensors = read(file);
    ASSERT_EQ(tensors.size(), 2U);
    EXPECT_EQ(tensors[0].name, "norm");
    EXPECT_EQ(tensors[0].dtype, Dtype::bf16);
    EXPECT_THAT(tensors[0].shape, ElementsAre(3));
    EXPECT_EQ(tensors[0].data.size(), 6U);
    EXPECT_EQ(static_cast<int>(tensors[0].data[1]), 0x3f);  // the upper byte of 1.0
    EXPECT_EQ(tensors[1].dtype, Dtype::i64);
    EXPECT_THAT(tensors[1].shape, ElementsAre(1, 2));
    EXPECT_EQ(tensors[1].data.size(), 16U);
}

TEST(Safetensors, GivesTensorsInTheOrderOfTheirDataWhateverTheHeaderSays) {
    const auto tensors = read(safetensors_file(
        R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]},"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
        "1234"));
    ASSERT_EQ(tensors.size(), 2U);
    EXPECT_EQ(tensors[0].name, "a");
    EXPECT_EQ(tensors[1].name, "b");
}

TEST(Safetensors, KnowsEveryDtypeByNameAndSize) {
    const std::vector<std::pair<std::string, size_t>> sizes{
        {"BF16", 2}, {"F16", 2}, {"F32", 4}, {"F64", 8}, {"I8", 1},   {"I16", 2},     {"I32", 4},    {"I64", 8},
        {"U8", 1},   {"U16", 2}, {"U32", 4}, {"U64", 8}, {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};
    for (const auto& [name, bytes] : sizes) {
        const auto tensors = read(safetensors_file({{"t", name, {3}, std::string(3 * bytes, 'x')}}));
        ASSERT_EQ(tensors.size(), 1U) << name;
        EXPECT_EQ(dtype_name(tensors[0].dtype), name);
        EXPECT_EQ(dtype_bytes(tensors[0].dtype), bytes);
    }
}

TEST(Safetensors, AcceptsScalarsEmptyTensorsMetadataAndPadding) {
    const auto tensors = read(
        safetensors_file(R"({"__metadata__":{"format":"pt"},"scalar":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                         R"("empty":{"dtype":"F32","shape":[0,5],"data_offsets":[4,4]}}   )",
                         "1234"));
    ASSERT_EQ(tensors.size(), 2U);
    EXPECT_TRUE(tensors[0].shape.empty());
    EXPECT_EQ(tensors[1].data.size(), 0U);
    EXPECT_TRUE(read(safetensors_file("{}", "")).empty());
}

TEST(Safetensors, DataMayLieAtAnyAddress) {
    const auto tensors = read(safetensors_file(
        R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}} )",
        std::string("\7\0\0\0\0", 5)));
    EXPECT_EQ(tensors[1].data.size(), 4U);
    EXPECT_EQ(tensors[1].data.data() - tensors[0].data.data(), 1);
}

TEST(Safetensors, AFileCutAtAnyByteIsCorruptAndNeverRead) {
    const std::string file =
        safetensors_file({bf16_tensor("layers.0.layer_scalar", {1}, {0.5F}), bf16_tensor("b", {2, 2}, {1, 2, 3, 4})});
    for (size_t length = 0; length < file.size(); ++length) {
        SCOPED_TRACE(length);
        // A copy of exactly this length, so that a sanitizer sees any read behind it.
        expect_corrupt(std::string(file.data(), length), {"Remedy: "});
    }
    EXPECT_EQ(read(file).size(), 2U);
}

TEST(Safetensors, RefusesAHeaderLengthThatCannotBe) {
    const auto with_length = [](uint64_t length) {
        std::string file(16, '{');
        for (int byte = 0; byte < 8; ++byte) file[byte] = static_cast<char>(length >> (8 * byte));
        return file;
    };
    expect_corrupt(with_length(9), {"claims 9 bytes", "has 8"});
    expect_corrupt(with_length(100'000'001), {"more than the 100000000 allowed"});
    expect_corrupt(with_length(100'000'000'000), {"claims 100000000000 bytes"});  // "a header of 100 GB"
    expect_corrupt(with_length(~uint64_t{0}), {"18446744073709551615"});
    expect_corrupt(with_length(~uint64_t{0} - 7), {"claims"});  // length + 8 would wrap to 0
}

TEST(Safetensors, RefusesAHeaderThatIsNoObjectOfEntries) {
    expect_corrupt(safetensors_file("", ""), {"not a JSON object"});
    expect_corrupt(safetensors_file("[]", ""), {"not a JSON object"});
    expect_corrupt(safetensors_file("{", ""), {"not valid JSON"});
    expect_corrupt(safetensors_file("{} x", ""), {"not valid JSON"});
    expect_corrupt(safetensors_file(std::string("{}\0", 3), ""), {"not valid JSON"});
    expect_corrupt(safetensors_file("{\"\xff\":1}", ""), {"not valid JSON"});
    expect_corrupt(safetensors_file(R"({"a":1})", ""), {"tensor=a", "a number instead of an entry"});
    expect_corrupt(safetensors_file(R"({"a":null})", ""), {"tensor=a", "null"});
    expect_corrupt(safetensors_file(R"({"a":"BF16"})", ""), {"tensor=a", "a string"});
    expect_corrupt(safetensors_file(R"({"a":[]})", ""), {"tensor=a", "a list"});
    expect_corrupt(safetensors_file(R"({"__metadata__":{"format":7}})", ""), {"a number"});
    expect_corrupt(safetensors_file(R"({"__metadata__":{"format":{}}})", ""), {"an object"});
}

TEST(Safetensors, ADeeplyNestedHeaderIsRefusedAtOnce) {
    expect_corrupt(safetensors_file("{\"a\":" + std::string(1'000'000, '['), ""), {"a list"});
    std::string objects;
    for (int depth = 0; depth < 100'000; ++depth) objects += "{\"a\":";
    expect_corrupt(safetensors_file(objects, ""), {"an object"});
}

TEST(Safetensors, RefusesMissingDoubledAndStrangeFields) {
    expect_corrupt_entry(R"("shape":[4],"data_offsets":[0,4])", {"does not state dtype", "tensor=a"});
    expect_corrupt_entry(R"("dtype":"U8","data_offsets":[0,4])", {"does not state shape"});
    expect_corrupt_entry(R"("dtype":"U8","shape":[4])", {"does not state data_offsets"});
    expect_corrupt_entry(R"("dtype":"U8","dtype":"I8","shape":[4],"data_offsets":[0,4])", {"dtype twice"});
    expect_corrupt_entry(R"("dtype":"U8","shape":[4],"shape":[4],"data_offsets":[0,4])", {"shape twice"});
    expect_corrupt_entry(R"("dtype":"U8","shape":[4],"data_offsets":[0,4],"strides":[1])", {"strides"});
    expect_corrupt_entry(R"("dtype":7,"shape":[4],"data_offsets":[0,4])", {"a number where dtype stands"});
    expect_corrupt_entry(R"("dtype":"U8","shape":"4","data_offsets":[0,4])", {"a string where shape stands"});
    expect_corrupt_entry(R"("dtype":"U8","shape":[-4],"data_offsets":[0,4])", {"a negative number"});
    expect_corrupt_entry(R"("dtype":"U8","shape":[4.0],"data_offsets":[0,4])", {"no 64-bit integer"});
    expect_corrupt_entry(R"("dtype":"U8","shape":[1e400],"data_offsets":[0,4])", {"not valid JSON"});
    expect_corrupt_entry(R"("dtype":"U8","shape":[[4]],"data_offsets":[0,4])", {"a list where shape stands"});
    expect_corrupt_entry(R"("dtype":"U8","shape":[true],"data_offsets":[0,4])", {"true or false"});
    expect_corrupt_entry(R"("dtype":"U8","shape":[4],"data_offsets":[0])", {"not a pair"});
    expect_corrupt_entry(R"("dtype":"U8","shape":[4],"data_offsets":[0,4,4])", {"not a pair"});
}

TEST(Safetensors, RefusesANameThatStandsTwice) {
    expect_corrupt(safetensors_file(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                                    R"("a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
                                    "1234"),
                   {"names this tensor twice", "tensor=a"});
}

TEST(Safetensors, RefusesUnknownDtypesAndSaysWhichAreNotRead) {
    expect_corrupt_entry(R"("dtype":"BF17","shape":[2],"data_offsets":[0,4])", {"unknown dtype"});
    expect_corrupt_entry(R"("dtype":"bf16","shape":[2],"data_offsets":[0,4])", {"unknown dtype"});
    for (const std::string dtype : {"F4", "F6_E2M3", "F8_E8M0", "C64"}) {
        const std::string header = R"({"a":{"dtype":")" + dtype + R"(","shape":[8],"data_offsets":[0,4]}})";
        expect_error(ErrorCode::unsupported, {dtype, "tensor=a"}, [&] { read(safetensors_file(header, "1234")); });
    }
}

TEST(Safetensors, RefusesOffsetsThatAreBackwardsOutsideOrOfTheWrongLength) {
    expect_corrupt_entry(R"("dtype":"U8","shape":[4],"data_offsets":[4,0])", {"backwards"});
    expect_corrupt_entry(R"("dtype":"U8","shape":[5],"data_offsets":[0,5])", {"byte 5, but the file has 4"});
    expect_corrupt_entry(R"("dtype":"U8","shape":[4],"data_offsets":[18446744073709551612,18446744073709551615])",
                         {"the file has 4"});
    expect_corrupt_entry(R"("dtype":"BF16","shape":[4],"data_offsets":[0,4])", {"needs 8 bytes", "give 4"});
    expect_corrupt_entry(R"("dtype":"U8","shape":[3],"data_offsets":[0,4])", {"needs 3 bytes", "give 4"});
}

TEST(Safetensors, RefusesShapesWhoseSizeOverflows) {
    expect_corrupt_entry(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,4])", {"too large"});
    expect_corrupt_entry(R"("dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,4])", {"too large"});
    expect_corrupt_entry(R"("dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,4])", {"too large"});
    expect_corrupt_entry(R"("dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,4])", {"no 64-bit integer"});
    // 2^64 + 4 elements would wrap to the four that are there.
    expect_corrupt_entry(R"("dtype":"U8","shape":[4,4611686018427387905],"data_offsets":[0,4])", {"too large"});
}

TEST(Safetensors, RefusesOverlapsHolesAndTrailingBytes) {
    const auto two = [](const std::string& first, const std::string& second) {
        return safetensors_file(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":)" + first +
                                    R"(},"b":{"dtype":"U8","shape":[2],"data_offsets":)" + second + "}}",
                                "1234");
    };
    EXPECT_EQ(read(two("[0,2]", "[2,4]")).size(), 2U);
    expect_corrupt(two("[0,2]", "[1,3]"), {"overlaps", "tensor=b"});
    expect_corrupt(two("[0,2]", "[0,2]"), {"overlaps"});
    expect_corrupt(two("[1,3]", "[2,4]"), {"1 bytes before its data", "tensor=a"});
    expect_corrupt_entry(R"("dtype":"U8","shape":[2],"data_offsets":[0,2])", {"2 bytes at the end"});
    expect_corrupt_entry(R"("dtype":"U8","shape":[2],"data_offsets":[2,4])", {"2 bytes before its data"});
    expect_corrupt(safetensors_file("{}", "x"), {"1 bytes at the end"});
}

TEST(Safetensors, SaysWhenAFileIsAGitLfsPointer) {
    expect_corrupt("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", {"git lfs pull"});
}

TEST(Safetensors, ANameCannotWriteToTheTerminalThroughAnError) {
    const std::string name = R"(\u001b[2J)" + std::string(5000, 'n');
    const auto error = testing::thrown_error([&] { read(safetensors_file("{\"" + name + "\":1}", "")); });
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(std::string(error->what()).find('\x1b'), std::string::npos);
    EXPECT_LT(std::string(error->what()).size(), 1000U);
}

}  // namespace
}  // namespace gemmatrace::checkpoint
