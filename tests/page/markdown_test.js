// Markdown without a browser: blocks, the text in them, and what a hostile text must not do.

import assert from "node:assert/strict";
import { test } from "node:test";
import { parse_inlines } from "../../src/server/page/inline_markdown.js";
import { parse_blocks, settled_part } from "../../src/server/page/markdown.js";

// Blocks in few words: kinds, with what is inside.
function outline(blocks) {
    return blocks.map((block) => {
        switch (block.kind) {
            case "list":
                return [block.is_ordered ? `ol${block.start}` : "ul", ...block.items.map(outline)];
            case "quote":
                return ["quote", ...outline(block.blocks)];
            case "heading":
                return `h${block.level} ${block.text}`;
            case "code":
                return `code ${block.language}: ${block.text}`;
            case "table":
                return ["table", block.header, ...block.rows];
            case "rule":
                return "rule";
            default:
                return block.text;
        }
    });
}

const blocks_of = (text) => outline(parse_blocks(text));

test("Blocks are told apart", () => {
    assert.deepEqual(
        blocks_of("# One #\n\ntwo\nthree\n## Four\n---\n> five\nsix\n\n```c++ x\nseven\n\n  eight\n```\nnine"),
        ["h1 One", "two\nthree", "h2 Four", "rule", ["quote", "five\nsix"], "code c++: seven\n\n  eight", "nine"],
    );
});

test("Lists nest, also with the small indentation that models use", () => {
    assert.deepEqual(blocks_of("- a\n  - b\n- c"), [["ul", ["a", ["ul", ["b"]]], ["c"]]]);
    assert.deepEqual(blocks_of("1. a\n  - b\n2. c"), [["ol1", ["a", ["ul", ["b"]]], ["c"]]]);
    assert.deepEqual(blocks_of("3. a\n\n   more\n\n   ```\n   code\n   ```\n4. b"), [
        ["ol3", ["a", "more", "code : code"], ["b"]],
    ]);
    assert.deepEqual(blocks_of("* a\n- b"), [
        ["ul", ["a"]],
        ["ul", ["b"]],
    ]);
});

test("A number at the start of a line does not begin a list in a paragraph unless it is 1", () => {
    assert.deepEqual(blocks_of("It was in\n1984. Then"), ["It was in\n1984. Then"]);
    assert.deepEqual(blocks_of("Steps:\n1. go"), ["Steps:", ["ol1", ["go"]]]);
});

test("Tables need their rule, and rows get as many cells as the header", () => {
    assert.deepEqual(blocks_of("text\n| a | b |\n|:--|--:|\n| 1 |\n| 2 | x \\| y | 3 |\n\nend"), [
        "text",
        ["table", ["a", "b"], ["1", ""], ["2", "x | y"]],
        "end",
    ]);
    assert.deepEqual(blocks_of("| a | b |\n|---|"), ["| a | b |\n|---|"]);
});

test("A fence that is still open is code", () => {
    assert.deepEqual(blocks_of("```py\nx = 1"), ["code py: x = 1"]);
    assert.deepEqual(blocks_of("````\n```\n````"), ["code : ```"]);
});

test("Blocks read while a text grows, with the settled ones left alone, are those of the whole text", () => {
    const pieces = [
        "text\n",
        "\n",
        "- a\n",
        "  - b\n",
        "-",
        "--\n",
        "1. c\n",
        "2. d\n",
        "> e\n",
        "# f\n",
        "```\n",
        "~~~\n",
        "| g | h |\n",
        "|---|--:|\n",
        "|-",
        "|",
        "    i\n",
        "*",
        " ",
        "#",
        ">",
        "1",
        ".",
        "`",
    ];
    let state = 1; // the same texts each time
    const choose = () => {
        state = (state * 48271) % 2147483647;
        return pieces[state % pieces.length];
    };
    for (let round = 0; round < 400; ++round) {
        const text = Array.from({ length: 12 }, choose).join("");
        let settled = [];
        let start = 0;
        for (let end = 1; end <= text.length; ++end) {
            const tail = text.slice(start, end);
            const blocks = parse_blocks(tail);
            const { count, offset } = settled_part(tail, blocks);
            assert.deepEqual(
                outline([...settled, ...blocks]),
                outline(parse_blocks(text.slice(0, end))),
                JSON.stringify(text.slice(0, end)),
            );
            settled = [...settled, ...blocks.slice(0, count)];
            start += offset;
        }
    }
});

