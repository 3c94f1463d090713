// Shows Markdown that grows: what is settled stays, and only the last block is made again.

import { element, icon } from "./dom.js";
import { copy_text } from "./feedback.js";
import { parse_inlines } from "./inline_markdown.js";
import { parse_blocks, settled_part } from "./markdown.js";

// Shows `text` as Markdown in `root`; update() takes the text as it has become.
export class MarkdownView {
    #text = "";
    // Where the first block that may still change begins in the text.
    #settled = 0;
    // The nodes of the blocks that may still change.
    #live = [];

    constructor() {
        this.root = element("div", { class: "prose", dir: "auto" });
    }

    update(text) {
        if (text === this.#text) {
            return;
        }
        if (!text.startsWith(this.#text)) {
            this.#settled = 0;
            this.#live = [];
            this.root.replaceChildren();
        }
        this.#text = text;
        const tail = text.slice(this.#settled);
        const blocks = parse_blocks(tail);
        if (!this.#grow_code(blocks)) {
            const nodes = blocks.map(block_node);
            this.#live.forEach((node) => node.remove());
            this.root.append(...nodes);
            this.#live = nodes;
        }
        const { count, offset } = settled_part(tail, blocks);
        this.#live = this.#live.slice(count);
        this.#settled += offset;
    }

    // A long listing that only grew keeps its elements, so that selecting, scrolling and copying go on undisturbed.
    #grow_code(blocks) {
        const [node, block] = [this.#live[0], blocks[0]];
        if (
            this.#live.length !== 1 ||
            blocks.length !== 1 ||
            block.kind !== "code" ||
            node.dataset.language !== block.language
        ) {
            return false;
        }
        node.querySelector("code").firstChild.data = block.text;
        return true;
    }
}

function block_node(block) {
    switch (block.kind) {
        case "heading":
            // The page's own headings come first: a reply's begin at the third level.
            return element(`h${Math.min(6, block.level + 2)}`, {}, ...inline_nodes(block.text));
        case "code":
            return code_node(block);
        case "rule":
            return element("hr");
        case "quote":
            return element("blockquote", {}, ...block.blocks.map(block_node));
        case "list":
            return list_node(block);
        case "table":
            return table_node(block);
        default:
            return element("p", {}, ...inline_nodes(block.text));
    }
}

function list_node(list) {
    const items = list.items.map((blocks) =>
        element(
            "li",
            {},
            ...blocks.flatMap((block) =>
                block.kind === "paragraph" && !list.is_loose
                    ? inline_nodes(with_check_box(block.text))
                    : [block_node(block)],
            ),
        ),
    );
    return list.is_ordered
        ? element("ol", { start: list.start === 1 ? null : list.start }, ...items)
        : element("ul", {}, ...items);
}

function with_check_box(text) {
    return text.replace(/^\[ \] /, "☐ ").replace(/^\[[xX]\] /, "☑ ");
}

function table_node(table) {
    const row = (tag, cells) =>
        element(
            "tr",
            {},
            ...cells.map((cell, column) =>
                element(tag, { class: `align-${table.alignments[column]}` }, ...inline_nodes(cell)),
            ),
        );
    // A wide table scrolls in its own box, by keyboard too.
    return element(
        "div",
        { class: "table", tabindex: "0", role: "group", "aria-label": "Table" },
        element(
            "table",
            {},
            element("thead", {}, row("th", table.header)),
            element("tbody", {}, ...table.rows.map((cells) => row("td", cells))),
        ),
    );
}

// Code with its language and a button that copies it. Also used for the arguments of tool calls.
export function code_node({ language, text }) {
    const code = element("code", {}, document.createTextNode(text));
    const label = element("span", {}, "Copy");
    const copy = element(
        "button",
        {
            type: "button",
            class: "code-copy",
            "aria-label": "Copy code",
            click: () =>
                copy_text(code.textContent, (is_copied) => {
                    label.textContent = is_copied ? "Copied" : "Copy";
                }),
        },
        icon("copy"),
        label,
    );
    const name = language === "" ? "text" : language;
    return element(
        "div",
        { class: "code", "data-language": language },
        element("div", { class: "code-head" }, element("span", { class: "code-language" }, name), copy),
        element("pre", { tabindex: "0", role: "group", "aria-label": `Code, ${name}`, dir: "ltr" }, code),
    );
}

function inline_nodes(text) {
    return parse_inlines(text).map(inline_node);
}

function inline_node(node) {
    if (typeof node === "string") {
        return document.createTextNode(node);
    }
    const children = (node.children ?? []).map(inline_node);
    switch (node.kind) {
        case "strong":
            return element("strong", {}, ...children);
        case "emphasis":
            return element("em", {}, ...children);
        case "deleted":
            return element("del", {}, ...children);
        case "code":
            return element("code", {}, node.text);
        case "math":
            return element("span", { class: node.is_display ? "math math-display" : "math" }, node.text);
        case "link":
            return element("a", { href: node.href, target: "_blank", rel: "noopener noreferrer" }, ...children);
        default:
            return element("br");
    }
}
