// A schema's grammar takes texts that satisfy the schema, in the form that the documentation states, and no others.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "engine/constraint/grammar_matches.h"

namespace gemmatrace::engine {
namespace {

void expect_taken(std::string_view schema, const std::vector<std::string>& texts) {
    const GrammarPtr grammar = schema_grammar(schema);
    for (const std::string& text : texts) EXPECT_TRUE(takes(grammar, text)) << schema << " should take " << text;
}

void expect_refused(std::string_view schema, const std::vector<std::string>& texts) {
    const GrammarPtr grammar = schema_grammar(schema);
    for (const std::string& text : texts) EXPECT_FALSE(takes(grammar, text)) << schema << " should not take " << text;
}

TEST(SchemaTest, every_json_value_is_taken_where_the_schema_says_nothing) {
    const std::vector<std::string> values{"null",
                                          "true",
                                          "-0.5e+10",
                                          "\"\"",
                                          "\"a\\u00e9\\n\"",
                                          "[]",
                                          "{}",
                                          "[1,[2, {\n  \"a\": null}]]",
                                          "{\"\":0,\"b\": \"c\"}",
                                          "\"\xf0\x9f\x99\x82\""};
    expect_taken("{}", values);
    expect_taken("true", values);
    expect_refused("{}", {"",
                          "nul",
                          "01",
                          "+1",
                          "1.",
                          ".5",
                          "'a'",
                          "[1,]",
                          "{\"a\"}",
                          "{a:1}",
                          "\"a",
                          "\"\x01\"",
                          " 1",
                          "1 ",
                          "\"\\x\"",
                          "\"\\ud800\"",
                          "\"\\ud800\\u0041\"",
                          "\"\xff\"",
                          "\"\xc0\x80\"",
                          "\"\xed\xa0\x80\"",
                          "\"\xf5\x80\x80\x80\""});
    expect_taken("{}", {"\"\\ud83d\\ude42\"", "\"\\uD7FF\""});
}

TEST(SchemaTest, types_are_kept_apart) {
    expect_taken(R"({"type":"integer"})", {"0", "-7", "123456789012345678"});
    expect_refused(R"({"type":"integer"})", {"1.0", "-0", "1e3", "\"1\"", "null", "1234567890123456789"});
    expect_taken(R"({"type":["string","null"]})", {"null", "\"null\""});
    expect_refused(R"({"type":["string","null"]})", {"0", "true"});
    expect_taken(R"({"type":"boolean"})", {"true", "false"});
    expect_refused(R"({"type":"boolean"})", {"null", "True"});
    expect_taken(R"({"type":["integer","number"]})", {"1.5", "2"});
}

TEST(SchemaTest, members_come_in_the_stated_order_and_only_optional_ones_are_left_out) {
    const auto schema =
        R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"null"},"c":{"type":"boolean"}},"required":["b"]})";
    expect_taken(schema, {R"({"b":null})", R"({"a":1,"b":null})", R"({"b": null, "c": true})",
                          "{\n  \"a\": 1,\n  \"b\": null,\n  \"c\": false\n}"});
    expect_refused(schema, {"{}", R"({"a":1})", R"({"b":null,"a":1})", R"({"b":null,"b":null})", R"({"b":null,"d":1})",
                            R"({"b":null,})", R"({"b":1})", R"({,"b":null})"});
}

TEST(SchemaTest, an_object_without_stated_members_takes_any_and_one_with_them_no_others) {
    expect_taken(R"({"type":"object"})", {"{}", R"({"x":[1]})"});
    expect_taken(R"({"type":"object","properties":{}})", {"{}"});
    expect_refused(R"({"type":"object","properties":{}})", {R"({"x":1})"});
    expect_taken(R"({"type":"object","properties":{"a":{}},"additionalProperties":true})",
                 {R"({"a":1,"x":2,"y":3})", R"({"x":2})", "{}"});
    expect_refused(R"({"type":"object","additionalProperties":false})", {R"({"a":1})"});
}

TEST(SchemaTest, an_additional_member_never_has_a_stated_name_however_it_is_spelled) {
    const auto schema =
        R"({"type":"object","properties":{"ab":{"type":"string"},"é":{"type":"string"}},"additionalProperties":{"type":"integer"}})";
    expect_taken(schema, {R"({"ab":"x","a":1,"abc":2,"b":3,"":4})", R"({"ac":1})", "{\"\xc3\xaa\":1}"});
    expect_refused(schema, {R"({"ab":1})", R"({"a":1,"ab":2})", R"({"\u0061b":1})", "{\"\xc3\xa9\":1}"});
}

TEST(SchemaTest, required_members_without_a_schema_of_their_own_take_the_additional_one) {
    const auto schema = R"({"type":"object","required":["k"],"additionalProperties":{"type":"integer"}})";
    expect_taken(schema, {R"({"k":1})", R"({"k":1,"l":2})"});
    expect_refused(schema, {"{}", R"({"l":2})", R"({"k":"x"})"});
    expect_taken(R"({"required":["k"]})", {R"({"k":[]})"});
}

