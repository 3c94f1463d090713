// Templates and requests that would run forever, fill the memory or overflow the stack end in one clear error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/jinja/fixture.h"

namespace gemmatrace::text {
namespace {

using ::testing::HasSubstr;

std::string repeated(std::string_view piece, int count) {
    std::string text;
    for (int round = 0; round < count; ++round) text += piece;
    return text;
}

TEST(JinjaLimits, StepsAreCounted) {
    TemplateLimits few;
    few.max_steps = 100;
    EXPECT_THAT(failure("\n{% for a in range(100) %}x{% endfor %}", {}, few), HasSubstr("within 100 steps [line=2"));
    EXPECT_EQ(render("{% for a in range(10) %}x{% endfor %}", {}, few), "xxxxxxxxxx");
    few.max_steps = 100000;
    EXPECT_THAT(failure("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}", {}, few),
                HasSubstr("the chat template did not finish within 100000 steps"));
    EXPECT_THAT(failure("{% for a in range(999) %}{% if ('x' * 99999)|upper %}{% endif %}{% endfor %}", {}, few),
                HasSubstr("did not finish"));  // long passes over text count too
}

TEST(JinjaLimits, LargeTextsAreRefusedBeforeTheyAreMade) {
    EXPECT_THAT(failure("{{ 'abc' * 1000000000000 }}"),
                HasSubstr("a text of 3000000000000 bytes; at most 67108864 are allowed"));
    EXPECT_THAT(failure("{{ 'x'.center(10 ** 15) }}"), HasSubstr("at most 67108864 are allowed"));
    EXPECT_THAT(failure("{{ '%999999999d' % 1 }}"), HasSubstr("at most 67108864 are allowed"));
    EXPECT_THAT(failure("{{ '{:>999999999}'.format(1) }}"), HasSubstr("at most 67108864 are allowed"));
    EXPECT_THAT(failure("{{ '%.999999999f' % 1 }}"), HasSubstr("precision too big"));
    EXPECT_THAT(
        failure("{% set ns = namespace(s='ab') %}{% for i in range(40) %}{% set ns.s = ns.s + ns.s %}{% endfor %}"),
        HasSubstr("at most 67108864 are allowed"));
    TemplateLimits small;
    small.max_output_bytes = 10;
    EXPECT_THAT(failure("{% for i in range(9) %}ab{% endfor %}", {}, small),
                HasSubstr("a text of 12 bytes; at most 10"));
}

TEST(JinjaLimits, MemoryIsCounted) {
    TemplateLimits small;
    small.max_value_bytes = 1 << 20;
    EXPECT_THAT(
        failure("{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l = ns.l + [i] %}{% endfor %}", {},
                small),
        HasSubstr("the chat template holds more than 1 MiB of values"));
    EXPECT_THAT(failure("{{ [1] * 1000000 }}", {}, small), HasSubstr("holds more than 1 MiB"));
    EXPECT_THAT(failure("{{ ('x' * 100000)|list }}", {}, small), HasSubstr("holds more than 1 MiB"));
    // what is no longer held does not count
    EXPECT_EQ(render("{% for i in range(99) %}{% set x = 'y' * 100000 %}{% endfor %}ok", {}, small), "ok");
}

TEST(JinjaLimits, DepthOfCallsIsBounded) {
    EXPECT_THAT(failure("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), HasSubstr("nested deeper than 200 levels"));
    EXPECT_THAT(failure("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"),
                HasSubstr("nested deeper than 200 levels"));
    EXPECT_THAT(
        failure("{% macro f() %}{{ caller() }}{% call f() %}{% endcall %}{% endmacro %}{% call f() %}{% endcall %}"),
        HasSubstr("nested deeper than 200 levels"));
    EXPECT_EQ(render("{% macro f(n) %}{{ f(n - 1) if n }}x{% endmacro %}{{ f(150)|length }}"), "151");
}

TEST(JinjaLimits, ADeepestCallWithTheDeepestExpressionsDoesNotOverflowTheStack) {
    const std::string nested =
        "{% macro f(n) %}{{ " + repeated("(1 if ", 60) + "f(n)" + repeated(")", 60) + " }}{% endmacro %}{{ f(1) }}";
    EXPECT_THAT(failure(nested), HasSubstr("nested deeper than 200 levels"));
    const std::string filters =
        "{% macro f(n) %}{{ " + repeated("[", 150) + "f(n)" + repeated("]|join", 150) + " }}{% endmacro %}{{ f(1) }}";
    EXPECT_THAT(failure(filters), HasSubstr("nested deeper than 200 levels"));
    const std::string loops =
        "{% macro f() %}" + repeated("{% for x in [1] %}{% if x %}{% with %}{% filter trim %}", 40) + "{{ f() }}" +
        repeated("{% endfilter %}{% endwith %}{% endif %}{% endfor %}", 40) + "{% endmacro %}{{ f() }}";
    EXPECT_THAT(failure(loops), HasSubstr("nested deeper than 200 levels"));
}

TEST(JinjaLimits, DepthOfTheSourceIsBounded) {
    for (const auto& [open, middle, close] : {std::tuple{"(", "1", ")"},
                                              {"[", "1", "]"},
                                              {"{1:", "1", "}"},
                                              {"not ", "1", ""},
                                              {"-", "1", ""},
                                              {"", "1", "+1"},
                                              {"", "x", ".a"},
                                              {"", "x", "[0]"},
                                              {"", "x", "|trim"},
                                              {"", "x", "()"},
                                              {"f(", "x", ")"},
                                              {"", "1", " if 1 else 2"},
                                              {"1 if 1 else ", "1", ""},
                                              {"", "1", " and 1"}}) {
        const std::string source = "{{ " + repeated(open, 100000) + middle + repeated(close, 100000) + " }}";
        EXPECT_THAT(failure(source), HasSubstr("corrupt: ")) << open << middle << close;
    }
    EXPECT_THAT(failure(repeated("{% if 1 %}", 100000)), HasSubstr("statements are nested deeper than 200 levels"));
    EXPECT_THAT(failure("{% set " + repeated("(", 100000)), HasSubstr("nested deeper than 200 levels"));
    EXPECT_EQ(render("{{ 1" + repeated(" ~ 1", 5000) + " }}").size(), 5001U);
}

TEST(JinjaLimits, DeepValuesEndInAnErrorWhereverTheyAreWalked) {
    const std::string deep =
        "{% set ns = namespace(v=[]) %}{% for i in range(9999) %}{% set ns.v = [ns.v] %}{% endfor %}";
    EXPECT_THAT(failure(deep + "{{ ns.v }}"), HasSubstr("nested deeper than 200 levels"));
    EXPECT_THAT(failure(deep + "{{ ns.v|tojson }}"), HasSubstr("nested deeper than 200 levels"));
    EXPECT_THAT(failure(deep + "{{ ns.v == [ns.v] }}"), HasSubstr("nested deeper than 200 levels"));
    EXPECT_THAT(failure(deep + "{{ ns.v < [ns.v] }}"), HasSubstr("nested deeper than 200 levels"));
    EXPECT_EQ(render(deep + "ok"), "ok");
    const std::string tuples =
        "{% set ns = namespace(v=()) %}{% for i in range(9999) %}{% set ns.v = (ns.v,) %}{% endfor %}";
    EXPECT_THAT(failure(tuples + "{{ {ns.v: 1} }}"), HasSubstr("nested deeper than 200 levels"));
    const std::string streams =
        "{% set ns = namespace(v=[1]) %}{% for i in range(9999) %}{% set ns.v = ns.v|map('string') %}{% endfor %}";
    EXPECT_THAT(failure(streams + "{{ ns.v|join }}"), HasSubstr("nested deeper than 200 levels"));
}

TEST(JinjaLimits, CyclesAreReleasedAndNotFollowed) {
    EXPECT_EQ(
        render("{% set ns = namespace() %}{% set ns.self = ns %}{% macro m() %}{% endmacro %}{% set ns.m = m %}ok"),
        "ok");
    EXPECT_THAT(failure("{% set ns = namespace() %}{% set ns.self = [ns] %}{{ ns }}"),
                HasSubstr("nested deeper than 200 levels"));
}

TEST(JinjaLimits, DeepRequestsAreRefused) {
    nlohmann::ordered_json deep = 1;
    for (int level = 0; level < 500; ++level) deep = nlohmann::ordered_json::array({deep});
    EXPECT_THAT(failure("{{ deep }}", {{"deep", deep}}), HasSubstr("nested deeper than 200 levels"));
}

TEST(JinjaLimits, LargeTemplatesAreRefused) {
    EXPECT_THAT(failure(std::string(size_t{2} << 20, 'x')), HasSubstr("a template may have 1 MiB, not more"));
}

TEST(JinjaLimits, BytesThatAreNoUtf8InARequestBecomeReplacementCharacters) {
    EXPECT_EQ(render("{{ s|length }}{{ s }}", {{"s", "a\xff\xc3"}}), "3a\xef\xbf\xbd\xef\xbf\xbd");
}

}  // namespace
}  // namespace gemmatrace::text
