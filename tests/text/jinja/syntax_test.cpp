// Tags, white space around them, literals and what is refused while parsing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/jinja/fixture.h"

namespace gemmatrace::text {
namespace {

using ::testing::HasSubstr;

TEST(JinjaSyntax, TextWithoutTagsStaysAsItIsButForOneLineEnd) {
    EXPECT_EQ(render("plain"), "plain");
    EXPECT_EQ(render(R"(a
b
)"),
              "a\nb");
    EXPECT_EQ(render(R"(a

)"),
              "a\n");
    EXPECT_EQ(render("a\r\nb\rc\r\n"), "a\nb\nc");
    EXPECT_EQ(render(""), "");
}

TEST(JinjaSyntax, ABlockTagTakesTheLineEndBehindIt) {
    EXPECT_EQ(render(R"({% if yes %}
x
{% endif %}
y)"),
              "x\ny");
    EXPECT_EQ(render(R"({{ n }}
x)"),
              "7\nx");
    EXPECT_EQ(render(R"({# c #}
x)"),
              "x");
    EXPECT_EQ(render(R"({% if yes %} 
x{% endif %})"),
              " \nx");
}

TEST(JinjaSyntax, ABlockTagAloneOnItsLineTakesTheSpaceInFront) {
    EXPECT_EQ(render(R"(a
   {% if yes %}x{% endif %})"),
              "a\nx");
    EXPECT_EQ(render("  {% if yes %}x{% endif %}"), "x");
    EXPECT_EQ(render("a {% if yes %}x{% endif %}"), "a x");
    EXPECT_EQ(render("  {{ n }}"), "  7");
    EXPECT_EQ(render(R"(a
	{# c #}b)"),
              "a\nb");
    EXPECT_EQ(render("{{ n }}  {% if yes %}x{% endif %}"), "7  x");
}

TEST(JinjaSyntax, PlusKeepsWhiteSpaceAndMinusTakesAll) {
    EXPECT_EQ(render(R"(a
  {%+ if yes %}x{% endif %})"),
              "a\n  x");
    EXPECT_EQ(render(R"({% if yes +%}
x{% endif %})"),
              "\nx");
    EXPECT_EQ(render(R"(a 
 {%- if yes -%} 
 x 
 {%- endif -%} 
 b)"),
              "axb");
    EXPECT_EQ(render("a {{- n -}} b"), "a7b");
    EXPECT_EQ(render("a {#- c -#} b"), "ab");
    EXPECT_EQ(render(R"({{ n }} 
 {#+ c +#}
b)"),
              "7 \n \nb");
    EXPECT_EQ(render("{{+ n }}"), "7");
    EXPECT_EQ(render("{{-1}}"), "1");
}

TEST(JinjaSyntax, StrippingKnowsAllOfUnicodesWhiteSpace) {
    EXPECT_EQ(render(R"(a  {{- n }})"), "a7");
    EXPECT_EQ(render("　{% if yes %}x{% endif %}"), "x");
}

TEST(JinjaSyntax, RawTextIsNotRead) {
    EXPECT_EQ(render("{% raw %}{{ x }}{% if %}{% endraw %}"), "{{ x }}{% if %}");
    EXPECT_EQ(render("a {%- raw -%} {{ x }} {%- endraw -%} b"), "a{{ x }}b");
    EXPECT_EQ(render(R"({% raw %}
x
{% endraw %}
y)"),
              "\nx\ny");
}

TEST(JinjaSyntax, TagsEndOutsideBracketsOnly) {
    EXPECT_EQ(render("{{ {'a': {'b': 1}}['a']['b'] }}"), "1");
    EXPECT_EQ(render(R"({{ '}}' }}{{ "%}" }})"), "}}%}");
}

TEST(JinjaSyntax, StringsKnowPythonsEscapes) {
    EXPECT_EQ(render(R"({{ 'a\n\t\x41\u00e4\U0001F642\101\q\'' }})"), "a\n\tAä🙂A\\q'");
    EXPECT_EQ(render(R"({{ 'ab' "cd" 'ef' }})"), "abcdef");
    EXPECT_EQ(render(R"({{ 'line
break' }})"),
              "line\nbreak");
    EXPECT_EQ(render(R"({{ 'a\\nb' }})"), "a\\nb");
}

TEST(JinjaSyntax, NumbersMayHaveBasesUnderscoresAndExponents) {
    EXPECT_EQ(render("{{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 00 }}"), "1000 31 5 15 0");
    EXPECT_EQ(render("{{ 1.5e3 }} {{ 2e-7 }} {{ 1_0.5 }} {{ 1e16 }} {{ 123456789012345680.0 }}"),
              "1500.0 2e-07 10.5 1e+16 1.2345678901234568e+17");
    EXPECT_EQ(render("{{ [[1, 2], 3].0.1 }}"), "2");
}

TEST(JinjaSyntax, CommentsMayHoldAnything) {
    EXPECT_EQ(render("a{# {{ x }} {% y %} #}b"), "ab");
    EXPECT_EQ(render("a{#-#}b"), "ab");
}

TEST(JinjaSyntax, AColonMayEndAHead) {
    EXPECT_EQ(render("{% if yes: %}x{% endif %}"), "x");
    EXPECT_EQ(render("{% for x in xs: %}{{ x }}{% endfor %}"), "312");
}

TEST(JinjaSyntax, MistakesNameTemplateAndLine) {
    EXPECT_THAT(failure("a\n{% if yes %}x"),
                HasSubstr("corrupt: Unexpected end of template. Jinja was looking for the "
                          "following tags: 'elif' or 'else' or 'endif'. The innermost block "
                          "that needs to be closed is 'if'. [line=2, template=test]"));
    EXPECT_THAT(failure("\n\n{% nope %}"), HasSubstr("Encountered unknown tag 'nope'. [line=3"));
    EXPECT_THAT(
        failure("{% for x in xs %}{% endif %}{% endfor %}"),
        HasSubstr("Encountered unknown tag 'endif'. Jinja was looking for the following tags: 'endfor' or 'else'."));
    EXPECT_THAT(failure("{{ 1 + }}"), HasSubstr("unexpected 'end of print statement' [line=1"));
    EXPECT_THAT(failure("{{ (1 }}"), HasSubstr("unexpected '}', expected ')'"));
    EXPECT_THAT(failure("{{ a b }}"), HasSubstr("expected token 'end of print statement', got 'b'"));
    EXPECT_THAT(failure("{{ ? }}"), HasSubstr("unexpected char '?' at 3"));
    EXPECT_THAT(failure("{{ 'open }}"), HasSubstr("unexpected char"));
    EXPECT_THAT(failure("x{# open"), HasSubstr("Missing end of comment tag"));
    EXPECT_THAT(failure("{% raw %}x"), HasSubstr("Missing end of raw directive"));
    EXPECT_THAT(failure("{{ x"), HasSubstr("unexpected end of template, expected 'end of print statement'."));
    EXPECT_THAT(failure("{{ }}"), HasSubstr("Expected an expression, got 'end of print statement'"));
    EXPECT_THAT(failure("{% set 5 = 1 %}"), HasSubstr("can't assign to 'const'"));
    EXPECT_THAT(failure("{{ x is y is z }}"), HasSubstr("You cannot chain multiple tests with is"));
    EXPECT_THAT(failure("{% break %}"), HasSubstr("'break' outside loop"));
    EXPECT_THAT(failure("{% for x in xs %}{% macro m() %}{% continue %}{% endmacro %}{% endfor %}"),
                HasSubstr("'continue' outside loop"));
    EXPECT_THAT(failure("{% for loop in xs %}{% endfor %}"), HasSubstr("Can't assign to special loop variable"));
    EXPECT_THAT(failure("{% macro m(a=1, b) %}{% endmacro %}"),
                HasSubstr("non-default argument follows default argument"));
    EXPECT_THAT(failure("{{ f(a=1, a=2) }}"), HasSubstr("keyword argument repeated: a"));
    EXPECT_THAT(failure("{{ '\\ud800' }}"), HasSubstr("an escape in a string is no Unicode character"));
    EXPECT_THAT(failure("a\xff"), HasSubstr("the template is not UTF-8"));
}

// As jinja2 does: at once in plain places, only when run under a condition.
TEST(JinjaSyntax, UnknownFiltersAndTestsAreFoundWhileParsing) {
    EXPECT_THAT(failure("\n{{ s|nope }}"), HasSubstr("corrupt: No filter named 'nope'. [line=2"));
    EXPECT_THAT(failure("{{ s is nope }}"), HasSubstr("corrupt: No test named 'nope'."));
    EXPECT_EQ(render("{% if no %}{{ s|nope }}{% endif %}"), "");
    EXPECT_THAT(failure("{% if yes %}\n{{ s|nope }}{% endif %}"),
                HasSubstr("bad_request: No filter named 'nope' found. [line=2"));
    EXPECT_EQ(render("{{ 1 if yes else s is nope }}"), "1");
}

TEST(JinjaSyntax, WhatNeedsOtherTemplatesIsUnsupported) {
    for (const char* tag :
         {"{% extends 'a' %}", "{% include 'a' %}", "{% import 'a' as b %}", "{% from 'a' import b %}",
          "{% block a %}{% endblock %}", "{% autoescape true %}{% endautoescape %}"}) {
        EXPECT_THAT(failure(tag), HasSubstr("unsupported: the tag ")) << tag;
    }
    EXPECT_THAT(failure("{{ xs|random }}"), HasSubstr("unsupported: the filter 'random' is not supported"));
}

}  // namespace
}  // namespace gemmatrace::text
