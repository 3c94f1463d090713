// The JSON door: limits before work, and errors that say where.
#include "base/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/expect_error.h"
#include "support/safetensors_writer.h"
#include "support/temporary_folder.h"

namespace gemmatrace {
namespace {

using testing::expect_error;

nlohmann::ordered_json parse(std::string_view text, const JsonLimits& limits = {}) {
    return parse_json(text, "here", ErrorCode::bad_request, limits);
}

TEST(Json, KeepsTheOrderOfKeysAndTheLastOfEqualOnes) {
    EXPECT_EQ(dump_json(parse(R"({"b": 1, "a": [true, null, "x"]})")), R"({"b":1,"a":[true,null,"x"]})");
    EXPECT_EQ(parse(R"({"a": 1, "a": 2})")["a"], 2);
}

TEST(Json, ErrorsCarryTheCallersCodeAndThePlace) {
    expect_error(ErrorCode::bad_request, {"in=here", "line=2", "column=5", "not valid JSON"},
                 [] { parse("{\n\"a\" 1}"); });
    expect_error(ErrorCode::bad_request, {"empty"}, [] { parse(""); });
    expect_error(ErrorCode::corrupt, {"not valid JSON"}, [] { parse_json("{", "f", ErrorCode::corrupt); });
    for (const std::string text : {"nul", "[1,]", "{\"a\":1", "\"\xff\"", "\"\\ud800\"", "01", "[1] x", "NaN", "'a'"}) {
        expect_error(ErrorCode::bad_request, {"not valid JSON"}, [&] { parse(text); });
    }
}

TEST(Json, NumbersOutsideTheRangeAreRefused) {
    expect_error(ErrorCode::bad_request, {}, [] { parse("1e999"); });
    EXPECT_EQ(parse("18446744073709551615").get<uint64_t>(), ~uint64_t{0});
    EXPECT_TRUE(parse("18446744073709551616").is_number_float());
}

TEST(Json, DepthIsLimitedBeforeParsingAndStringsDoNotCount) {
    const JsonLimits limits{1000, 3};
    EXPECT_EQ(parse("[[[1]]]", limits).size(), 1U);
    EXPECT_EQ(parse(R"(["[[[[[", "\"[[[["])", limits).size(), 2U);
    expect_error(ErrorCode::bad_request, {"deeper than 3"}, [&] { parse("[[[[1]]]]", limits); });
    expect_error(ErrorCode::bad_request, {"deeper than 64"}, [] { parse(std::string(10'000'000, '[')); });
}

TEST(Json, SizeIsLimited) {
    expect_error(ErrorCode::bad_request, {"11 bytes", "10 allowed"}, [] { parse("\"123456789\"", {10, 5}); });
}

TEST(Json, TextThatIsNotUtf8IsWrittenWithReplacements) { EXPECT_EQ(dump_json("a\xff"), "\"a\xef\xbf\xbd\""); }

TEST(Json, FilesAreNamedInErrors) {
    const testing::TemporaryFolder folder;
    expect_error(ErrorCode::not_found, {"a.json"}, [&] { read_json_file(folder / "a.json"); });
    testing::write_bytes(folder / "a.json", "[1, 2");
    expect_error(ErrorCode::corrupt, {"a.json"}, [&] { read_json_file(folder / "a.json"); });
    testing::write_bytes(folder / "a.json", "[1, 2]");
    EXPECT_EQ(read_json_file(folder / "a.json").size(), 2U);
    expect_error(ErrorCode::corrupt, {"a.json", "6 bytes"}, [&] { read_json_file(folder / "a.json", {5, 5}); });
}

}  // namespace
}  // namespace gemmatrace
