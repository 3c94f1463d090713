// Statements: loops, branches, scopes, macros and blocks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/jinja/fixture.h"

namespace gemmatrace::text {
namespace {

using ::testing::HasSubstr;

TEST(JinjaStatement, LoopsTellWhereTheyAre) {
    EXPECT_EQ(render("{% for x in xs %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ "
                     "loop.first }}{{ loop.last }}{{ loop.length }}{{ x }};{% endfor %}"),
              "1032TrueFalse33;2121FalseFalse31;3210FalseTrue32;");
    EXPECT_EQ(render("{% for x in xs %}{{ loop.previtem }}<{{ x }}<{{ loop.nextitem }};{% endfor %}"),
              "<3<1;3<1<2;1<2<;");
    EXPECT_EQ(render("{% for x in xs %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }};{% endfor %}"),
              "aTrue;bTrue;aTrue;");
    EXPECT_EQ(render("{% for x in xs|map('string') %}{{ loop.length }}{{ loop.last }}{{ x }};{% endfor %}"),
              "3False3;3False1;3True2;");
    EXPECT_EQ(render("{% for x in xs %}{{ loop }}{% endfor %}"), "<LoopContext 1/3><LoopContext 2/3><LoopContext 3/3>");
}

TEST(JinjaStatement, LoopsWalkAnythingIterable) {
    EXPECT_EQ(render("{% for c in 'aé🙂' %}{{ c }},{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for k, v in "
                     "d.items() %}{{ k }}={{ v }};{% endfor %}{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c "
                     "}}{% endfor %}{% for i in range(2, 0, -1) %}{{ i }}{% endfor %}"),
              "a,é,🙂,baCb=1;a=x;C=[1, 2];12321");
    EXPECT_THAT(failure("{% for x in n %}{% endfor %}"), HasSubstr("'int' object is not iterable"));
    EXPECT_THAT(failure("{% for a, b in [[1]] %}{% endfor %}"),
                HasSubstr("not enough values to unpack (expected 2, got 1)"));
    EXPECT_THAT(failure("{% for a, b in ['abc'] %}{% endfor %}"), HasSubstr("too many values to unpack (expected 2)"));
}

TEST(JinjaStatement, AnEmptyLoopRunsElse) {
    EXPECT_EQ(render("{% for x in empty %}x{% else %}none{% endfor %}{% for x in xs %}{{ x }}{% else %}none{% endfor "
                     "%}{% for x in xs if x > 5 %}x{% else %}none{% endfor %}"),
              "none312none");
    // jinja2's loops remember only items whose body came to its end
    EXPECT_EQ(render("{% for x in xs %}{% continue %}{% else %}none{% endfor %}"), "none");
}

TEST(JinjaStatement, AFilteredLoopCountsWhatIsLeft) {
    EXPECT_EQ(
        render("{% for x in xs if x != 1 %}{{ loop.index }}/{{ loop.length }}{{ loop.last }}{{ x }};{% endfor %}"),
        "1/2False3;2/2True2;");
    // the test is asked anew before each item
    EXPECT_EQ(render("{% set ns = namespace(stop=false) %}{% for x in xs if not ns.stop %}{{ x }}{% set ns.stop = true "
                     "%}{% endfor %}"),
              "3");
    // and has variables of its own when it looks ahead
    EXPECT_EQ(render("{% for x in xs if x > 1 %}{{ loop.last }}{{ x }}{% endfor %}"), "False3True2");
}

TEST(JinjaStatement, BreakAndContinueWorkInAnyBlock) {
    EXPECT_EQ(render("{% for x in xs %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}{% for x in xs %}{% if "
                     "x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}"),
              "332");
    EXPECT_EQ(render("{% for x in ys %}{% set z %}{{ x }}{% if x == 'B' %}{% continue %}{% endif %}{% endset %}{{ z "
                     "}}{% endfor %}"),
              "bac");
    EXPECT_EQ(render("a{% for x in ys %}{% filter upper %}{{ x }}{% if x == 'a' %}{% break %}{% endif %}{% endfilter "
                     "%}{% endfor %}"),
              "aB");
}

TEST(JinjaStatement, RecursiveLoopsCallThemselves) {
    EXPECT_EQ(render("{% for x in [[1, [[2, []], [3, [[4, []]]]]]] recursive %}{{ loop.depth }}{{ loop.depth0 }}:{{ "
                     "x[0] }}({{ loop(x[1]) }}){% endfor %}"),
              "10:1(21:2()21:3(32:4()))");
    EXPECT_THAT(failure("{% for x in xs %}{{ loop(xs) }}{% endfor %}"),
                HasSubstr("The loop must have the 'recursive' marker to be called recursively."));
}

TEST(JinjaStatement, AssignmentsInALoopStayThere) {
    EXPECT_EQ(render("{% set x = 1 %}{% for i in [2, 3] %}{{ x }}{% set x = i %}{{ x }};{% endfor %}{{ x }}"),
              "12;13;1");
    EXPECT_EQ(render("{% if yes %}{% set x = 1 %}{% endif %}{{ x }}"), "1");
    EXPECT_EQ(render("{% set ns = namespace(count=0) %}{% for i in xs %}{% set ns.count = ns.count + i %}{% endfor "
                     "%}{{ ns.count }} {{ ns }}"),
              "6 <Namespace {'count': 6}>");
    // a scope that assigns a name does not see the variable of that name before
    EXPECT_EQ(
        render("{% set s %}[{{ s }}]{% endset %}{{ s }}{% for i in [1] %}{{ n }}{% set n = 0 %}{% endfor %}{{ n }}"),
        "[]77");
    EXPECT_EQ(render("{% set a, b = 1, 2 %}{% set a, b = b, a %}{{ a }}{{ b }}"), "21");
    EXPECT_THAT(failure("{% set d.x = 1 %}"), HasSubstr("cannot assign attribute on non-namespace object"));
}

TEST(JinjaStatement, WithOpensAScope) {
    EXPECT_EQ(render("{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}[{{ a }}]"), "17[]");
    EXPECT_EQ(render("{% set a = 5 %}{% with a = 1, b = a %}{{ b }}{% endwith %}{{ a }}"), "55");
}

TEST(JinjaStatement, BlocksCaptureText) {
    EXPECT_EQ(
        render("{% set x %}a{{ n }}{% endset %}{{ x|upper }}{% set y | upper | replace('B', 'c') %}ab{% endset %}{{ y "
               "}}{% filter upper %}a{{ s }}{% endfilter %}{% filter replace('a', 'b')|upper %}aa{% endfilter %}"),
        "A7AcAHELLO WORLDBB");
    EXPECT_THAT(failure("{% filter length %}abc{% endfilter %}"),
                HasSubstr("a block must give text, not a value of type 'int'"));
}

TEST(JinjaStatement, MacrosTakeArgumentsDefaultsAndMore) {
    EXPECT_EQ(render("{% macro m(a, b=2, c=b) %}{{ a }}{{ b }}{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(c=4, "
                     "a=5) }}{{ m() }}{{ m(*xs) }}{{ m(**{'a': 9}) }}"),
              "122;133;524;22;312;922;");
    EXPECT_EQ(render("{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}{{ m.name }}{{ "
                     "m.arguments }}{{ m }}"),
              "(1, 2){'x': 3}m()<Macro 'm'>");
    EXPECT_EQ(render("{% macro f(k) %}{{ k }}{% if k %}{{ f(k - 1) }}{% endif %}{% endmacro %}{{ f(3) }}"), "3210");
    EXPECT_EQ(render("{% macro m(x) %}{{ x.y }}{% endmacro %}{{ m({'y': 1}) ~ m({}) }}"), "1");
    EXPECT_THAT(failure("{% macro m(a) %}{{ a + 1 }}{% endmacro %}{{ m() }}"),
                HasSubstr("parameter 'a' was not provided"));
    EXPECT_THAT(failure("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}"),
                HasSubstr("macro 'm' takes not more than 1 argument(s)"));
    EXPECT_THAT(failure("{% macro m(a) %}{% endmacro %}{{ m(q=2) }}"),
                HasSubstr("macro 'm' takes no keyword argument 'q'"));
}

TEST(JinjaStatement, MacrosSeeTheTemplateAsItIsWhenTheyRun) {
    EXPECT_EQ(render("{% macro m() %}{{ later }}{{ n }}{% endmacro %}{{ m() }}{% set later = 5 %}{{ m() }}"), "757");
    EXPECT_EQ(render("{% for i in xs %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}"), "312");
}

TEST(JinjaStatement, CallBlocksGiveTheirBodyToAMacro) {
    EXPECT_EQ(render("{% macro box(t) %}<{{ t }}>{{ caller('x', 2) }}</{{ t }}>{% endmacro %}{% call(a, b=1) box('p') "
                     "%}{{ a }}{{ b }}{{ n }}{% endcall %}"),
              "<p>x27</p>");
    EXPECT_EQ(render("{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}"), "False");
    EXPECT_THAT(failure("{% macro m() %}{% endmacro %}{% call m() %}{% endcall %}"),
                HasSubstr("macro 'm' takes no keyword argument 'caller'"));
}

TEST(JinjaStatement, GenerationBlocksWriteTheirBody) {
    EXPECT_EQ(render("a{% generation %}b{{ n }}{% set q = 1 %}{% endgeneration %}c{{ q }}"), "ab7c");
}

TEST(JinjaStatement, PrintWritesValues) { EXPECT_EQ(render("{% print n, s %}"), "7Hello World"); }

TEST(JinjaStatement, ErrorsInMacrosNameTheirOwnLine) {
    EXPECT_THAT(failure("{% macro m() %}\n\n{{ missing.x }}{% endmacro %}\n\n{{ m() }}"),
                HasSubstr("bad_request: 'missing' is undefined [line=3, template=test]"));
}

TEST(JinjaStatement, ARaisedExceptionIsTheCallersError) {
    EXPECT_THAT(failure("{% if yes %}\n{{ raise_exception('Roles must alternate, not ' ~ s) }}{% endif %}"),
                HasSubstr("bad_request: Roles must alternate, not Hello World [line=2, template=test]"));
}

TEST(JinjaStatement, TheClockIsTheOneGiven) {
    EXPECT_EQ(render("{{ strftime_now('%d %b %Y %H:%M:%S.%f %A %j %-d %p%Z|%%') }}"),
              "05 Jul 2024 09:03:07.000042 Friday 187 5 AM|%");
}

TEST(JinjaStatement, GlobalsMakeRangesNamespacesAndCyclers) {
    EXPECT_EQ(render("{{ range(5)|list }}{{ range(5)|length }}{{ dict(a=1) }}{{ dict([[1, 2]]) }}{% set c = cycler(1, "
                     "2) %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.current }}{% "
                     "set j = joiner('-') %}{{ j() }}a{{ j() }}b{{ j() }}"),
              "[0, 1, 2, 3, 4]5{'a': 1}{1: 2}1212None1a-b-");
    EXPECT_THAT(failure("{{ range(100001)|length }}"),
                HasSubstr("Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000)."));
    EXPECT_THAT(failure("{{ range(1, 5, 0) }}"), HasSubstr("range() arg 3 must not be zero"));
}

TEST(JinjaStatement, AVariableOfTheRequestHidesAGlobalAndASpecialToken) {
    EXPECT_EQ(render("{{ bos_token }}{{ range is callable }}"), "<bos>True");
    EXPECT_EQ(render("{{ bos_token }}{{ range }}", {{"bos_token", "b"}, {"range", 1}}), "b1");
}

}  // namespace
}  // namespace gemmatrace::text