TEST(SchemaTest, arrays_keep_to_their_length_and_their_first_elements) {
    expect_taken(R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3})", {"[1]", "[1, 2,\n3]"});
    expect_refused(R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3})",
                   {"[]", "[1,2,3,4]", "[\"a\"]", "[1,2,]"});
    const auto tuple =
        R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":{"type":"null"}})";
    expect_taken(tuple, {"[]", "[1]", "[1,\"a\"]", "[1,\"a\",null,null]"});
    expect_refused(tuple, {"[\"a\"]", "[1,null]", "[1,\"a\",2]"});
    expect_taken(R"({"type":"array","prefixItems":[{"type":"integer"}],"items":false,"minItems":1})", {"[1]"});
    expect_refused(R"({"type":"array","maxItems":0})", {"[1]"});
    expect_taken(R"({"type":"array","items":false})", {"[]"});
}

TEST(SchemaTest, listed_values_are_taken_as_they_are_and_nothing_else) {
    const auto schema = R"({"enum":["a\"b",1,null,{"k":[1,2]},"é"]})";
    expect_taken(schema, {R"("a\"b")", "1", "null", R"({"k":[1,2]})", R"({"k": [1, 2]})", "\"\xc3\xa9\""});
    expect_refused(schema, {"\"a\"", "2", R"({"k":[1]})"});
    expect_taken(R"({"type":"string","enum":["a",1]})", {"\"a\""});
    expect_refused(R"({"type":"string","enum":["a",1]})", {"1"});
    expect_taken(R"({"const":{"a":{}}})", {R"({"a":{}})"});
    expect_refused(R"({"enum":[1,5,9],"minimum":2,"maximum":8})", {"1", "9"});
    expect_refused(R"({"enum":["a","abc"],"maxLength":2})", {"\"abc\""});
}

TEST(SchemaTest, strings_are_counted_in_characters_and_an_escape_is_one) {
    const auto schema = R"({"type":"string","minLength":2,"maxLength":3})";
    expect_taken(schema, {"\"ab\"", "\"\xc3\xa9\xf0\x9f\x99\x82\"", R"("\n\u0041\"")", R"("\ud83d\ude42a")"});
    expect_refused(schema, {"\"a\"", "\"abcd\"", R"("\ud83d\ude42")"});
}

TEST(SchemaTest, a_pattern_matches_anywhere_unless_it_is_tied_to_the_ends) {
    expect_taken(R"({"type":"string","pattern":"b+"})", {"\"abc\"", "\"b\"", R"("\"b\n")"});
    expect_refused(R"({"type":"string","pattern":"b+"})", {"\"\"", "\"ac\""});
    expect_taken(R"({"type":"string","pattern":"^b+$"})", {"\"bb\""});
    expect_refused(R"({"type":"string","pattern":"^b+$"})", {"\"abb\"", "\"bbc\"", "\"\""});
    expect_taken(R"s({"type":"string","pattern":"^(a|b)"})s", {"\"bxx\""});
    expect_taken(R"({"type":"string","pattern":"^[\"\\\\]{2}$"})", {R"("\"\\")"});
    expect_refused(R"({"type":"string","pattern":"^[^a]$"})", {"\"a\"", "\"\xff\"", "\"\n\""});
}

TEST(SchemaTest, a_pattern_of_one_varying_repeat_is_narrowed_to_the_length) {
    const auto schema = R"({"type":"string","pattern":"^[A-Z][a-z]*$","minLength":2,"maxLength":4})";
    expect_taken(schema, {"\"Ab\"", "\"Abcd\""});
    expect_refused(schema, {"\"A\"", "\"Abcde\""});
    EXPECT_THROW(schema_grammar(R"({"type":"string","pattern":"^a*b*$","maxLength":4})"), Error);
}

TEST(SchemaTest, formats_are_enforced) {
    expect_taken(R"({"type":"string","format":"date"})", {"\"2024-02-29\"", "\"2023-12-31\""});
    expect_refused(R"({"type":"string","format":"date"})", {"\"2023-02-29\"", "\"1900-02-29\"", "\"2023-13-01\""});
    expect_taken(R"({"type":"string","format":"date-time"})",
                 {"\"2024-02-29T23:59:59.5Z\"", "\"2024-01-01T00:00:00+01:00\""});
    expect_refused(R"({"type":"string","format":"date-time"})", {"\"2024-01-01\"", "\"2024-01-01T24:00:00Z\""});
    expect_taken(R"({"type":"string","format":"ipv4"})", {"\"0.0.0.0\"", "\"255.249.10.1\""});
    expect_refused(R"({"type":"string","format":"ipv4"})", {"\"256.0.0.1\"", "\"1.2.3\"", "\"01.2.3.4\""});
    expect_taken(R"({"type":"string","format":"uuid"})", {"\"123e4567-e89b-12d3-a456-426614174000\""});
}

TEST(SchemaTest, alternatives_keep_what_stands_beside_them) {
    const auto schema =
        R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"anyOf":[{"required":["a"]},{"required":["b"]}]})";
    expect_taken(schema, {R"({"a":1})", R"({"b":1})", R"({"a":1,"b":2})"});
    expect_refused(schema, {"{}"});
    expect_taken(R"({"anyOf":[{"type":"integer"},{"type":"null"}]})", {"1", "null"});
}