test("Emphasis, code, breaks and escapes are read", () => {
    assert.deepEqual(parse_inlines("a **b *c* d** `e*f*` \\*g\\* h  \ni ~~j~~"), [
        "a ",
        { kind: "strong", children: ["b ", { kind: "emphasis", children: ["c"] }, " d"] },
        " ",
        { kind: "code", text: "e*f*" },
        " *g* h  ",
        { kind: "break" },
        "i ",
        { kind: "deleted", children: ["j"] },
    ]);
    assert.deepEqual(parse_inlines("snake_case_name and 2 * 3 * 4 and **open"), [
        "snake_case_name and 2 * 3 * 4 and **open",
    ]);
    assert.deepEqual(parse_inlines("``a ` b``"), [{ kind: "code", text: "a ` b" }]);
});

test("Formulas stay as they are written and prices are no formulas", () => {
    assert.deepEqual(parse_inlines("$a_1 * b_2 * c$"), [{ kind: "math", text: "$a_1 * b_2 * c$", is_display: false }]);
    assert.deepEqual(parse_inlines("\\[x_1\\]"), [{ kind: "math", text: "\\[x_1\\]", is_display: true }]);
    assert.deepEqual(parse_inlines("from $5 to $10"), ["from $5 to $10"]);
});

test("Only http and https make links", () => {
    const kinds = (text) =>
        parse_inlines(text)
            .filter((node) => node.kind === "link")
            .map((node) => node.href);
    assert.deepEqual(kinds('[a](https://x.org/a_(b) "title") <http://y.org> see https://z.org/p?q=1.'), [
        "https://x.org/a_(b)",
        "http://y.org/",
        "https://z.org/p?q=1",
    ]);
    for (const address of [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "data:text/html,x",
        "vbscript:x",
        "//x.org",
        "/x",
        "file:///x",
        "\u0001javascript:alert(1)",
        "java\nscript:alert(1)",
    ]) {
        assert.deepEqual(kinds(`[a](${address}) <${address}> ![b](${address})`), [], address);
    }
});

test("HTML is text", () => {
    assert.deepEqual(parse_inlines("<b>x</b> <img src=x onerror=y> &lt;"), ["<b>x</b> <img src=x onerror=y> &lt;"]);
    assert.deepEqual(blocks_of("<div>\n\n<!-- x -->"), ["<div>", "<!-- x -->"]);
});

test("Nothing of a text is lost", () => {
    const text_of = (nodes) =>
        nodes.map((node) => (typeof node === "string" ? node : (node.text ?? text_of(node.children ?? [])))).join("");
    assert.equal(
        text_of(parse_inlines("*a **b _c `d [e](f) ![g] <h ~~i $j \\k")),
        "*a **b _c `d [e](f) ![g] <h ~~i $j \\k",
    );
});

test("Long and deep texts that have no meaning are read to their end", { timeout: 60000 }, () => {
    for (const piece of ["[", "*a ", "**a", "`a``b", "$a", "\\(", "<", "https://", "[x](", "_a", "~~a", "!["]) {
        parse_inlines(piece.repeat(20000));
    }
    for (const piece of ["> ", "- ", "- a\n", "# ", "a|b\n", "|-", "1. a\n\n", "```\n"]) {
        parse_blocks(piece.repeat(20000));
    }
    parse_blocks(Array.from({ length: 400 }, (_, depth) => `${" ".repeat(2 * depth)}- x`).join("\n"));
});
