// Filters, tests and the methods of Python's types.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/jinja/fixture.h"

namespace gemmatrace::text {
namespace {

using ::testing::HasSubstr;

TEST(JinjaFilter, TextFilters) {
    EXPECT_EQ(render("{{ s|upper }} {{ s|lower }} {{ 'heLLO wORLD-foo (bar)'|title }} {{ 'hELLO'|capitalize }} [{{ "
                     "padded|trim }}] [{{ 'xxaxx'|trim('x') }}]"),
              "HELLO WORLD hello world Hello World-Foo (Bar) Hello [x] [a]");
    EXPECT_EQ(render("{{ accents|lower }} {{ accents|upper }} {{ 'ΑΣ ΑΣΑ'|lower }} {{ 'ﬁ ǆ'|title }}"),
              "àéîß日本🙂 ÀÉÎSS日本🙂 ας ασα FI Ǆ");
    EXPECT_EQ(
        render(
            "{{ s|replace('l', 'L') }} {{ s|replace('l', 'L', 1) }} {{ 'ab'|replace('', '-') }} {{ 5|replace(5, 6) }}"),
        "HeLLo WorLd HeLlo World -a-b- 6");
    EXPECT_EQ(render("{{ [1, 'a', none]|join(', ') }} {{ 'abc'|join('-') }} {{ people|join('|', attribute='name') }}"),
              "1, a, None a-b-c Ann|bob|Cid");
    EXPECT_EQ(render(R"([{{ 'ab'|center(6) }}] {{ 'a
b

c'|indent }} {{ 'a
b'|indent(2, true) }} {{ 'a

b'|indent('> ', blank=true) }})"),
              "[  ab  ] a\n    b\n\n    c   a\n  b a\n> \n> b");
    EXPECT_EQ(render("{{ 'foo bar baz qux'|truncate(9) }} {{ 'foo bar baz qux'|truncate(9, true) }} {{ 'foo bar baz "
                     "qux'|truncate(11) }} {{ 'foo bar baz qux'|truncate(11, false, '..', 0) }}"),
              "foo... foo ba... foo bar baz qux foo bar..");
    EXPECT_EQ(render("{{ 'a b-c'|wordcount }} {{ 'x y/ü&'|urlencode }} {{ {'a b': 'c&d'}|urlencode }} {{ 'abc'|reverse "
                     "}} {{ '%s-%02d'|format('a', 5) }} {{ {'a': 1, 'b': none}|xmlattr }}"),
              "3 x%20y/%C3%BC%26 a+b=c%26d cba a-05  a=\"1\"");
}

TEST(JinjaFilter, NumberFilters) {
    EXPECT_EQ(render("{{ '42'|int }} {{ '4.7'|int }} {{ 'x'|int }} {{ 'x'|int(9) }} {{ '1f'|int(base=16) }} {{ "
                     "none|int }} {{ 3.9|int }} {{ '0x1f'|int(base=16) }} {{ '1_0'|int }}"),
              "42 4 0 9 31 0 3 31 10");
    EXPECT_EQ(render("{{ '2.5'|float }} {{ 'x'|float }} {{ 7|float }} {{ 'inf'|float }}"), "2.5 0.0 7.0 inf");
    EXPECT_EQ(render("{{ 2.5|round }} {{ 3.5|round }} {{ 42.55|round(1) }} {{ 42.51|round(1, 'floor') }} {{ "
                     "42.41|round(1, 'ceil') }} {{ 1234|round(-2) }} {{ 7|round }} {{ 2.675|round(2) }}"),
              "2.0 4.0 42.5 42.5 42.5 1200 7 2.67");
    EXPECT_EQ(
        render("{{ -3|abs }} {{ 1000000|filesizeformat }} {{ 1500|filesizeformat(true) }} {{ 1|filesizeformat }}"),
        "3 1.0 MB 1.5 KiB 1 Byte");
}

TEST(JinjaFilter, SequenceFilters) {
    EXPECT_EQ(render("{{ xs|first }} {{ xs|last }} {{ s|first }} [{{ empty|first }}] {{ xs|length }} {{ d|length }} {{ "
                     "accents|length }} {{ d|list }} {{ 'ab'|list }}"),
              "3 2 H [] 3 3 7 ['b', 'a', 'C'] ['a', 'b']");
    EXPECT_EQ(render("{{ xs|sort }} {{ ys|sort }} {{ ys|sort(case_sensitive=true) }} {{ xs|sort(reverse=true) }} {{ "
                     "people|sort(attribute='age,name')|map(attribute='name')|list }}"),
              "[1, 2, 3] ['a', 'b', 'B', 'c'] ['B', 'a', 'b', 'c'] [3, 2, 1] ['bob', 'Ann', 'Cid']");
    EXPECT_EQ(render("{{ xs|min }} {{ xs|max }} {{ ys|max }} {{ xs|sum }} {{ people|sum(attribute='age') }} {{ "
                     "xs|sum(start=10) }} [{{ empty|min }}]"),
              "1 3 c 6 85 16 []");
    EXPECT_EQ(
        render("{{ [1, 2, 1]|unique|list }} {{ ys|unique|list }} {{ xs|reverse|list }} {{ xs|batch(2)|list }} {{ "
               "xs|batch(2, 0)|list }} {{ xs|slice(2)|list }} {{ [1, 2, 3, 4]|slice(3, 'x')|list }}"),
        "[1, 2] ['b', 'a', 'c'] [2, 1, 3] [[3, 1], [2]] [[3, 1], [2, 0]] [[3, 1], [2]] [[1, 2], [3, 'x'], [4, 'x']]");
    EXPECT_EQ(render("{{ people|groupby('age')|map('first')|list }} {% for age, group in people|groupby('age') %}{{ "
                     "age }}:{{ group|length }};{% endfor %}{{ (people|groupby('age'))[0].grouper }}"),
              "[25, 30] 25:1;30:2;25");
    EXPECT_THAT(failure("{{ [1, 'a']|sort }}"), HasSubstr("'<' not supported between instances of 'str' and 'int'"));
    EXPECT_THAT(failure("{{ n|length }}"), HasSubstr("object of type 'int' has no len()"));
    EXPECT_THAT(failure("{{ xs|map('upper')|length }}"), HasSubstr("object of type 'generator' has no len()"));
}

TEST(JinjaFilter, MapSelectAndReject) {
    EXPECT_EQ(render("{{ people|map(attribute='name')|list }} {{ people|map(attribute='tags', default='-')|list }} {{ "
                     "['1', '2']|map('int')|sum }} {{ ys|map('replace', 'a', 'z')|list }}"),
              "['Ann', 'bob', 'Cid'] [['x'], '-', []] 3 ['b', 'z', 'B', 'c']");
    EXPECT_EQ(render("{{ mixed|select|list }} {{ mixed|reject('string')|list }} {{ xs|select('gt', 1)|list }} {{ "
                     "xs|select('odd')|list }} {{ people|selectattr('tags')|map(attribute='name')|list }} {{ "
                     "people|selectattr('age', 'equalto', 30)|list|length }} {{ people|rejectattr('tags', "
                     "'defined')|map(attribute='name')|first }}"),
              "[1, 'a', True, 2.5] [1, None, True, 2.5] [3, 2] [3, 1] ['Ann'] 2 bob");
    // a generator gives its items once
    EXPECT_EQ(render("{% set g = xs|map('string') %}{{ g|join }}{{ g|join }}|"), "312|");
    EXPECT_EQ(render("{{ xs|map('nope') is iterable }}"), "True");
    EXPECT_THAT(failure("{{ xs|map('nope')|list }}"), HasSubstr("No filter named 'nope'."));
    EXPECT_THAT(failure("{{ xs|select(missing)|list }}"), HasSubstr("did you forget to quote the callable name?"));
}

TEST(JinjaFilter, DictFilters) {
    EXPECT_EQ(render("{{ d|dictsort }} {{ d|dictsort(true) }} {{ {'a': 2, 'b': 1}|dictsort(by='value') }} {{ "
                     "d|dictsort(reverse=true) }} {{ d|items|list }} {{ missing|items|list }}"),
              "[('a', 'x'), ('b', 1), ('C', [1, 2])] [('C', [1, 2]), ('a', 'x'), ('b', 1)] [('b', 1), ('a', 2)] [('C', "
              "[1, 2]), ('b', 1), ('a', 'x')] [('b', 1), ('a', 'x'), ('C', [1, 2])] []");
    EXPECT_THAT(failure("{{ xs|items|list }}"), HasSubstr("Can only get item pairs from a mapping."));
}

TEST(JinjaFilter, DefaultReplacesUndefinedOnlyUnlessAsked) {
    EXPECT_EQ(render("{{ missing|default('x') }} {{ nil|default('x') }} {{ nil|default('x', true) }} {{ ''|d('y', "
                     "boolean=true) }} [{{ missing|default }}]"),
              "x None x y []");
}

TEST(JinjaFilter, JsonIsWrittenAsPythonWritesIt) {
    EXPECT_EQ(render(R"({{ {'a': [1, 2.0, true, none, 'é\n"/<>&\u2028']}|tojson }})"),
              "{\"a\": [1, 2.0, true, null, \"é\\n\\\"/<>&\342\200\250\"]}");
    EXPECT_EQ(render("{{ mixed|tojson(indent=2) }} {{ [[]]|tojson(indent=1) }} {{ {}|tojson(indent=1) }}"),
              "[\n  1,\n  \"a\",\n  null,\n  true,\n  2.5\n] [\n []\n] {}");
    EXPECT_EQ(
        render(
            R"({{ {'b': 1, 'a': 2}|tojson(sort_keys=true, separators=(',', ':')) }} {{ accents|tojson(ensure_ascii=true) }} {{ '\x00\x1f\x7f'|tojson }})"),
        "{\"a\":2,\"b\":1} \"\\u00c0\\u00c9\\u00ee\\u00df\\u65e5\\u672c\\ud83d\\ude42\" \"\\u0000\\u001f\177\"");
    EXPECT_EQ(render("{{ {1: 1, 1.5: 2, true: 3, none: 4}|tojson }} {{ 1e400|float if no else 1e300|tojson }} {{ "
                     "'inf'|float|tojson }} {{ (1, 2)|tojson }} {{ 1e16|tojson }}"),
              "{\"1\": 3, \"1.5\": 2, \"null\": 4} 1e+300 Infinity [1, 2] 1e+16");
    EXPECT_THAT(failure("{{ {(1, 2): 3}|tojson }}"),
                HasSubstr("keys must be str, int, float, bool or None, not tuple"));
    EXPECT_THAT(failure("{{ xs|map('string')|tojson }}"),
                HasSubstr("Object of type generator is not JSON serializable"));
}

TEST(JinjaFilter, MarkupEscapesWhatIsAddedToIt) {
    EXPECT_EQ(
        render("{{ '<a>'|e }} {{ '<a>'|e|e }} {{ '<a>'|forceescape }} {{ ('<a>'|safe) + '<b>' }} {{ ('<a>'|safe) ~ "
               "'<b>' }} {{ '<a>'|safe is escaped }} {{ ['<a>'|safe] }} {{ ('<%s>'|safe) % '<' }} {{ quotes|e }}"),
        "&lt;a&gt; &lt;a&gt; &lt;a&gt; <a>&lt;b&gt; <a><b> True [Markup('<a>')] <&lt;> it&#39;s &#34;q&#34;");
}

TEST(JinjaFilter, TestsTellKindsApart) {
    EXPECT_EQ(
        render(
            R"({% for v in [1, 1.5, 'a', none, true, [], {}, (), missing] %}{{ v is number }}{{ v is integer }}{{ v is float }}{{ v is string }}{{ v is none }}{{ v is boolean }}{{ v is sequence }}{{ v is mapping }}{{ v is iterable }}{{ v is defined }};
{% endfor %})"),
        "TrueTrueFalseFalseFalseFalseFalseFalseFalseTrue;\nTrueFalseTrueFalseFalseFalseFalseFalseFalseTrue;"
        "\nFalseFalseFalseTrueFalseFalseTrueFalseTrueTrue;\nFalseFalseFalseFalseTrueFalseFalseFalseFalseTrue;"
        "\nTrueFalseFalseFalseFalseTrueFalseFalseFalseTrue;\nFalseFalseFalseFalseFalseFalseTrueFalseTrueTrue;"
        "\nFalseFalseFalseFalseFalseFalseTrueTrueTrueTrue;\nFalseFalseFalseFalseFalseFalseTrueFalseTrueTrue;"
        "\nFalseFalseFalseFalseFalseFalseTrueFalseTrueFalse;\n");
    EXPECT_EQ(render("{{ 3 is odd }} {{ 3 is even }} {{ 9 is divisibleby 3 }} {{ 'a' is in 'abc' }} {{ 1 is eq 1 }} {{ "
                     "1 is ne 1 }} {{ 1 is lt 2 }} {{ 2 is ge 2 }} {{ none is sameas none }} {{ 'ab' is lower }} {{ "
                     "'aB' is upper }} {{ range is callable }} {{ 'upper' is filter }} {{ 'odd' is test }} {{ 3 is not "
                     "odd }} {{ true is true }} {{ 1 is true }}"),
              "True False True True True False True True True True False True True True False True False");
}

TEST(JinjaFilter, StringMethods) {
    EXPECT_EQ(render("{{ s.split() }} {{ 'a,b,,c'.split(',') }} {{ 'a b c'.split(' ', 1) }} {{ 'a b c'.rsplit(None, 1) "
                     "}} {{ 'a\nb\r\nc\342\200\250d'.splitlines() }} {{ ' a  b '.split() }} {{ ''.split() }} {{ "
                     "''.split(',') }} {{ 'a\nb'.splitlines(true) }}"),
              "['Hello', 'World'] ['a', 'b', '', 'c'] ['a', 'b c'] ['a b', 'c'] ['a', 'b', 'c', 'd'] ['a', 'b'] [] "
              "[''] ['a\\n', 'b']");
    EXPECT_EQ(render("[{{ padded.strip() }}] [{{ padded.lstrip() }}] [{{ padded.rstrip() }}] {{ 'xyaxy'.strip('xy') }} "
                     "{{ '　a\302\240'.strip() }}"),
              "[x] [x ] [  x] a a");
    EXPECT_EQ(
        render(
            "{{ s.startswith('He') }} {{ s.endswith(('x', 'ld')) }} {{ s.startswith('World', 6) }} {{ s.find('o') }} "
            "{{ s.rfind('o') }} {{ s.find('z') }} {{ accents.find('本') }} {{ s.count('l') }} {{ s.index('W') }}"),
        "True True True 4 7 -1 5 3 6");
    EXPECT_EQ(
        render("{{ 'a'.join(['x', 'y']) }} {{ s.replace('l', '', 2) }} {{ s.removeprefix('Hello ') }} {{ "
               "s.removesuffix('World') }} {{ 'a-b-c'.partition('-') }} {{ 'a-b-c'.rpartition('-') }} {{ 'x'.zfill(3) "
               "}} {{ '-5'.zfill(4) }} {{ 'a'.ljust(3, '.') }} {{ 'a'.rjust(3) }} {{ 'ab'.center(5, '*') }}"),
        "xay Heo World World Hello  ('a', '-', 'b-c') ('a-b', '-', 'c') 00x -005 a..   a **ab*");
    EXPECT_EQ(
        render(
            R"({{ '1²'.isdigit() }} {{ '٣'.isdecimal() }} {{ 'aé'.isalpha() }} {{ '  '.isspace() }} {{ 'A1'.isupper() }} {{ 'Aa Bb'.istitle() }} {{ 'aB'.swapcase() }} {{ 'ß'.casefold() }} {{ 'they\'re'.title() }})"),
        "True True True True True True Ab ss They'Re");
    EXPECT_THAT(failure("{{ s.index('zz') }}"), HasSubstr("substring not found"));
    EXPECT_THAT(failure("{{ s.split('') }}"), HasSubstr("empty separator"));
    EXPECT_THAT(failure("{{ ','.join([1]) }}"), HasSubstr("sequence item 0: expected str instance, int found"));
}

TEST(JinjaFilter, OtherMethods) {
    EXPECT_EQ(render("{{ d.get('a') }} {{ d.get('q') }} {{ d.get('q', 5) }} {{ d.keys()|list }} {{ d.values()|list }} "
                     "{{ d.copy() == d }} {{ xs.index(2) }} {{ xs.count(1) }} {{ (1, 2, 1).count(1) }} {{ "
                     "n.bit_length() }} {{ f.is_integer() }} {{ n.real }}"),
              "x None 5 ['b', 'a', 'C'] [1, 'x', [1, 2]] True 2 1 2 3 False 7");
    EXPECT_THAT(failure("{{ xs.index(99) }}"), HasSubstr("99 is not in list"));
}

TEST(JinjaFilter, PercentFormatting) {
    EXPECT_EQ(render("{{ '%s|%r|%d|%5d|%-5d|%05d|%+d|%x|%X|%o|%#x|%.2f|%8.3f|%e|%g|%c|%%' % (s, s, 7.9, 7, 7, -7, 7, "
                     "255, 255, 8, 255, 2.345, 2.5, 12345.678, 0.0001, 'z') }}"),
              "Hello World|'Hello World'|7|    7|7    |-0007|+7|ff|FF|10|0xff|2.35|   2.500|1.234568e+04|0.0001|z|%");
    EXPECT_EQ(render("{{ '%(a)s %(b)03d' % d }} {{ '%5.2s|' % 'abc' }} {{ '%*d' % (4, 7) }} {{ '%s' % xs }} {{ '%s' % "
                     "missing }} {{ '%a' % accents }}"),
              "x 001    ab|    7 [3, 1, 2]  '\\xc0\\xc9\\xee\\xdf\\u65e5\\u672c\\U0001f642'");
    EXPECT_THAT(failure("{{ '%d' % 'a' }}"), HasSubstr("%d format: a number is required, not str"));
    EXPECT_THAT(failure("{{ '%s %s' % (1,) }}"), HasSubstr("not enough arguments for format string"));
    EXPECT_THAT(failure("{{ 'x' % 1 }}"), HasSubstr("not all arguments converted during string formatting"));
}

TEST(JinjaFilter, BraceFormatting) {
    EXPECT_EQ(
        render("{{ '{} {0} '.format(1) if no else '{0} {1} {0}'.format('a', 'b') }} {{ '{a.b}{c[0]}'.format(a={'b': "
               "1}, c=xs) }} {{ '{{}}{!r:>6}|{:<4}|{:^5}|{:*^7}'.format('a', 'b', 'c', 'd') }}"),
        "a b a 13 {}   'a'|b   |  c  |***d***");
    EXPECT_EQ(render("{{ '{:05d} {:+} {:,} {:x} {:#b} {:.3f} {:e} {:%} {:g} {:10.2f}| {:.2} {:>{w}}'.format(42, 7, "
                     "1234567, 255, 5, 3.14159, 12345.0, 0.25, 1e10, 2.5, 'abc', 1, w=4) }}"),
              "00042 +7 1,234,567 ff 0b101 3.142 1.234500e+04 25.000000% 1e+10       2.50| ab    1");
    EXPECT_THAT(failure("{{ '{'.format(1) }}"), HasSubstr("expected '}' before end of string"));
    EXPECT_THAT(failure("{{ '{}'.format() }}"),
                HasSubstr("Replacement index 0 out of range for positional args tuple"));
    EXPECT_THAT(failure("{{ '{} {0}'.format(1) }}"),
                HasSubstr("cannot switch between manual field specification and automatic field numbering"));
}

}  // namespace
}  // namespace gemmatrace::text
