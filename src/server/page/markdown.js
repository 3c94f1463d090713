// Reads Markdown into blocks: plain objects, so that nothing a model writes is ever taken for HTML.
//
// The dialect is what models write: CommonMark with tables and task lists, without HTML, indented code, reference links
// and underlined headings. A block, by `kind`:
//   paragraph {text}, heading {level, text}, code {language, text}, rule, quote {blocks},
//   list {is_ordered, start, is_loose, items: [blocks]}, table {alignments, header: [text], rows: [[text]]}
// `text` is still to be read by inline_markdown.js, that of code excepted.

// Quotes and lists deeper than this are left as text, so that a reply cannot exhaust the stack.
const kMaxDepth = 16;

const kFence = /^\s*(`{3,}|~{3,})(.*)$/;
const kHeading = /^ {0,3}(#{1,6})(\s|$)/;
const kRule = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const kQuote = /^ {0,3}> ?/;
const kMarker = /^([ \t]*)([-*+]|\d{1,9}[.)])([ \t]+|$)/;
const kTableRule = /^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;

// The blocks of `text`. Each has `line`, the number of its first line counted from 0.
export function parse_blocks(text) {
    return read_blocks(text.split("\n"), 0);
}

// How many of the blocks of `text`, which still grows, nothing that follows can change, and where in it the next
// begins. Whether a line begins a block is seen from that line and the next, so both must be complete.
export function settled_part(text, blocks) {
    const line_starts = [0];
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", end + 1)) {
        line_starts.push(end + 1);
    }
    const count = blocks.findLastIndex((block) => block.line + 2 < line_starts.length);
    return count <= 0 ? { count: 0, offset: 0 } : { count, offset: line_starts[blocks[count].line] };
}

function read_blocks(lines, depth) {
    const blocks = [];
    let line = 0;
    while (line < lines.length) {
        if (is_blank(lines[line])) {
            line += 1;
            continue;
        }
        const [block, next] = read_block(lines, line, depth);
        block.line = line;
        blocks.push(block);
        line = next;
    }
    return blocks;
}

// Every reader takes the lines and the first line of its block, and returns the block and the line behind it, or null.
function read_block(lines, start, depth) {
    return (
        read_code(lines, start) ??
        read_heading(lines, start) ??
        read_rule(lines, start) ??
        (depth < kMaxDepth ? (read_quote(lines, start, depth) ?? read_list(lines, start, depth)) : null) ??
        read_table(lines, start) ??
        read_paragraph(lines, start, depth)
    );
}

function is_blank(line) {
    return line.trim() === "";
}

// Columns of space before the first character; a tab counts as four.
function indent_of(line) {
    let columns = 0;
    for (const character of line) {
        if (character !== " " && character !== "\t") {
            break;
        }
        columns += character === "\t" ? 4 : 1;
    }
    return columns;
}

// The line with up to `columns` of its indentation removed.
function outdent(line, columns) {
    return " ".repeat(Math.max(0, indent_of(line) - columns)) + line.trimStart();
}

function opening_fence(line) {
    const fence = kFence.exec(line);
    // Backticks behind backticks are a code span in a paragraph.
    return fence && !(fence[1][0] === "`" && fence[2].includes("`")) ? fence : null;
}

function read_code(lines, start) {
    const fence = opening_fence(lines[start]);
    if (!fence) {
        return null;
    }
    const [, marks, label] = fence;
    const indent = indent_of(lines[start]);
    const content = [];
    let line = start + 1;
    for (; line < lines.length; ++line) {
        const closing = lines[line].trim();
        if (closing.length >= marks.length && closing === marks[0].repeat(closing.length)) {
            line += 1;
            break;
        }
        content.push(indent === 0 ? lines[line] : outdent(lines[line], Math.min(indent, indent_of(lines[line]))));
    }
    return [{ kind: "code", language: label.trim().split(/\s/)[0], text: content.join("\n") }, line];
}

function read_heading(lines, start) {
    const heading = kHeading.exec(lines[start]);
    if (!heading) {
        return null;
    }
    const words = lines[start].trim().slice(heading[1].length).trim();
    // Number signs at the end close the heading.
    const bare = words.replace(/#+$/, "");
    const text = bare === "" || bare.endsWith(" ") ? bare.trim() : words;
    return [{ kind: "heading", level: heading[1].length, text }, start + 1];
}

function read_rule(lines, start) {
    return kRule.test(lines[start]) ? [{ kind: "rule" }, start + 1] : null;
}

function read_quote(lines, start, depth) {
    if (!kQuote.test(lines[start])) {
        return null;
    }
    const content = [];
    let line = start;
    for (; line < lines.length; ++line) {
        if (kQuote.test(lines[line])) {
            content.push(lines[line].replace(kQuote, ""));
        } else if (continues_paragraph(lines, line) && !is_blank(content.at(-1))) {
            content.push(lines[line]);
        } else {
            break;
        }
    }
    return [{ kind: "quote", blocks: read_blocks(content, depth + 1) }, line];
}

function marker_of(line) {
    const marker = kMarker.exec(line);
    if (!marker || kRule.test(line)) {
        return null;
    }
    const [, , sign, space] = marker;
    const indent = indent_of(line);
    // More than four spaces belong to the content; none at all means that the content begins on the next line.
    const gap = space.length >= 1 && space.length <= 4 ? space.length : 1;
    return {
        indent,
        sign,
        type: sign.at(-1),
        content_indent: indent + sign.length + gap,
        text: marker.input.slice(marker[0].length),
    };
}

function read_list(lines, start, depth) {
    const first = marker_of(lines[start]);
    if (!first) {
        return null;
    }
    const is_ordered = first.sign.length > 1;
    const list = {
        kind: "list",
        is_ordered,
        start: is_ordered ? parseInt(first.sign, 10) : 1,
        is_loose: false,
        items: [],
    };
    let line = start;
    for (let marker = first; marker?.type === first.type && marker.indent < first.indent + 2;) {
        const [content, next] = read_item(lines, line, marker);
        const blocks = read_blocks(content, depth + 1);
        list.items.push(blocks);
        line = next;
        marker = line < lines.length ? marker_of(lines[line]) : null;
        const has_gap = blocks.some((block, index) => index > 0 && is_blank(content[block.line - 1]));
        const is_apart = marker?.type === first.type && is_blank(lines[line - 1]);
        list.is_loose ||= has_gap || is_apart;
    }
    return [list, line];
}

// The lines of an item without its marker and indentation, and the line behind it and the blank lines that follow it.
function read_item(lines, start, marker) {
    const content = [marker.text];
    let line = start + 1;
    for (; line < lines.length; ++line) {
        const text = lines[line];
        if (is_blank(text)) {
            content.push("");
        } else if (indent_of(text) >= marker.content_indent) {
            content.push(outdent(text, marker.content_indent));
        } else if (indent_of(text) >= marker.indent + 2 && marker_of(text)) {
            // Models often indent a list in a list by less than the rules ask for.
            content.push(text.trimStart());
        } else if (!is_blank(content.at(-1)) && !marker_of(text) && continues_paragraph(lines, line)) {
            content.push(text.trimStart());
        } else {
            break;
        }
    }
    return [content, line];
}

function cells_of(line) {
    let row = line.trim();
    row = row.startsWith("|") ? row.slice(1) : row;
    row = row.endsWith("|") && !row.endsWith("\\|") ? row.slice(0, -1) : row;
    return row.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function starts_table(lines, start) {
    const rule = lines[start + 1];
    return (
        rule !== undefined &&
        rule.includes("|") &&
        lines[start].includes("|") &&
        kTableRule.test(rule) &&
        cells_of(rule).length === cells_of(lines[start]).length
    );
}

function read_table(lines, start) {
    if (!starts_table(lines, start)) {
        return null;
    }
    const header = cells_of(lines[start]);
    const alignments = cells_of(lines[start + 1]).map((cell) => {
        const [left, right] = [cell.startsWith(":"), cell.endsWith(":")];
        return right ? (left ? "center" : "right") : "left";
    });
    const rows = [];
    let line = start + 2;
    for (; line < lines.length && !is_blank(lines[line]) && !starts_block(lines[line]); ++line) {
        const cells = cells_of(lines[line]);
        rows.push(header.map((_, column) => cells[column] ?? ""));
    }
    return [{ kind: "table", alignments, header, rows }, line];
}

// Whether the line ends a paragraph before it. A number in running text may come to stand at the start of a line, so
// only a list that begins with 1 does.
function starts_block(line) {
    const marker = marker_of(line);
    return (
        kHeading.test(line) ||
        kQuote.test(line) ||
        kRule.test(line) ||
        opening_fence(line) !== null ||
        (marker !== null && marker.text.trim() !== "" && (marker.sign.length === 1 || parseInt(marker.sign, 10) === 1))
    );
}

function continues_paragraph(lines, line) {
    return !is_blank(lines[line]) && !starts_block(lines[line]) && !starts_table(lines, line);
}

function read_paragraph(lines, start, depth) {
    let line = start + 1;
    // At the greatest depth lists and quotes are text.
    while (line < lines.length && (depth < kMaxDepth ? continues_paragraph(lines, line) : !is_blank(lines[line]))) {
        line += 1;
    }
    return [
        {
            kind: "paragraph",
            text: lines
                .slice(start, line)
                .map((text) => text.trimStart())
                .join("\n")
                .trimEnd(),
        },
        line,
    ];
}
