// Gemma's calls become names and JSON arguments, or nothing when anything about them is in doubt.
#include "text/reply_call.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gemmatrace::text {
namespace {

constexpr std::string_view kQuoteToken = "<|\"|>";

// A call written with the quote token as text; "" when it is none.
std::string call_as_json(std::string_view written) {
    std::string text;
    std::vector<size_t> quotes;
    for (size_t at = 0; at < written.size();) {
        const bool is_quote = written.substr(at).starts_with(kQuoteToken);
        if (is_quote) quotes.push_back(text.size());
        text += is_quote ? '"' : written[at];
        at += is_quote ? kQuoteToken.size() : 1;
    }
    const std::optional<ReplyCall> call = parse_reply_call(text, quotes);
    if (!call) return {};
    EXPECT_TRUE(nlohmann::ordered_json::accept(call->arguments)) << call->arguments;
    return call->name + call->arguments;
}

TEST(reply_call, F082_values_are_typed_by_their_syntax) {
    EXPECT_EQ(call_as_json("call:f{}"), "f{}");
    EXPECT_EQ(call_as_json("call:get_weather{city:<|\"|>Paris<|\"|>,days:2}"),
              R"(get_weather{"city":"Paris","days":2})");
    EXPECT_EQ(call_as_json("call:f{a:true,b:false,c:null,d:-1.5e+3,e:0,f:[],g:{},h:<|\"|><|\"|>,i:<|\"|>1<|\"|>}"),
              R"(f{"a":true,"b":false,"c":null,"d":-1.5e+3,"e":0,"f":[],"g":{},"h":"","i":"1"})");
}

TEST(reply_call, F085_values_nest) {
    EXPECT_EQ(call_as_json("call:edit{path:<|\"|>a.py<|\"|>,edits:[{old:<|\"|>x<|\"|>,new:[1,[2,{k:null}]]},{}]}"),
              R"(edit{"path":"a.py","edits":[{"old":"x","new":[1,[2,{"k":null}]]},{}]})");
}

TEST(reply_call, F081_a_string_between_quote_tokens_holds_any_character) {
    EXPECT_EQ(call_as_json("call:f{s:<|\"|>a \"b\" 'c' \\n {d}, [e]: <|turn <| ☃😀\n\t<|\"|>,t:1}"),
              "f{\"s\":\"a \\\"b\\\" 'c' \\\\n {d}, [e]: <|turn <| ☃😀\\n\\t\",\"t\":1}");
    EXPECT_EQ(call_as_json("call:f{s:<|\"|>ends in a backslash\\<|\"|>}"), R"(f{"s":"ends in a backslash\\"})");
    EXPECT_EQ(call_as_json(std::string("call:f{s:<|\"|>\0\x1f<|\"|>}", 22)), R"(f{"s":"\u0000\u001f"})");
}

TEST(reply_call, numbers_keep_every_digit_the_model_wrote) {
    EXPECT_EQ(call_as_json("call:f{a:1.0,b:12345678901234567890123,c:0.10,d:1E5,e:-0}"),
              R"(f{"a":1.0,"b":12345678901234567890123,"c":0.10,"d":1E5,"e":-0})");
}

TEST(reply_call, other_ways_of_writing_that_leave_no_doubt_are_read) {
    EXPECT_EQ(call_as_json("call:f{\"a\":\"x\",'b':'y',<|\"|>c<|\"|>:1}"), R"(f{"a":"x","b":"y","c":1})");
    EXPECT_EQ(call_as_json("call:f{a:True,b:False,c:None}"), R"(f{"a":true,"b":false,"c":null})");
    EXPECT_EQ(call_as_json("call:f{a:[1,2,],b:{c:1,},}"), R"(f{"a":[1,2],"b":{"c":1}})");
    EXPECT_EQ(call_as_json(" call: f {\n  a : [ 1 , 2 ] ,\t\"b\" : \"c\" \n} \n"), R"(f{"a":[1,2],"b":"c"})");
    EXPECT_EQ(call_as_json("call:f{a key:1,$b:2,c-d.e/f:3,größe:4}"), R"(f{"a key":1,"$b":2,"c-d.e/f":3,"größe":4})");
    EXPECT_EQ(call_as_json("call:files.read:v2/x-y{}"), "files.read:v2/x-y{}");
}

TEST(reply_call, strings_in_plain_quotes_have_the_escapes_of_json) {
    EXPECT_EQ(call_as_json(R"(call:f{a:"\"\\\/\b\f\n\r\t",b:'it\'s "so"'})"),
              R"(f{"a":"\"\\/\b\f\n\r\t","b":"it's \"so\""})");
    EXPECT_EQ(call_as_json(R"(call:f{a:"\u00e9\ud83d\ude00"})"), R"(f{"a":"é😀"})");
    EXPECT_EQ(call_as_json(R"(call:f{a:"\ud83d",b:"\ud83d\u0041",c:"\ude00"})"), R"(f{"a":"�","b":"�A","c":"�"})");
    EXPECT_EQ(call_as_json(R"(call:f{a:"\d+\w"})"), R"(f{"a":"\\d+\\w"})");
    EXPECT_EQ(call_as_json("call:f{a:\"two\nlines\"}"), R"(f{"a":"two\nlines"})");
}

