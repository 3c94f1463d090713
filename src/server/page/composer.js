// Where the next message is written: sends with Enter, stops with Escape, and keeps a draft for each conversation.

import { by_id, icon } from "./dom.js";

// On a phone Enter makes a new line, as everywhere there; the button sends.
const is_touch = () => matchMedia("(hover: none) and (pointer: coarse)").matches;

export class Composer {
    #field = by_id("message");
    #button = by_id("send");
    #thinking = by_id("thinking");
    #drafts = new Map();
    #conversation = null;
    #is_running = false;

    // actions: {send(text), stop(), set_thinking(on), edit_last()}; edit_last returns whether there is something to
    // edit.
    constructor(actions) {
        by_id("composer").addEventListener("submit", (event) => {
            event.preventDefault();
            if (this.#is_running) {
                actions.stop();
            } else {
                this.#send(actions);
            }
        });
        this.#field.addEventListener("input", () => this.#on_input());
        this.#field.addEventListener("keydown", (event) => {
            if (event.key === "Enter" && !event.shiftKey && !event.isComposing && !is_touch()) {
                event.preventDefault();
                this.#send(actions);
            } else if (event.key === "ArrowUp" && this.#field.value === "" && actions.edit_last()) {
                event.preventDefault();
            }
        });
        this.#thinking.addEventListener("click", () => {
            const on = this.#thinking.getAttribute("aria-pressed") !== "true";
            this.#thinking.setAttribute("aria-pressed", String(on));
            actions.set_thinking(on);
        });
    }

    show(conversation, is_running) {
        if (this.#conversation !== conversation) {
            this.#conversation = conversation;
            this.#field.value = this.#drafts.get(conversation.id) ?? "";
        }
        this.#is_running = is_running;
        this.#thinking.setAttribute("aria-pressed", String(conversation.settings.thinking));
        const label = is_running ? "Stop" : "Send";
        this.#button.setAttribute("aria-label", label);
        this.#button.title = is_running ? "Stop (Esc)" : "Send (Enter)";
        this.#button.classList.toggle("is-stop", is_running);
        this.#button.replaceChildren(icon(is_running ? "stop" : "send"));
        this.#on_input();
    }

    focus() {
        this.#field.focus();
    }

    // Makes typing possible at once, except where that would raise a keyboard over the page.
    invite() {
        if (!is_touch()) {
            this.focus();
        }
    }

    #send(actions) {
        const text = this.#field.value;
        if (this.#is_running || text.trim() === "") {
            return;
        }
        this.#field.value = "";
        this.#on_input();
        if (is_touch()) {
            this.#field.blur(); // or the keyboard hides the reply
        }
        actions.send(text);
    }

    #on_input() {
        this.#drafts.set(this.#conversation.id, this.#field.value);
        // Disabled by word only: a disabled button would throw the focus away.
        this.#button.setAttribute("aria-disabled", String(!this.#is_running && this.#field.value.trim() === ""));
        this.#field.style.height = "auto";
        this.#field.style.height = `${this.#field.scrollHeight}px`;
    }
}
