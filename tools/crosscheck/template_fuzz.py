"""Random templates for comparison with jinja2: mostly well-typed expressions and statements, from a seed."""
import random

TEXTS = [
    "", "a", "ab", "abc", " a b ", "Hello World", "hello-world_foo", "x,y,,z", "  lead", "trail\t\n", "ß", "ÀÉî", "ΑΣ",
    "日本語", "🙂x🙂", "a'b", 'a"b', "a'b\"c", "\\n", "line1\nline2\r\nline3", "<b>&amp;</b>", "%s", "%d items", "{}",
    "{0}-{1}", "42", "-7", "3.5", "1e3", "0x1f", "1_000", " 12 ", "inf", "nan", "True", "é", "\u00a0x\u00a0", "\u2028",
    "tool|x", "<turn|>", "a.b.c", "key", "z" * 12, "one two three four", "Straße", "ǆ", "\x7f", "\x00", "ﬁ",
]
VARIABLES = {
    "s": "Hello World", "t": " padded ", "u": "日本🙂é", "e": "", "n": 7, "m": -3, "z": 0, "f": 2.5, "g": -0.1, "big": 10**12,
    "b": True, "c": False, "nil": None, "xs": [3, 1, 2], "ys": ["b", "a", "B", "c"], "empty": [], "zs": [1, 2.0, True, "1", None],
    "d": {"b": 1, "a": "x", "C": [1, 2]}, "o": {}, "items": 5,
    "people": [{"name": "Ann", "age": 30, "tags": ["x"]}, {"name": "bob", "age": 25}, {"name": "Cid", "age": 30, "tags": []}],
    "nested": {"k": {"deep": ["v", {"w": 1.0}]}, "items": "shadow", "get": 1},
    "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": " yo "}, {"role": "user", "content": "<turn|>"}],
}
TEXT_FILTERS = [
    "upper", "lower", "title", "capitalize", "trim", "string", "e", "escape", "safe", "forceescape", "urlencode", "tojson", "list|join",
    "replace('a', 'Q')", "replace('', '-', 2)", "replace('l', '', 1)", "trim('a l')", "center(9)", "indent(2)", "indent(2, true)",
    "indent('>', blank=true)", "truncate(6)", "truncate(6, true)", "truncate(5, false, '~', 0)", "default('d')", "d('x', true)",
    "format(1)", "reverse", "first", "last", "wordcount", "length", "int", "float", "int(9)", "int(base=16)", "join('-')", "batch(2)|list",
    "slice(2)|list", "list", "tojson(indent=2)", "tojson(ensure_ascii=true)", "attr('upper')", "count", "sort", "unique|list",
    "map('upper')|list", "select('in', 'abc')|join", "min", "max", "xmlattr", "float(1)", "abs", "round", "dictsort", "items|list", "sum",
]
LIST_FILTERS = [
    "join", "join(', ')", "first", "last", "length", "list", "reverse|list", "sort", "sort(reverse=true)", "sort(case_sensitive=true)",
    "unique|list", "min", "max", "sum", "sum(start=10)", "map('string')|list", "map('upper')|join", "map('int', default=3)|list",
    "select|list", "reject|list", "select('odd')|list", "select('string')|list", "reject('none')|list", "select('>', 1)|list", "tojson",
    "tojson(indent=1)", "batch(2)|list", "batch(2, 0)|list", "slice(2)|list", "slice(3, 'f')|list", "string", "map('length')|list",
    "map('default', 'D')|list", "reverse|first", "tojson(separators=(',', ':'))", "count", "map('tojson')|join(';')", "default([])",
]
PEOPLE_FILTERS = [
    "map(attribute='name')|list", "map(attribute='tags', default=[])|list", "map(attribute='tags.0')|list", "sort(attribute='age')|map(attribute='name')|list",
    "sort(attribute='age,name')|map(attribute='name')|list", "selectattr('tags')|list|length", "selectattr('age', 'gt', 26)|map(attribute='name')|join(',')",
    "rejectattr('tags', 'defined')|map(attribute='name')|join", "groupby('age')|list", "groupby('name')|map(attribute='grouper')|list",
    "sum(attribute='age')", "max(attribute='age')", "min(attribute='name')", "unique(attribute='age')|list|length", "join('|', attribute='name')",
    "selectattr('name', 'equalto', 'bob')|list", "map('attr', 'name')|list", "map('dictsort')|list", "groupby('tags', default='none')|length",
]
DICT_FILTERS = [
    "dictsort", "dictsort(true)", "dictsort(by='value')", "dictsort(reverse=true)", "items|list", "list", "length", "tojson", "tojson(sort_keys=true)",
    "first", "last", "string", "join", "urlencode", "xmlattr", "tojson(indent=4)", "map('upper')|list", "default(1)", "reverse|list", "sort",
]
NUMBER_FILTERS = [
    "abs", "int", "float", "round", "round(1)", "round(1, 'ceil')", "round(-1)", "round(0, 'floor')", "string", "tojson", "default(3)", "filesizeformat",
    "filesizeformat(true)", "e", "format", "list", "length", "upper", "center(5)", "join",
]
TESTS = [
    "defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "sequence", "iterable", "callable", "true", "false",
    "odd", "even", "divisibleby 2", "divisibleby(3)", "eq 1", "ne('a')", "lt 3", "gt(1)", "ge 2", "le 2", "in [1, 'a', none]", "sameas none",
    "lower", "upper", "escaped", "equalto 7", "greaterthan 1", "lessthan(2)", "filter", "test", "in 'abc'",
]
TEXT_METHODS = [
    "upper()", "lower()", "title()", "capitalize()", "swapcase()", "casefold()", "strip()", "lstrip()", "rstrip()", "strip('a ')", "split()", "split('l')",
    "split(' ', 1)", "rsplit(' ', 1)", "rsplit(None, 1)", "split(',')", "splitlines()", "splitlines(true)", "startswith('a')", "endswith(('d', 'c'))",
    "startswith(('a', 'H'), 0)", "find('l')", "rfind('l')", "find('o', 5)", "index('a')", "count('l')", "count('')", "replace('l', 'L')", "replace('', '.')",
    "replace('a', 'b', 1)", "join(['x', 'y'])", "join('xyz')", "format(1, 2)", "format(*xs)", "removeprefix('a')", "removesuffix('c')", "isdigit()", "isalpha()",
    "isalnum()", "isspace()", "isupper()", "islower()", "istitle()", "isnumeric()", "isdecimal()", "isascii()", "isprintable()", "isidentifier()", "zfill(8)",
    "center(10, '*')", "ljust(8)", "rjust(8, '.')", "partition(' ')", "rpartition('l')", "expandtabs(4)", "format_map(d)", "rindex('o')", "find('')",
]
LIST_METHODS = ["index(1)", "count(1)", "copy()", "append(1)", "pop()", "sort()", "index('a', 1)", "extend([1])"]
DICT_METHODS = ["items()", "keys()", "values()", "get('a')", "get('q', 5)", "get('b', none)", "items()|list", "keys()|list", "values()|first", "copy()", "update(a=1)", "pop('a')"]
FORMATS = [
    "'%s' % {}", "'%5s|' % {}", "'%-5s|' % {}", "'%d' % {}", "'%05d' % {}", "'%+d' % {}", "'%x' % {}", "'%#o' % {}", "'%.2f' % {}", "'%8.3e' % {}", "'%g' % {}",
    "'%r' % {}", "'%s %s' % ({}, 1)", "'%(b)s' % d", "'%%' % {}", "'%c' % {}", "'%.1s' % {}", "'{{}}'.format({})", "'{{:>8}}|'.format({})", "'{{:^7}}'.format({})",
    "'{{:*<6}}'.format({})", "'{{:05}}'.format({})", "'{{:+.2f}}'.format({})", "'{{:,}}'.format({})", "'{{:x}}'.format({})", "'{{!r}}'.format({})", "'{{:.3}}'.format({})",
    "'{{:e}}'.format({})", "'{{:%}}'.format({})", "'{{0}}{{0}}'.format({})", "'{{a}}'.format(a={})", "'{{0[0]}}'.format({})", "'{{:>{{w}}}}'.format({}, w=6)", "'{{:b}}'.format({})",
    "'{{:g}}'.format({})", "'{{:_}}'.format({})", "'%s'|format({})", "'%a' % {}", "'{{0.name}}'.format({})", "'%5.1f%%' % {}", "'{{:#x}}'.format({})", "'%i' % {}",
]


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.loops = 0

    def choose(self, choices):
        return self.random.choice(choices)

    def chance(self, probability):
        return self.random.random() < probability

    # --- literals

    def literal_text(self):
        text = self.choose(TEXTS)
        quote = self.choose("'\"")
        special = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\x00": "\\x00", "\x7f": "\\x7f", quote: "\\" + quote}
        return quote + "".join(special.get(c, c) for c in text) + quote

    def literal_number(self):
        return self.choose(["0", "1", "2", "3", "-1", "-2", "10", "0.5", "1.0", "-2.5", "1e3", "0x1f", "1_000", "100", "1e-7", "123456789012", "1e22", "0.1"])

    # --- expressions of a kind

    def text(self, depth):
        if depth <= 0:
            return self.choose(["s", "t", "u", "e", self.literal_text(), self.literal_text(), "ys[0]", "d.a", "messages[0].role"])
        return self.choose([
            lambda: self.text(0),
            lambda: f"({self.text(depth - 1)} + {self.text(depth - 1)})",
            lambda: f"({self.text(depth - 1)} ~ {self.any(depth - 1)})",
            lambda: f"{self.operand(self.text(depth - 1))}.{self.choose(TEXT_METHODS)}",
            lambda: f"({self.text(depth - 1)}|{self.choose(TEXT_FILTERS)})",
            lambda: f"{self.operand(self.text(depth - 1))}[{self.slice(depth - 1)}]",
            lambda: f"({self.text(depth - 1)} * {self.choose(['0', '1', '2', '3', '-1'])})",
            lambda: "(" + self.choose(FORMATS).format(self.any(depth - 1)) + ")",
            lambda: f"({self.text(depth - 1)} if {self.truth(depth - 1)} else {self.text(depth - 1)})",
        ])()

    def number(self, depth):
        if depth <= 0:
            return self.choose(["n", "m", "z", "f", "g", "big", self.literal_number(), "d.b", "xs[0]", "b"])
        return self.choose([
            lambda: self.number(0),
            lambda: f"({self.number(depth - 1)} {self.choose(['+', '-', '*', '/', '//', '%'])} {self.number(depth - 1)})",
            lambda: f"({self.number(0)} ** {self.choose(['0', '1', '2', '3', '-1', '0.5'])})",
            lambda: f"(-{self.number(depth - 1)})",
            lambda: f"({self.number(depth - 1)}|{self.choose(NUMBER_FILTERS)})",
            lambda: f"({self.list(depth - 1)}|length)",
            lambda: f"({self.text(depth - 1)}|{self.choose(['int', 'float', 'length', 'wordcount'])})",
        ])()

    def list(self, depth):
        if depth <= 0:
            return self.choose(["xs", "ys", "zs", "empty", "people", "messages", "[]", "[1, 'a', 2.5]", "(1, 2)", "range(3)", "['x', 'Y']", "(none,)", "range(5, 0, -2)"])
        return self.choose([
            lambda: self.list(0),
            lambda: "[" + ", ".join(self.any(depth - 1) for _ in range(self.random.randint(0, 3))) + "]",
            lambda: "(" + "".join(self.any(depth - 1) + ", " for _ in range(self.random.randint(0, 3))) + ")",
            lambda: f"({self.list(depth - 1)} + {self.list(depth - 1)})",
            lambda: f"{self.operand(self.list(depth - 1))}[{self.slice(depth - 1)}]",
            lambda: f"({self.list(depth - 1)}|{self.choose(LIST_FILTERS)})",
            lambda: f"(people|{self.choose(PEOPLE_FILTERS)})",
            lambda: f"{self.operand(self.list(depth - 1))}.{self.choose(LIST_METHODS)}",
            lambda: f"{self.operand(self.text(depth - 1))}.{self.choose(['split()', 'splitlines()', 'split(' + self.literal_text() + ')'])}",
        ])()

    def dict(self, depth):
        if depth <= 0:
            return self.choose(["d", "o", "nested", "people[0]", "{}", "{'k': 1}", "nested.k", "dict(a=1)", "messages[1]"])
        return self.choose([
            lambda: self.dict(0),
            lambda: "{" + ", ".join(f"{self.choose([self.literal_text(), self.number(0), 'true', 'none'])}: {self.any(depth - 1)}" for _ in range(self.random.randint(0, 3))) + "}",
            lambda: f"dict({self.dict(depth - 1)}, q={self.any(depth - 1)})",
            lambda: f"({self.dict(depth - 1)}|{self.choose(DICT_FILTERS)})",
            lambda: f"{self.operand(self.dict(depth - 1))}.{self.choose(DICT_METHODS)}",
        ])()

    def truth(self, depth):
        if depth <= 0:
            return self.choose(["b", "c", "true", "false", "nil", "missing", "not b", "n"])
        return self.choose([
            lambda: self.truth(0),
            lambda: f"({self.any(depth - 1)} {self.choose(['==', '!=', '<', '<=', '>', '>=', 'in', 'not in'])} {self.any(depth - 1)})",
            lambda: f"({self.number(depth - 1)} {self.choose(['<', '<=', '>', '>='])} {self.number(depth - 1)} {self.choose(['<', '==', '!='])} {self.number(depth - 1)})",
            lambda: f"({self.any(depth - 1)} is {self.choose(['', 'not '])}{self.choose(TESTS)})",
            lambda: f"({self.any(depth - 1)} {self.choose(['and', 'or'])} {self.any(depth - 1)})",
            lambda: f"(not {self.any(depth - 1)})",
            lambda: f"({self.text(depth - 1)} in {self.text(depth - 1)})",
        ])()

    def odd(self, depth):
        """Undefined values, attributes that are not there, calls of what cannot be called."""
        return self.choose([
            "missing", "d.nope", "d['nope']", "xs[99]", "s.nope", "nil.x", "missing.x", "n()", "d.update", "s.__class__", "d._x", "xs.append",
            "(1 if c)", "none", "nested.items is callable", "nested['items']", "loop", "d[[1]]", "xs['0']", "xs[true]", "xs[-1]", "s[1.0]", "u[1]",
            "nested.get is callable", "range is callable", "namespace(a=1, b=s)", "namespace(d).b", "joiner()()", "cycler(1, 2).next()", "d.items()", "people[1].tags|default('-')",
            "xs|map('nope')|list", "xs|select('nope')|list", "missing|default(s)", "missing|length", "missing|list", "missing|upper",
            "missing ~ 'x'", "missing == missing", "missing in xs", "1 in missing", "missing|int", "missing|join", "missing|tojson", "missing|first",
            "(xs|first).bit_length()", "f.is_integer()", "n.real", "xs|sort|last", "dict(ys|map('upper')|batch(2))", "xs|groupby(0)",
        ])

    def any(self, depth):
        return self.choose([self.text, self.text, self.number, self.list, self.dict, self.truth, self.odd])(depth)

    def operand(self, expression):
        return expression if expression[:1] in "([{'\"" or expression.replace("_", "a").isalnum() else f"({expression})"

    def slice(self, depth):
        part = lambda: self.choose(["", "0", "1", "2", "-1", "-2", "5", "n", "none", "99", "-99"])
        return self.choose([f"{part()}:{part()}", f":{part()}", f"{part()}::{self.choose(['1', '2', '-1', '-2', 'none', '0'])}",
                            f"{part()}:{part()}:{self.choose(['1', '-1', '3'])}", self.choose(["0", "-1", "1"])])

    # --- statements

    def gap(self):
        return self.choose(["", "", " ", "\n", "\n  ", "  \n", "x", " y\n", "\n\n", "\t", "\r\n", "é "])

    def tag(self, inner):
        return "{%" + self.choose(["", "", "", "-", "+"]) + " " + inner + " " + self.choose(["", "", "", "-", "+"]) + "%}"

    def output(self, depth):
        return "{{" + self.choose(["", "", "-"]) + " " + self.any(depth) + " " + self.choose(["", "", "-"]) + "}}"

    def body(self, depth):
        return "".join(self.gap() + self.statement(depth) for _ in range(self.random.randint(1, 2))) + self.gap()

    def statement(self, depth):
        if depth <= 0 or self.chance(0.3):
            return self.output(self.random.randint(0, 2))
        kinds = [self.condition, self.for_loop, self.assignment, self.block_assignment, self.macro, self.with_block, self.filter_block,
                 self.namespace, self.raw, self.comment, self.call_block, self.scopes, self.generation]
        if self.loops:
            kinds.append(self.leave)
        return self.choose(kinds)(depth - 1)

    def condition(self, depth):
        text = self.tag("if " + self.any(1)) + self.body(depth)
        if self.chance(0.4):
            text += self.tag("elif " + self.truth(1)) + self.body(depth)
        if self.chance(0.5):
            text += self.tag("else") + self.body(depth)
        return text + self.tag("endif")

    def leave(self, depth):
        word = self.choose(["break", "continue"])
        return self.tag(f"if {self.truth(1)}") + self.tag(word) + self.tag("endif") if self.chance(0.7) else self.tag(word)

    LOOP = ["loop.index", "loop.index0", "loop.first", "loop.last", "loop.length", "loop.revindex", "loop.previtem", "loop.nextitem", "loop.cycle('a', 'b')",
            "loop.changed(x)", "loop.depth", "loop.revindex0", "loop.nope", "loop", "loop.depth0"]

    def for_loop(self, depth):
        iterable = self.list(1)
        head = self.choose([f"for x in {iterable}", f"for x in {self.text(1)}", f"for x in {iterable} if {self.choose(['x', 'x is string', 'x != 1', 'n', 'loop'])}",
                            f"for k, v in {self.dict(0)}.items()", f"for k, x in {self.dict(0)}|dictsort", f"for x, y in {iterable}", f"for x in {self.dict(0)}",
                            f"for i in range({self.choose(['3', '0', 'n'])})"])
        self.loops += 1
        text = self.tag(head) + self.body(depth) + self.choose(["{{ x }}", "", "{{ k }}={{ v }}", "{{ " + self.choose(self.LOOP) + " }}"]) + self.body(depth)
        self.loops -= 1
        if self.chance(0.3):
            text += self.tag("else") + self.body(depth)
        return text + self.tag("endfor")

    def assignment(self, depth):
        target = self.choose(["x", "y", "s", "q", "x, y", "n"])
        value = self.any(2) if "," not in target else self.choose([f"{self.any(1)}, {self.any(1)}", "y, x", "'ab'", "xs"])
        return self.tag(f"set {target} = {value}") + "{{ x }}{{ y }}"

    def block_assignment(self, depth):
        return self.tag("set " + self.choose(["x", "y|upper", "q | trim | replace('a', 'b')"])) + self.body(depth) + self.tag("endset") + "[{{ x }}{{ y }}{{ q }}]"

    def macro(self, depth):
        name = self.choose(["ma", "mb"])
        signature = self.choose(["", "x", "x, y=2", "x='q', y=x", "x, y, k=none"])
        loops, self.loops = self.loops, 0
        text = self.tag(f"macro {name}({signature})") + self.body(depth) + self.choose(["", "{{ varargs }}", "{{ kwargs }}", "{{ caller is defined }}", "{{ x }}/{{ y }}"])
        self.loops = loops
        call = self.choose(["", "1", "x=1", "1, 2", "1, 2, 3, 4", "q=3", "*xs", "**d", "y=5", "s, y=n"])
        return text + self.tag("endmacro") + "{{ " + f"{name}({call})" + self.choose(["", "|upper", " ~ 'z'", ".strip()"]) + " }}"

    def call_block(self, depth):
        loops, self.loops = self.loops, 0
        text = self.tag("macro mc(x=1)") + "<{{ caller(" + self.choose(["", "x", "x, 2"]) + ") }}>" + self.tag("endmacro")
        text += self.tag("call" + self.choose(["", "(a)", "(a, b=3)"]) + f" mc({self.choose(['', '5', 'x=s'])})") + self.body(depth) + "{{ a }}" + self.tag("endcall")
        self.loops = loops
        return text

    def with_block(self, depth):
        return self.tag("with " + self.choose(["x = 1", "x = n, y = x", "s = 'w'", "", "x = " + self.any(1)])) + "{{ x }}{{ s }}" + self.body(depth) + self.tag("endwith") + "{{ x }}"

    def filter_block(self, depth):
        return self.tag("filter " + self.choose(["upper", "trim", "replace('a', 'b')", "upper|trim", "indent(2)", "length", "title"])) + self.body(depth) + self.tag("endfilter")

    def namespace(self, depth):
        text = self.tag("set ns = namespace(" + self.choose(["", "a=1", "a=[], b=s", "d"]) + ")")
        self.loops += 1
        text += self.tag("for x in " + self.list(0)) + self.tag("set ns.a = " + self.choose(["x", "(ns.a|default(''))|string ~ x|string", "loop.index", "[ns.a, x]"]))
        text += self.body(depth) + self.tag("endfor")
        self.loops -= 1
        return text + "{{ ns.a }}{{ ns.zz }}"

    def raw(self, depth):
        return self.tag("raw").replace("+", "") + self.gap() + "{{ x }}{% if %}{# #}" + self.gap() + self.tag("endraw")

    def comment(self, depth):
        return "{#" + self.choose(["", "-", "+"]) + self.choose([" c ", " {{ x }} ", "\n"]) + self.choose(["", "-", "+"]) + "#}"

    def generation(self, depth):
        loops, self.loops = self.loops, 0
        text = self.tag("generation") + self.body(depth) + self.tag("endgeneration")
        self.loops = loops
        return text

    def scopes(self, depth):
        return self.choose([
            "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}",
            "{% if b %}{% set x = 'in' %}{% endif %}{{ x }}",
            "{% for i in xs %}{% if i > 1 %}{% set y = i %}{% endif %}{{ y }};{% endfor %}{{ y }}",
            "{% set s %}{{ s }}!{% endset %}{{ s }}",
            "{% macro r(k) %}{{ k }}{% if k > 0 %}{{ r(k - 1) }}{% endif %}{% endmacro %}{{ r(3) }}",
            "{% for x in [[1, [2, []]], [3, []]] recursive %}({{ loop.depth }}:{{ x[0] }}{{ loop(x[1:]) if x[1:] and x[1] is not number }}){% endfor %}",
            "{% macro o() %}{% set x = 'o' %}{% macro p() %}{{ x }}{{ n }}{% endmacro %}{{ p() }}{% endmacro %}{{ o() }}{{ x }}",
            "{% for x in xs %}{% for y in ys %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}",
            "{% macro late() %}{{ later }}{% endmacro %}{{ late() }}{% set later = 5 %}{{ late() }}",
            "{% for x in xs %}{{ x }}{% else %}none{% endfor %}{% for q in [] %}{% else %}{{ q }}E{% set q = 1 %}{{ q }}{% endfor %}{{ q }}",
            "{% if c %}{% set n = 1 %}{% elif b %}{{ n }}{% set n = 2 %}{% else %}{% set n = 3 %}{% endif %}{{ n }}",
            "{% for i in [1, 2] %}{% set n = i %}{% endfor %}{{ n }}{% for n in [9] %}{{ n }}{% endfor %}{{ n }}",
            "{% with %}{% set x = 3 %}{{ x }}{% endwith %}{{ x }}",
            "{% set ns = namespace(done=false) %}{% for x in xs if not ns.done %}{{ x }}{% set ns.done = true %}{% endfor %}",
            "{% for x in xs if x != 3 %}{{ loop.last }}{{ loop.length }}{{ x }}{% endfor %}",
            "{% for x in xs|map('string') %}{{ loop.index }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{% endfor %}",
            "{% set g = xs|map('string') %}{{ g|join }}{{ g|join }}",
            "{% macro k() %}{{ kwargs }}{{ varargs }}{% endmacro %}{{ k(1, 2, a=3) }}{{ k.name }}{{ k.arguments }}{{ k }}",
            "{% filter upper %}{% for x in ys %}{{ x }}{% if x == 'a' %}{% break %}{% endif %}{% endfor %}{% endfilter %}",
            "{% for x in ys %}{% set z %}{{ x }}{% if x == 'B' %}{% continue %}{% endif %}{% endset %}{{ z }}{% endfor %}",
            "{% print n, s %}{% set a, (b2, c2) = 1, (2, 3) %}{{ a }}{{ b2 }}{{ c2 }}",
            "{% for k, v in d.items() %}{{ loop.nextitem }}{{ loop.previtem }}{% endfor %}",
            "{% macro w(x) %}{% set x = x ~ '!' %}{{ x }}{% endmacro %}{{ w('a') }}{{ w() }}{{ w(x='b') }}",
        ])

    # --- sources with mistakes

    PIECES = ["{%", "%}", "{{", "}}", "{#", "#}", "-%}", "{%-", "+%}", "(", ")", "[", "]", "{", "}", "'", '"', "|", ".", ",", "~", "-", "=", "==", ":", " if ", " else ",
              " not ", " in ", " is ", " for ", "endif", "endfor", "raw", "endraw", "set ", "1", "0", "x", "\n", " ", "  ", "\\", "*", "**", "//", "%", "<", "!", "é", "1.5", "_"]

    def mistaken(self, source):
        for _ in range(self.random.randint(1, 3)):
            at = self.random.randint(0, len(source))
            end = min(len(source), at + self.random.choice([0, 0, 1, 1, 2, 3, 8]))
            source = source[:at] + self.choose(["", self.choose(self.PIECES), self.choose(self.PIECES)]) + source[end:]
        return source

    def template(self):
        if self.chance(0.5):
            return "{{ " + self.any(self.random.randint(1, 3)) + " }}"
        source = self.body(self.random.randint(1, 3))
        return self.mistaken(source) if self.chance(0.3) else source


def is_comparable(text):
    """Whether a reference output can be compared at all: not when it shows a Python object's address or type."""
    marks = (" object at 0x", "<function", "<built-in", "<bound method", "<class", "<method")
    return not any(mark in text.lower() for mark in marks)
