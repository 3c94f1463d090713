// The list of conversations in the drawer: by day, to open, rename and delete.

import { by_id, element, icon_button } from "./dom.js";

const kDayMilliseconds = 24 * 60 * 60 * 1000;

export class ConversationList {
    #root = by_id("conversations");
    #actions;

    // actions: {rename(conversation, title), remove(conversation)}; opening follows the link's address.
    constructor(actions) {
        this.#actions = actions;
    }

    // Shows the conversations, latest first; the one with id `current` is the open one.
    show(conversations, current, is_running) {
        if (this.#root.querySelector("input")) {
            return; // a title is being typed
        }
        const focused = this.#focused();
        const groups = grouped(conversations);
        this.#root.replaceChildren(
            ...Array.from(groups, ([age, members]) =>
                element(
                    "section",
                    {},
                    element("h2", {}, age),
                    element(
                        "ul",
                        {},
                        ...members.map((conversation) =>
                            this.#row(conversation, conversation.id === current, is_running(conversation)),
                        ),
                    ),
                ),
            ),
        );
        this.#focus(focused);
    }

    #row(conversation, is_current, is_running) {
        const title = conversation.title || "Untitled";
        const link = element(
            "a",
            {
                href: `#${conversation.id}`,
                class: "conversation-link",
                title,
                "aria-current": is_current ? "page" : null,
                "data-part": "link",
            },
            is_running ? element("span", { class: "running", role: "img", "aria-label": "Replying" }) : null,
            element("span", { class: "conversation-title", dir: "auto" }, title),
        );
        const rename = icon_button("pencil", `Rename ${title}`, () => this.#start_renaming(conversation, row));
        const remove = icon_button("trash", `Delete ${title}`, () => this.#actions.remove(conversation));
        rename.dataset.part = "rename";
        remove.dataset.part = "remove";
        const row = element(
            "li",
            { class: "conversation", "data-id": conversation.id },
            link,
            element("div", { class: "conversation-tools" }, rename, remove),
        );
        return row;
    }

    #start_renaming(conversation, row) {
        const field = element("input", { type: "text", maxlength: 200, "aria-label": "Title", dir: "auto" });
        field.value = conversation.title;
        let is_done = false;
        const finish = (title) => {
            if (is_done) {
                return; // leaving the field comes after Enter once more
            }
            is_done = true;
            row.replaceChildren();
            this.#actions.rename(conversation, title.trim() || conversation.title);
            this.#focus({ id: conversation.id, part: "rename" });
        };
        field.addEventListener("keydown", (event) => {
            if (event.key === "Enter" && !event.isComposing) {
                finish(field.value);
            } else if (event.key === "Escape") {
                event.stopPropagation();
                finish(conversation.title);
            }
        });
        field.addEventListener("blur", () => finish(field.value));
        row.replaceChildren(field);
        field.select();
    }

    // Rows are made anew, so the focus is remembered by what it was on and where that stood.
    #focused() {
        const row = document.activeElement?.closest?.(".conversation");
        const rows = Array.from(this.#root.querySelectorAll(".conversation"));
        return row ? { id: row.dataset.id, part: document.activeElement.dataset.part, index: rows.indexOf(row) } : null;
    }

    #focus(focused) {
        if (focused === null) {
            return;
        }
        const rows = Array.from(this.#root.querySelectorAll(".conversation"));
        const row =
            rows.find((candidate) => candidate.dataset.id === focused.id) ??
            rows[Math.min(focused.index, rows.length - 1)];
        (row?.querySelector(`[data-part="${focused.part}"]`) ?? by_id("new-chat")).focus();
    }
}

function age_of(conversation) {
    const today = new Date().setHours(0, 0, 0, 0);
    const age = today - conversation.updated;
    return age <= 0
        ? "Today"
        : age <= kDayMilliseconds
          ? "Yesterday"
          : age <= 7 * kDayMilliseconds
            ? "This week"
            : "Earlier";
}

// The conversations by age, in their order.
function grouped(conversations) {
    const groups = new Map();
    for (const conversation of conversations) {
        const age = age_of(conversation);
        groups.set(age, [...(groups.get(age) ?? []), conversation]);
    }
    return groups;
}
