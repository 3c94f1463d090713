// Reads the text within a block of Markdown: emphasis, code, links, breaks, formulas.
//
// A node is a string, or an object by `kind`: strong, emphasis, deleted {children}, code {text}, math {text,
// is_display}, link {href, children}, break. Formulas are kept as they are written, so that the rules of Markdown do
// not eat them.

// Limits that keep a hostile line from taking time in the square of its length.
const kMaxOpenRuns = 24;
const kMaxAddressCharacters = 2000;

const kPlainText = /[^\\`*_~[\]!<$\n]+/y;
const kEscape = /\\([!-/:-@[-`{-~])/y;
const kAngleLink = /<(https?:\/\/[^\s<>]+)>/iy;
const kLineBreakTag = /<br ?\/?>/iy;
const kImage = /!(?=\[)/y;
const kBareLink = /(https?:\/\/[^\s<>"'`]+[^\s<>"'`.,;:!?)\]*_~])/i;
// A dollar sign opens a formula and closes it as in Pandoc, so that prices stay prices.
const kMath = /\$\$([^$]+)\$\$|\$(?!\s)([^$\n]{1,1000})(?<!\s)\$(?!\d)|\\\[([^]{1,1000}?)\\\]|\\\(([^]{1,1000}?)\\\)/y;

// The nodes of `text`. Within a link there are no links.
export function parse_inlines(text, may_link = true) {
    const reader = new InlineReader(text, may_link);
    return reader.read();
}

// `address` if it is one that a link may lead to, else null.
export function safe_address(address) {
    try {
        const url = new URL(address);
        return url.protocol === "http:" || url.protocol === "https:" ? url.href : null;
    } catch {
        return null;
    }
}

class InlineReader {
    #text;
    #may_link;
    #position = 0;
    // Runs of * _ or ~ that wait for their end, innermost last, each with the nodes read since. The lowest is the text
    // itself.
    #open = [{ mark: "", length: 0, nodes: [] }];
    // Lengths of runs of backticks that have no partner any more.
    #lone_backticks = new Set();
    // Opening brackets and parentheses to their closing ones; made when first needed.
    #partners = null;

    constructor(text, may_link) {
        this.#text = text;
        this.#may_link = may_link;
    }

    read() {
        while (this.#position < this.#text.length) {
            this.#read_next();
        }
        this.#flatten(0);
        return finished(this.#open[0].nodes, this.#may_link);
    }

    #add(node) {
        this.#open.at(-1).nodes.push(node);
    }

    // The match of a sticky expression at the present position, which then lies behind it; null if there is none.
    #take(expression) {
        expression.lastIndex = this.#position;
        const match = expression.exec(this.#text);
        this.#position += match ? match[0].length : 0;
        return match;
    }

    #read_next() {
        const plain = this.#take(kPlainText);
        if (plain) {
            this.#add(plain[0]);
            return;
        }
        const character = this.#text[this.#position];
        const is_read = {
            "\\": () => this.#read_math() || this.#read_escape(),
            "`": () => this.#read_code(),
            $: () => this.#read_math(),
            "*": () => this.#read_run("*"),
            _: () => this.#read_run("_"),
            "~": () => this.#read_run("~"),
            "[": () => this.#read_link(),
            "!": () => this.#read_image(),
            "<": () => this.#read_angle(),
            "\n": () => this.#read_line_end(),
        }[character]?.();
        if (!is_read) {
            this.#position += 1;
            this.#add(character);
        }
    }

    #read_escape() {
        const escape = this.#take(kEscape);
        if (escape) {
            this.#add(escape[1]);
        }
        return escape !== null;
    }

    #read_math() {
        const math = this.#take(kMath);
        if (math) {
            this.#add({
                kind: "math",
                text: math[0],
                is_display: math[0].startsWith("$$") || math[0].startsWith("\\["),
            });
        }
        return math !== null;
    }

    #read_code() {
        const [marks] = this.#take(/`+/y);
        const start = this.#position;
        if (!this.#lone_backticks.has(marks.length)) {
            const closing = /`+/g;
            closing.lastIndex = start;
            for (let end = closing.exec(this.#text); end; end = closing.exec(this.#text)) {
                if (end[0].length === marks.length) {
                    const text = this.#text.slice(start, end.index).replaceAll("\n", " ");
                    const is_padded = text.startsWith(" ") && text.endsWith(" ") && text.trim() !== "";
                    this.#add({ kind: "code", text: is_padded ? text.slice(1, -1) : text });
                    this.#position = closing.lastIndex;
                    return true;
                }
            }
            this.#lone_backticks.add(marks.length);
        }
        this.#add(marks);
        return true;
    }

    #read_angle() {
        if (this.#take(kLineBreakTag)) {
            this.#add({ kind: "break" });
            return true;
        }
        const link = this.#may_link ? this.#take(kAngleLink) : null;
        if (link) {
            this.#add(link_node(link[1], [link[1]]));
        }
        return link !== null;
    }

    // Two spaces or a backslash at the end of a line ask for a break; so does a line end itself in what models write as
    // verse or addresses, but there the rules say space.
    #read_line_end() {
        const nodes = this.#open.at(-1).nodes;
        const before = typeof nodes.at(-1) === "string" ? nodes.at(-1) : "";
        this.#position += 1;
        if (before.endsWith("  ")) {
            this.#add({ kind: "break" });
        } else if (before === "\\") {
            nodes.pop();
            this.#add({ kind: "break" });
        } else {
            this.#add("\n");
        }
        return true;
    }

    // An image is only named: showing it would be a request to elsewhere.
    #read_image() {
        const start = this.#position;
        const is_read = this.#take(kImage) !== null && this.#read_link();
        this.#position = is_read ? this.#position : start;
        return is_read;
    }

    #read_link() {
        const close = this.#may_link ? this.#closing(this.#position) : -1;
        if (close < 0 || this.#text[close + 1] !== "(") {
            return false;
        }
        const end = this.#closing(close + 1);
        if (end < 0 || end - close > kMaxAddressCharacters) {
            return false;
        }
        // A title behind the address is left out.
        const address = this.#text
            .slice(close + 2, end)
            .trim()
            .split(/\s/)[0]
            .replace(/^<|>$/g, "");
        const label = this.#text.slice(this.#position + 1, close);
        if (safe_address(address) === null) {
            return false;
        }
        this.#add(link_node(address, parse_inlines(label === "" ? address : label, false)));
        this.#position = end + 1;
        return true;
    }

    // The position of the bracket that closes the one at `start`, or -1. All pairs are found in one walk over the text.
    #closing(start) {
        this.#partners ??= bracket_pairs(this.#text);
        return this.#partners.get(start) ?? -1;
    }

    // A run of one mark closes what it can and opens the rest. For * the space beside it decides alone: the stricter
    // rules of CommonMark fail where words are not set apart by spaces. A _ within a word is part of it.
    #read_run(mark) {
        const start = this.#position;
        let length = 0;
        while (this.#text[start + length] === mark) {
            length += 1;
        }
        this.#position += length;
        const before = this.#text[start - 1] ?? " ";
        const after = this.#text[this.#position] ?? " ";
        const is_word = (character) => /[\p{L}\p{N}]/u.test(character);
        const may_open = !/\s/.test(after) && !(mark === "_" && is_word(before)) && !(mark === "~" && length !== 2);
        const may_close = !/\s/.test(before) && !(mark === "_" && is_word(after)) && !(mark === "~" && length !== 2);
        const rest = may_close ? this.#close(mark, length) : length;
        if (rest > 0 && may_open && this.#open.length < kMaxOpenRuns) {
            this.#open.push({ mark, length: rest, nodes: [] });
        } else if (rest > 0) {
            this.#add(mark.repeat(rest));
        }
        return true;
    }

    // Wraps what lies behind open runs of `mark`; returns how many of `length` marks found no partner.
    #close(mark, length) {
        let rest = length;
        while (rest > 0) {
            const index = this.#open.findLastIndex((run) => run.mark === mark);
            if (index < 0) {
                break;
            }
            this.#flatten(index);
            const run = this.#open[index];
            const used = rest >= 2 && run.length >= 2 ? 2 : 1;
            const kind = mark === "~" ? "deleted" : used === 2 ? "strong" : "emphasis";
            run.nodes = [{ kind, children: run.nodes }];
            run.length -= used;
            rest -= used;
            if (run.length === 0) {
                this.#open.pop();
                this.#add(run.nodes[0]);
            }
        }
        return rest;
    }

    // Makes the runs above `index` text again: nothing closed them.
    #flatten(index) {
        while (this.#open.length > index + 1) {
            const run = this.#open.pop();
            this.#add(run.mark.repeat(run.length));
            run.nodes.forEach((node) => this.#add(node));
        }
    }
}

// The positions of [ and ( in `text` to those of the ] and ) that close them.
function bracket_pairs(text) {
    const pairs = new Map();
    const waiting = { "]": [], ")": [] };
    for (let position = 0; position < text.length; ++position) {
        const character = text[position];
        if (character === "\\") {
            position += 1;
        } else if (character === "[" || character === "(") {
            waiting[character === "[" ? "]" : ")"].push(position);
        } else if (waiting[character]?.length > 0) {
            pairs.set(waiting[character].pop(), position);
        }
    }
    return pairs;
}

function link_node(address, children) {
    const href = safe_address(address);
    return href === null ? address : { kind: "link", href, children };
}

// The nodes with neighbouring strings joined, and addresses in the text made links.
function finished(nodes, may_link) {
    const joined = [];
    for (const node of nodes) {
        if (typeof node === "string" && typeof joined.at(-1) === "string") {
            joined.push(joined.pop() + node);
        } else {
            joined.push(
                node.children && node.kind !== "link" ? { ...node, children: finished(node.children, may_link) } : node,
            );
        }
    }
    return may_link ? joined.flatMap((node) => (typeof node === "string" ? linked(node) : [node])) : joined;
}

function linked(text) {
    return text
        .split(kBareLink)
        .map((part, index) => (index % 2 === 1 ? link_node(part, [part]) : part))
        .filter((part) => part !== "");
}
