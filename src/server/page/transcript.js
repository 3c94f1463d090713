// The messages of the conversation that is open, kept in sight while a reply grows.

import { by_id, element } from "./dom.js";
import { create_message_view } from "./message_view.js";

// Closer to the end than this, the reader is following.
const kFollowPixels = 60;

export class Transcript {
    #root = by_id("transcript");
    #list = by_id("messages");
    #latest = by_id("latest");
    #views = new WeakMap();
    #conversation = null;
    #is_running = false;
    #follows = true;
    #frame = 0;
    #actions;

    // actions: as create_message_view takes them.
    constructor(actions) {
        this.#actions = actions;
        this.#root.addEventListener("scroll", () => this.#on_scroll());
        this.#latest.addEventListener("click", () => {
            this.follow();
            this.#root.focus({ preventScroll: true });
        });
        // A reply also grows when a window becomes narrower, and the composer takes room when text is typed.
        new ResizeObserver(() => this.#keep_in_sight()).observe(this.#list);
        new ResizeObserver(() => this.#keep_in_sight()).observe(this.#root);
    }

    // Shows the conversation as it is. `welcome` is shown while it has no messages.
    show(conversation, is_running, welcome) {
        if (this.#conversation?.id !== conversation.id) {
            this.#follows = true;
        }
        this.#conversation = conversation;
        this.#is_running = is_running;
        const views = conversation.messages.map((message) => this.#view_of(message));
        const nodes =
            views.length > 0 ? views.map((view) => view.root) : [element("div", { class: "welcome" }, ...welcome)];
        // Nodes that stay are not touched: they may hold the focus.
        nodes.forEach((node, index) => {
            if (this.#list.children[index] !== node) {
                this.#list.insertBefore(node, this.#list.children[index] ?? null);
            }
        });
        while (this.#list.children.length > nodes.length) {
            this.#list.lastElementChild.remove();
        }
        const last_question = conversation.messages.findLastIndex((message) => message.role === "user");
        views.forEach((view, index) =>
            view.refresh({
                is_last: index === views.length - 1,
                is_last_question: index === last_question,
                is_running,
            }),
        );
        this.#keep_in_sight();
    }

    // The last reply has grown: it is shown with the next picture, however many pieces come before.
    grow() {
        this.#frame ||= requestAnimationFrame(() => {
            this.#frame = 0;
            const last = this.#conversation.messages.at(-1);
            if (this.#is_running && last?.role === "assistant") {
                this.#view_of(last).refresh({ is_last: true, is_running: true });
                this.#keep_in_sight();
            }
        });
    }

    // Goes to the end and stays there.
    follow() {
        this.#follows = true;
        this.#keep_in_sight();
    }

    // Lets the reader edit the last question; returns whether there is one.
    edit_last_question() {
        const question = this.#conversation.messages.findLast((message) => message.role === "user");
        if (question === undefined || this.#is_running) {
            return false;
        }
        this.#view_of(question).start_editing();
        return true;
    }

    #view_of(message) {
        if (!this.#views.has(message)) {
            this.#views.set(message, create_message_view(message, this.#actions));
        }
        return this.#views.get(message);
    }

    #distance_to_end() {
        return this.#root.scrollHeight - this.#root.scrollTop - this.#root.clientHeight;
    }

    #on_scroll() {
        this.#follows = this.#distance_to_end() < kFollowPixels;
        this.#latest.hidden = this.#follows;
    }

    #keep_in_sight() {
        if (this.#follows) {
            this.#root.scrollTop = this.#root.scrollHeight;
        }
        this.#latest.hidden = this.#distance_to_end() < kFollowPixels;
    }
}
