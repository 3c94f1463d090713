// What cannot be enforced is refused with the keyword and its place; lenient mode passes over it.
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "engine/constraint/grammar_matches.h"

namespace gemmatrace::engine {
namespace {

// The code, the keyword and the place of the refusal, as one text.
std::string refusal_of(const std::string& schema) {
    try {
        schema_grammar(schema);
    } catch (const Error& error) {
        std::string text(error_code_name(error.code()));
        for (const auto& [key, value] : error.context()) {
            if (key == "at" || key == "keyword") text += " " + value;
        }
        return text;
    }
    return "taken";
}

TEST(SchemaRefusalTest, a_keyword_that_cannot_be_enforced_is_named_with_its_pointer) {
    EXPECT_EQ(refusal_of(R"({"type":"object","properties":{"a/b":{"type":"array","uniqueItems":true}}})"),
              "unsupported uniqueItems #/properties/a~1b/uniqueItems");
    EXPECT_EQ(refusal_of(R"({"not":{"type":"null"}})"), "unsupported not #/not");
    EXPECT_EQ(refusal_of(R"({"anyOf":[{"type":"null"},{"patternProperties":{"^a":{}}}]})"),
              "unsupported patternProperties #/anyOf/1/patternProperties");
    EXPECT_EQ(refusal_of(R"({"type":"number","multipleOf":0.5})"), "unsupported multipleOf #/multipleOf");
    EXPECT_EQ(refusal_of(R"({"type":"string","format":"color"})"), "unsupported format #/format");
    EXPECT_EQ(refusal_of(R"({"type":"number","minimum":1e-30})"), "unsupported minimum #/minimum");
    EXPECT_EQ(refusal_of(R"({"$ref":"https://example.org/x"})"), "unsupported $ref #/$ref");
    EXPECT_EQ(refusal_of(R"({"type":"string","pattern":"(?=a)b"})"), "unsupported #/pattern");
    EXPECT_EQ(refusal_of(R"({"type":"string","maxlength":3})"), "unsupported maxlength #/maxlength");
    EXPECT_EQ(refusal_of(R"({"type":"object","minProperties":1})"), "unsupported minProperties #/minProperties");
}

TEST(SchemaRefusalTest, a_malformed_schema_is_the_callers_mistake) {
    EXPECT_EQ(refusal_of(R"({"type":"strnig"})"), "bad_request type #/type");
    EXPECT_EQ(refusal_of(R"({"type":"string","minLength":-1})"), "bad_request minLength #/minLength");
    EXPECT_EQ(refusal_of(R"({"type":"string","minLength":"3"})"), "bad_request minLength #/minLength");
    EXPECT_EQ(refusal_of(R"({"enum":[]})"), "bad_request enum #/enum");
    EXPECT_EQ(refusal_of(R"({"required":"a"})"), "bad_request required #/required");
    EXPECT_EQ(refusal_of(R"({"properties":[1]})"), "bad_request properties #/properties");
    EXPECT_EQ(refusal_of(R"({"$ref":"#/$defs/none"})"), "bad_request $ref #/$ref");
    EXPECT_EQ(refusal_of(R"({"type":"string","pattern":"(a"})"), "bad_request #/pattern");
    EXPECT_EQ(refusal_of(R"([1])"), "bad_request #");
}

TEST(SchemaRefusalTest, a_schema_that_nothing_satisfies_is_refused) {
    EXPECT_EQ(refusal_of("false"), "bad_request");
    EXPECT_EQ(refusal_of(R"({"type":"object","properties":{"self":{"$ref":"#"}},"required":["self"]})"), "bad_request");
    EXPECT_EQ(refusal_of(R"({"$ref":"#"})"), "bad_request");
    EXPECT_EQ(refusal_of(R"({"type":"integer","minimum":3,"maximum":2})"), "bad_request");
    EXPECT_EQ(refusal_of(R"({"type":"string","minLength":3,"maxLength":2})"), "bad_request");
    EXPECT_EQ(refusal_of(R"({"type":"array","prefixItems":[{}],"items":false,"minItems":2})"), "bad_request");
    EXPECT_EQ(refusal_of(R"({"allOf":[{"type":"string"},{"type":"null"}]})"), "bad_request");
    EXPECT_EQ(refusal_of(R"({"required":["a"],"additionalProperties":false})"), "bad_request");
}

TEST(SchemaRefusalTest, a_schema_that_grows_without_end_is_refused) {
    EXPECT_EQ(refusal_of(R"({"allOf":[{"$ref":"#"}]})").substr(0, 11), "bad_request");
    std::string deep = "{}";
    for (int level = 0; level < 60; ++level) deep = R"({"type":"array","items":)" + deep + "}";
    EXPECT_EQ(refusal_of(deep).substr(0, 11), "bad_request");
    // Each definition has the next one twice over, so that following them all would take 2^30 steps.
    std::string wide = R"({"$ref":"#/$defs/d0","$defs":{)";
    for (int level = 0; level < 30; ++level) {
        const std::string next = "{\"$ref\":\"#/$defs/d" + std::to_string(level + 1) + "\"}";
        wide +=
            "\"d" + std::to_string(level) + R"(":{"anyOf":[{"allOf":[)" + next + R"(]},{"allOf":[)" + next + "]}]},";
    }
    wide += R"("d30":{"type":"null"}}})";
    EXPECT_EQ(refusal_of(wide).substr(0, 11), "bad_request");
    EXPECT_EQ(refusal_of(R"({"type":"string","pattern":")" + std::string(10000, 'a') + "\"}").substr(0, 11),
              "bad_request");
    EXPECT_EQ(refusal_of(R"({"type":"object","properties":{")" + std::string(600, 'a') + "\":{}}}").substr(0, 11),
              "bad_request");
    EXPECT_EQ(refusal_of(R"({"title":")" + std::string(300000, 'a') + "\"}"), "bad_request");
}

TEST(SchemaRefusalTest, annotations_and_empty_demands_are_passed_over) {
    EXPECT_EQ(refusal_of(R"({"$schema":"x","title":"t","description":"d","default":1,"examples":[1],"deprecated":true,
                             "x-order":1,"uniqueItems":false,"patternProperties":{},"type":"integer"})"),
              "taken");
}

TEST(SchemaRefusalTest, lenient_mode_keeps_what_can_be_enforced) {
    const GrammarPtr grammar = schema_grammar(
        R"({"type":"object","properties":{"a":{"type":"string","format":"color","not":{}},"b":{"type":"number","multipleOf":0.5,"minimum":1},
            "c":{"oneOf":[{"type":"integer"},{"type":"number"}]},"d":{"$ref":"https://example.org"},"e":{"type":"integer","nullable":true},
            "f":{"type":"strnig"}},"required":["a","b","c","d","e","f"]})",
        Strictness::lenient);
    EXPECT_TRUE(takes(grammar, R"({"a":"x","b":2,"c":1.5,"d":[{}],"e":null,"f":{"g":1}})"));
    EXPECT_FALSE(takes(grammar, R"({"a":"x","b":0.5,"c":1.5,"d":[{}],"e":null,"f":1})"));
    EXPECT_FALSE(takes(grammar, R"({"a":1})"));
}

}  // namespace
}  // namespace gemmatrace::engine
