// Values and operators: Python's arithmetic, comparison, text and what undefined means.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/jinja/fixture.h"

namespace gemmatrace::text {
namespace {

using ::testing::HasSubstr;

TEST(JinjaExpression, ValuesPrintAsPythonWritesThem) {
    EXPECT_EQ(render("{{ yes }} {{ no }} {{ nil }} {{ n }} {{ f }} {{ xs }} {{ d }}"),
              "True False None 7 2.5 [3, 1, 2] {'b': 1, 'a': 'x', 'C': [1, 2]}");
    EXPECT_EQ(render("{{ (1,) }} {{ () }} {{ [] }} {{ {} }}"), "(1,) () [] {}");
    EXPECT_EQ(
        render("{{ 1.0 }} {{ 1e22 }} {{ 1e-5 }} {{ 0.1 + 0.2 }} {{ 1e15 }} {{ 1e16 }} {{ -0.0 }} {{ 1e300 * 1e10 }}"),
        "1.0 1e+22 1e-05 0.30000000000000004 1000000000000000.0 1e+16 -0.0 inf");
    EXPECT_EQ(render("{{ [accents, quotes, padded] }}"), "['ÀÉîß日本🙂', 'it\\'s \"q\"', '  x ']");
    EXPECT_EQ(render(R"({{ ['\n\\', "it's", '\x00\x7f', '\u200b\u00a0é'] }})"),
              "['\\n\\\\', \"it's\", '\\x00\\x7f', '\\u200b\\xa0é']");
    EXPECT_EQ(
        render("{{ range(3) }} {{ range(1, 9, 2) }} {{ d.items() }} {{ d.keys() }}"),
        "range(0, 3) range(1, 9, 2) dict_items([('b', 1), ('a', 'x'), ('C', [1, 2])]) dict_keys(['b', 'a', 'C'])");
}

TEST(JinjaExpression, ArithmeticIsPythons) {
    EXPECT_EQ(render("{{ 7 + 2 }} {{ 7 - 9 }} {{ 7 * 3 }} {{ 7 / 2 }} {{ 6 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 "
                     "}} {{ -7 % 3 }} {{ 7 % -3 }}"),
              "9 -2 21 3.5 3.0 3 -4 1 2 -2");
    EXPECT_EQ(render("{{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 0.5 }} {{ -2 ** 2 }} {{ 2 ** 3 ** 2 }}"),
              "1024 0.5 1.4142135623730951 4 64");
    EXPECT_EQ(render("{{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1e0 }} {{ 5 // 0.3 }}"), "3.0 0.5 1.0 16.0");
    EXPECT_EQ(render("{{ yes + 1 }} {{ -yes }} {{ +no }}"), "2 -1 0");
    EXPECT_EQ(render("{{ 'ab' * 2 }} {{ 2 * [1] }} {{ [1] + [2] }} {{ (1,) + (2,) }} {{ 'a' + 'b' }}"),
              "abab [1, 1] [1, 2] (1, 2) ab");
    EXPECT_EQ(render("{{ 1 ~ 'a' ~ nil ~ [1] ~ missing ~ 2.0 }}"), "1aNone[1]2.0");
}

TEST(JinjaExpression, IntegersHoldAllOfJsonAndEndInAnError) {
    const auto variables =
        nlohmann::ordered_json::parse(R"({"big": 18446744073709551615, "low": -9223372036854775808})");
    EXPECT_EQ(render("{{ big }} {{ big + 1 }} {{ low - 1 }} {{ low // -1 }}", variables),
              "18446744073709551615 18446744073709551616 -9223372036854775809 9223372036854775808");
    EXPECT_EQ(render("{{ 2 ** 126 }}"), "85070591730234615865843651857942052864");
    EXPECT_THAT(failure("{{ 2 ** 127 }}"), HasSubstr("an integer has more than 128 bits"));
    EXPECT_THAT(failure("{{ 2 ** 1000000000000 }}"), HasSubstr("an integer has more than 128 bits"));
    EXPECT_THAT(failure("{{ 999999999999999999999999999999999999999999 }}"),
                HasSubstr("an integer of the template has more than 128 bits"));
}

TEST(JinjaExpression, WhatDoesNotGoTogetherFailsWithItsLine) {
    EXPECT_THAT(failure(R"(
{{ 1 + 'a' }})"),
                HasSubstr("unsupported operand type(s) for +: 'int' and 'str' [line=2"));
    EXPECT_THAT(failure("{{ 1 / 0 }}"), HasSubstr("division by zero"));
    EXPECT_THAT(failure("{{ 7 // 0 }}"), HasSubstr("integer division or modulo by zero"));
    EXPECT_THAT(failure("{{ 1.0 % 0 }}"), HasSubstr("float modulo"));
    EXPECT_THAT(failure("{{ -'a' }}"), HasSubstr("bad operand type for unary -: 'str'"));
    EXPECT_THAT(failure("{{ 1 < 'a' }}"), HasSubstr("'<' not supported between instances of 'int' and 'str'"));
    EXPECT_THAT(failure("{{ nil < 1 }}"), HasSubstr("'<' not supported between instances of 'NoneType' and 'int'"));
    EXPECT_THAT(failure("{{ 1 in 'a1' }}"), HasSubstr("'in <string>' requires string as left operand, not int"));
    EXPECT_THAT(failure("{{ 1 in n }}"), HasSubstr("argument of type 'int' is not iterable"));
    EXPECT_THAT(failure("{{ n() }}"), HasSubstr("'int' object is not callable"));
    EXPECT_THAT(failure("{{ nil[1:] }}"), HasSubstr("'NoneType' object is not subscriptable"));
    EXPECT_THAT(failure("{{ {[]: 1} }}"), HasSubstr("unhashable type: 'list'"));
}

TEST(JinjaExpression, ComparisonsChainAndOrderAsPythonsDo) {
    EXPECT_EQ(render("{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 == true }}"), "True False True");
    EXPECT_EQ(render("{{ 'a' < 'b' }} {{ 'B' < 'a' }} {{ 'é' > 'z' }} {{ '日' < '🙂' }}"), "True True True True");
    EXPECT_EQ(
        render(
            "{{ [1, 2] < [1, 3] }} {{ (1,) < (1, 2) }} {{ [1] == (1,) }} {{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }}"),
        "True True False True");
    EXPECT_EQ(
        render(
            "{{ 1 in xs }} {{ 9 not in xs }} {{ 'ell' in s }} {{ 'b' in d }} {{ 2 in range(3) }} {{ nil in mixed }}"),
        "True True True True True True");
    EXPECT_EQ(render("{{ nil == false }} {{ '' == none }} {{ 1 == '1' }}"), "False False False");
    EXPECT_EQ(render("{{ 9007199254740993 == 9007199254740992.0 }} {{ 9007199254740993 > 9007199254740992.0 }}"),
              "False True");
}

TEST(JinjaExpression, AndOrAndNotGiveBackOperands) {
    EXPECT_EQ(render("{{ 0 or 'x' }} {{ 'a' and 'b' }} {{ '' and 1/0 }}|{{ [] or {} }} {{ not '' }} {{ not xs }}"),
              "x b |{} True False");
    EXPECT_EQ(render("{{ yes and no or 5 }}"), "5");
}

TEST(JinjaExpression, AConditionWithoutElseIsUndefined) {
    EXPECT_EQ(render("[{{ 'x' if no }}] {{ 'x' if yes }} {{ 1 if no else 2 if no else 3 }}"), "[] x 3");
    EXPECT_THAT(failure("{{ ('x' if no) + 'y' }}"),
                HasSubstr("the inline if-expression on line 1 evaluated to false and no else section was defined."));
}

TEST(JinjaExpression, SlicesCutByCodePoints) {
    EXPECT_EQ(render("{{ s[1:4] }} {{ s[:-3] }} {{ s[-3:] }} {{ s[::-1] }} {{ s[::3] }} {{ s[10:2:-2] }}|{{ s[5:2] "
                     "}}|{{ s[99:] }}"),
              "ell Hello Wo rld dlroW olleH HlWl drWo||");
    EXPECT_EQ(render("{{ accents[1:4] }} {{ accents[-1:] }} {{ accents[::-1] }} {{ accents[0] }} {{ accents[-2] }}"),
              "Éîß 🙂 🙂本日ßîÉÀ À 本");
    EXPECT_EQ(render("{{ xs[1:] }} {{ xs[::-1] }} {{ xs[:n] }} {{ xs[none:2:none] }} {{ (1, 2, 3)[::2] }} {{ "
                     "range(9)[2:8:3] }}"),
              "[1, 2] [2, 1, 3] [3, 1, 2] [3, 1] (1, 3) range(2, 8, 3)");
    EXPECT_THAT(failure("{{ xs[::0] }}"), HasSubstr("slice step cannot be zero"));
    EXPECT_THAT(failure("{{ xs['a':] }}"),
                HasSubstr("slice indices must be integers or None or have an __index__ method"));
}

TEST(JinjaExpression, AttributesComeBeforeItemsWithADotAndAfterThemInBrackets) {
    EXPECT_EQ(render("{{ d.a }} {{ d['a'] }} {{ shadow['items'] }} {{ shadow.items()|list }} {{ shadow.get is callable "
                     "}} {{ shadow['get'] }}"),
              "x x own [('items', 'own'), ('get', 1)] True 1");
    EXPECT_EQ(render("{{ xs[0] }} {{ xs[-1] }} {{ xs.0 }} {{ xs['count'](1) }} {{ d['keys']()|list }} {{ s['upper']() "
                     "}} {{ xs[yes] }}"),
              "3 2 3 1 ['b', 'a', 'C'] HELLO WORLD 1");
}

TEST(JinjaExpression, WhatIsNotThereIsUndefined) {
    EXPECT_EQ(render("[{{ missing }}{{ d.nope }}{{ d['nope'] }}{{ xs[9] }}{{ nil.x }}{{ s.nope }}{{ xs['0'] }}]"),
              "[]");
    EXPECT_EQ(render("{{ missing|default('d') }} {{ missing is defined }} {{ not missing }} {{ missing == other }} {{ "
                     "missing == none }} {{ missing|length }} {{ missing|list }} {{ 1 in missing }}"),
              "d False True True False 0 [] False");
    EXPECT_EQ(
        render(
            "{% for x in missing %}{{ x }}{% endfor %}{{ missing|join('-') }}|{{ missing|upper }}|{{ missing ~ 'x' }}"),
        "||x");
}

TEST(JinjaExpression, UndefinedFailsWithTheReasonWhenUsed) {
    EXPECT_THAT(failure(R"(

{{ missing.x }})"),
                HasSubstr("'missing' is undefined [line=3"));
    EXPECT_THAT(failure("{{ missing + 1 }}"), HasSubstr("'missing' is undefined"));
    EXPECT_THAT(failure("{{ missing() }}"), HasSubstr("'missing' is undefined"));
    EXPECT_THAT(failure("{{ missing < 1 }}"), HasSubstr("'missing' is undefined"));
    EXPECT_THAT(failure("{{ -missing }}"), HasSubstr("'missing' is undefined"));
    EXPECT_THAT(failure("{{ missing[0] }}"), HasSubstr("'missing' is undefined"));
    EXPECT_THAT(failure("{{ missing|int }}"), HasSubstr("'missing' is undefined"));
    EXPECT_THAT(failure("{{ d.nope.x }}"), HasSubstr("'dict object' has no attribute 'nope'"));
    EXPECT_THAT(failure("{{ d['nope'].x }}"), HasSubstr("'dict object' has no attribute 'nope'"));
    EXPECT_THAT(failure("{{ nil.x.y }}"), HasSubstr("'None' has no attribute 'x'"));
    EXPECT_THAT(failure("{{ xs[9].x }}"), HasSubstr("list object has no element 9"));
    EXPECT_THAT(failure("{{ n.x.y }}"), HasSubstr("'int object' has no attribute 'x'"));
    EXPECT_THAT(failure("{{ missing|tojson }}"), HasSubstr("Object of type Undefined is not JSON serializable"));
    EXPECT_THAT(failure("{{ s.nope() }}"), HasSubstr("'str object' has no attribute 'nope'"));
}

TEST(JinjaExpression, TheSandboxHidesPrivateAndMutatingAttributes) {
    EXPECT_EQ(render("[{{ s.__class__ }}{{ d.update }}{{ xs.append }}{{ d['__init__'] }}]"), "[]");
    EXPECT_THAT(failure("{{ d.update(a=1) }}"), HasSubstr("access to attribute 'update' of 'dict' object is unsafe."));
    EXPECT_THAT(failure("{{ xs.append(1) }}"), HasSubstr("access to attribute 'append' of 'list' object is unsafe."));
    EXPECT_THAT(failure("{{ s.__class__.__mro__ }}"),
                HasSubstr("access to attribute '__class__' of 'str' object is unsafe."));
}

TEST(JinjaExpression, CallsTakePositionalNamedAndSpreadArguments) {
    EXPECT_EQ(render("{{ '{} {} {a}'.format(1, *xs[1:2], a=2) }} {{ dict(d, z=1)|length }} {{ dict(**d) == d }} {{ "
                     "s.split(sep='o', maxsplit=1) }}"),
              "1 1 2 4 True ['Hell', ' World']");
    EXPECT_THAT(failure("{{ s.upper(1) }}"), HasSubstr("takes at most 0 arguments (1 given)"));
    EXPECT_THAT(failure("{{ s|trim(nope=1) }}"), HasSubstr("trim() got an unexpected keyword argument 'nope'"));
}

TEST(JinjaExpression, DictionariesKeepTheirOrderAndEqualKeysMeet) {
    EXPECT_EQ(
        render("{{ {'b': 1, 'a': 2, 'b': 3} }} {{ {1: 'a', 1.0: 'b', true: 'c'} }} {{ {none: 1, (1, 2): 2}[(1, 2)] }}"),
        "{'b': 3, 'a': 2} {1: 'c'} 2");
    EXPECT_EQ(render("{% set big = dict(range(40)|map('string')|batch(2)) %}{{ big['38'] }} {{ big|length }} {{ '7' in "
                     "big }} {{ big.get('6') }}"),
              "39 20 False 7");
}

}  // namespace
}  // namespace gemmatrace::text