TEST(reply_call, of_a_key_given_twice_the_last_value_counts) {
    EXPECT_EQ(call_as_json("call:f{a:1,b:2,\"a\":3}"), R"(f{"a":3,"b":2})");
}

TEST(reply_call, F089_what_is_broken_is_no_call) {
    for (const char* text : {"",
                             "call",
                             "call:",
                             "call:f",
                             "call:f{",
                             "call:f{a",
                             "call:f{a:",
                             "call:f{a:1",
                             "call:f{a:1,",
                             "call:f{a:[1}",
                             "call:f{a:[1]",
                             "call:f{a:{b:1}",
                             "call:f}",
                             "call:f{}}",
                             "call:f{} and more",
                             "call:f{}call:g{}",
                             "call:{a:1}",
                             "call:two words{}",
                             "call:f(){}",
                             "f{}",
                             "Call:f{}",
                             "{\"name\":\"f\",\"arguments\":{}}",
                             "call:f{a}",
                             "call:f{:1}",
                             "call:f{,}",
                             "call:f{a:1,,b:2}",
                             "call:f{a:1 b:2}",
                             "call:f{a:,b:1}",
                             "call:f{a:[,]}",
                             "call:f{a:[1 2]}",
                             "call:f{a=1}",
                             "call:f[]",
                             "call:f{a:Paris}",
                             "call:f{a:undefined}",
                             "call:f{a:truest}",
                             "call:f{a:TRUE}",
                             "call:f{a:(1)}"}) {
        EXPECT_EQ(call_as_json(text), "") << text;
    }
}

TEST(reply_call, numbers_that_json_does_not_know_are_no_values) {
    for (const char* number :
         {"NaN",  "Infinity", "-Infinity", "-",     "+1",   "01",    "-01",    "007", ".5",  "1.",
          "1.e2", "1e",       "1e+",       "1_000", "0x10", "1e999", "-1e999", "1,5", "--1", "1-2"}) {
        EXPECT_EQ(call_as_json("call:f{a:" + std::string(number) + "}"), "") << number;
    }
}

TEST(reply_call, F081_quote_tokens_and_plain_quotes_do_not_close_each_other) {
    EXPECT_EQ(call_as_json("call:f{a:<|\"|>x\"}"), "");
    EXPECT_EQ(call_as_json("call:f{a:\"x<|\"|>}"), "");
    EXPECT_EQ(call_as_json("call:f{a:\"x<|\"|>y\"}"), "");
    EXPECT_EQ(call_as_json("call:f{a:\"x\\<|\"|>y\"}"), "");
    EXPECT_EQ(call_as_json("call:f{a:'x}"), "");
    EXPECT_EQ(call_as_json("call:f{a:<|\"|>x}"), "");
    EXPECT_EQ(call_as_json("call:f{a:<|\"|>x<|\"|>y<|\"|>}"), "");
    EXPECT_EQ(call_as_json("call:f<|\"|>{}"), "");
    EXPECT_EQ(call_as_json(R"(call:f{a:"\u12"})"), "");
    EXPECT_EQ(call_as_json(R"(call:f{a:"\u12zz"})"), "");
    EXPECT_EQ(call_as_json(R"(call:f{a:"x\)"), "");
}

TEST(reply_call, depth_and_the_length_of_a_name_have_limits) {
    const auto nested = [](size_t depth) {
        return "call:f{a:" + std::string(depth - 1, '[') + "1" + std::string(depth - 1, ']') + "}";
    };
    EXPECT_NE(call_as_json(nested(kMaxReplyCallDepth)), "");
    EXPECT_EQ(call_as_json(nested(kMaxReplyCallDepth + 1)), "");
    EXPECT_EQ(call_as_json(nested(1000000)), "");
    EXPECT_NE(call_as_json("call:" + std::string(256, 'f') + "{}"), "");
    EXPECT_EQ(call_as_json("call:" + std::string(257, 'f') + "{}"), "");
}

TEST(reply_call, text_that_is_not_utf8_still_becomes_json) {
    EXPECT_EQ(call_as_json("call:f{a:<|\"|>x\xff<|\"|>}"), R"(f{"a":"x�"})");
}

}  // namespace
}  // namespace gemmatrace::text