TEST(SchemaTest, one_of_is_taken_where_its_branches_exclude_each_other) {
    const auto tagged = R"({"oneOf":[
        {"type":"object","properties":{"kind":{"const":"x"},"v":{"type":"integer"}},"required":["kind","v"]},
        {"type":"object","properties":{"kind":{"const":"y"}},"required":["kind"]}]})";
    expect_taken(tagged, {R"({"kind":"x","v":1})", R"({"kind":"y"})"});
    expect_refused(tagged, {R"({"kind":"x"})"});
    expect_taken(R"({"oneOf":[{"type":"string"},{"type":"integer"}]})", {"1", "\"a\""});
    EXPECT_THROW(schema_grammar(R"({"oneOf":[{"type":"integer"},{"type":"number"}]})"), Error);
    EXPECT_THROW(schema_grammar(R"({"oneOf":[{"type":"string"},{"minimum":3}]})"), Error);
}

TEST(SchemaTest, all_of_is_merged) {
    const auto schema = R"({"allOf":[
        {"type":"object","properties":{"a":{"type":"number","minimum":1}},"required":["a"]},
        {"properties":{"a":{"type":"integer"},"b":{"type":"null"}},"required":["b"]}]})";
    expect_taken(schema, {R"({"a":1,"b":null})"});
    expect_refused(schema, {R"({"a":1})", R"({"a":1.5,"b":null})", R"({"a":0,"b":null})"});
    const auto closed = R"({"allOf":[{"type":"object","properties":{"a":{}},"additionalProperties":false},
                                     {"properties":{"b":{}}}]})";
    expect_taken(closed, {R"({"a":1})"});
    expect_refused(closed, {R"({"b":1})"});
    expect_taken(R"({"allOf":[{"$ref":"#/$defs/s"}],"maxLength":2,"$defs":{"s":{"type":"string","maxLength":5}}})",
                 {"\"ab\""});
    expect_refused(R"({"allOf":[{"enum":[1,2]},{"enum":[2,3]}]})", {"1", "3"});
}

TEST(SchemaTest, F085_references_may_be_recursive) {
    const auto tree = R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object",
        "properties":{"v":{"type":"integer"},"children":{"type":"array","items":{"$ref":"#/$defs/node"}}},
        "required":["v","children"]}}})";
    expect_taken(tree,
                 {R"({"v":1,"children":[]})", R"({"v":1,"children":[{"v":2,"children":[{"v":3,"children":[]}]}]})"});
    expect_refused(tree, {R"({"v":1})", R"({"v":1,"children":[{"v":2}]})"});
    expect_taken(R"({"type":"array","items":{"$ref":"#"}})", {"[]", "[[],[[]]]"});
}

TEST(SchemaTest, nesting_ends_at_the_limit_with_a_text_that_can_be_finished) {
    ConstraintLimits limits;
    limits.max_nesting = 4;
    const GrammarPtr grammar =
        compile_json_schema(nlohmann::ordered_json::parse(R"({"type":"array","items":{"$ref":"#"}})"), limits);
    EXPECT_TRUE(takes(grammar, "[[[[[]]]]]"));
    EXPECT_FALSE(takes(grammar, "[[[[[[]]]]]]"));
    EXPECT_EQ(match_grammar(grammar, "[[[[[[").taken, 5U);
}

TEST(SchemaTest, white_space_is_bounded_everywhere) {
    const GrammarPtr grammar = schema_grammar(R"({"type":"array","items":{"type":"integer"}})");
    EXPECT_TRUE(takes(grammar, "[\n    1,\n    2\n]"));
    EXPECT_TRUE(takes(grammar, "[ 1, 2 ]"));
    for (const char* text : {" [1]", "[1] ", "[  1]", "[1 ,2]", "[\n\n1]", "[ ]", "[\t1]", "[1\r]"}) {
        EXPECT_FALSE(takes(grammar, text)) << text;
    }
    EXPECT_EQ(match_grammar(grammar, "[\n" + std::string(40, ' ')).taken, 18U);
}

TEST(SchemaTest, F097_the_first_byte_opens_the_value) {
    for (const char* text : {"```json", "Here", "\n", " {"}) {
        EXPECT_EQ(match_grammar(compile_json_object(ConstraintLimits{}), text).taken, 0U) << text;
    }
    EXPECT_TRUE(takes(compile_json_object(ConstraintLimits{}), R"({"a":{"b":[]}})"));
    EXPECT_FALSE(takes(compile_json_object(ConstraintLimits{}), "[]"));
}

}  // namespace
}  // namespace gemmatrace::engine
