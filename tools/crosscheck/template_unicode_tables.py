"""Writes the renderer's character tables: what Python's str methods know about characters, taken from Python itself.

Usage: python tools/crosscheck/template_unicode_tables.py classes > src/text/jinja/unicode_classes.cpp
       python tools/crosscheck/template_unicode_tables.py case > src/text/jinja/unicode_case.cpp
Run it with the Python whose Unicode version the renderer shall follow (3.11: Unicode 14).
"""
import sys
import unicodedata

CHARACTERS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def is_cased(c):
    return (c + "a").title()[-1] == "a"


def is_case_ignorable(c):
    final = "ς"
    return ("A" + c + "Σ").lower()[-1] == final and (c + "Σ").lower()[-1] != final


PREDICATES = {
    "kAlpha": str.isalpha,
    "kDecimal": str.isdecimal,
    "kDigit": str.isdigit,
    "kNumeric": str.isnumeric,
    "kSpace": str.isspace,
    "kPrintable": str.isprintable,
    "kLower": str.islower,
    "kUpper": str.isupper,
    "kTitle": lambda c: c.istitle() and not c.isupper(),
    "kCased": is_cased,
    "kCaseIgnorable": is_case_ignorable,
}
MAPPINGS = {"kToLower": str.lower, "kToUpper": str.upper, "kToTitle": str.title, "kToFold": str.casefold}


def runs(items, same):
    """Groups neighbouring items for which same(first, previous, next) holds."""
    group = []
    for item in items:
        if group and not same(group[0], group[-1], item):
            yield group
            group = []
        group.append(item)
    if group:
        yield group


def ranges(predicate):
    """(first, last, step): steps of 2 catch the alphabets in which upper and lower case alternate."""
    codes = [ord(c) for c in CHARACTERS if predicate(c)]
    found = []
    at = 0
    while at < len(codes):
        best = at
        step = 1
        for candidate in (1, 2):
            end = at
            while end + 1 < len(codes) and codes[end + 1] == codes[end] + candidate:
                end += 1
            if end > best:
                best, step = end, candidate
        found.append((codes[at], codes[best], step))
        at = best + 1
    return found


def print_rows(rows):
    line = "   "
    for row in rows:
        text = " " + row + ","
        if len(line) + len(text) > 120:
            print(line)
            line = "   "
        line += text
    if line.strip():
        print(line)


def print_predicate(name, predicate):
    print(f"constexpr CharacterRange {name}Ranges[] = {{")
    print_rows(["{%d,%d,%d}" % row for row in ranges(predicate)])
    print(f"}};\nconst std::span<const CharacterRange> {name} = {name}Ranges;\n")


def print_mapping(name, mapping):
    single, special = [], []
    for c in CHARACTERS:
        target = mapping(c)
        if len(target) != 1:
            special.append((ord(c), [ord(t) for t in target]))
        elif target != c:
            single.append((ord(c), ord(target) - ord(c)))
    rows, at = [], 0
    while at < len(single):
        best, step = at, 1
        for candidate in (1, 2):
            end = at
            while end + 1 < len(single) and single[end + 1] == (single[end][0] + candidate, single[at][1]):
                end += 1
            if end > best:
                best, step = end, candidate
        rows.append("{%d,%d,%d,%d}" % (single[at][0], single[best][0], step, single[at][1]))
        at = best + 1
    print(f"constexpr CaseRange {name}Ranges[] = {{")
    print_rows(rows)
    print("};\n")
    print(f"constexpr CaseSequence {name}Sequences[] = {{")
    print_rows(["{%d,{%s}}" % (code, ",".join("%d" % t for t in target)) for code, target in special])
    print(f"}};\nconst CaseTable {name} = {{{name}Ranges, {name}Sequences}};\n")


def print_decimal_zeros():
    zeros = [ord(c) for c in CHARACTERS if c.isdecimal() and unicodedata.decimal(c) == 0]
    print("constexpr char32_t kDecimalZeroList[] = {")
    print_rows(["%d" % zero for zero in zeros])
    print("};\nconst std::span<const char32_t> kDecimalZeros = kDecimalZeroList;\n")


def main():
    which = sys.argv[1] if len(sys.argv) == 2 else ""
    if which not in ("classes", "case"):
        return __doc__
    print(f"// Character {'classes' if which == 'classes' else 'case mappings'} of Unicode {unicodedata.unidata_version},"
          " written by tools/crosscheck/template_unicode_tables.py; do not edit.")
    print('#include "text/jinja/unicode_data.h"\n')
    print("namespace gemmatrace::text::jinja {\n\n// clang-format off")
    if which == "classes":
        for name, predicate in PREDICATES.items():
            print_predicate(name, predicate)
        print_decimal_zeros()
    else:
        for name, mapping in MAPPINGS.items():
            print_mapping(name, mapping)
    print("// clang-format on\n\n}  // namespace gemmatrace::text::jinja")
    return 0


if __name__ == "__main__":
    sys.exit(main())
