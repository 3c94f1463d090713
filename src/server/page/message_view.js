// Shows one message: what was asked, or a reply with its thinking, tool calls, speed and what can be done with it.

import { speed_of } from "./conversation.js";
import { element, icon, icon_button } from "./dom.js";
import { copy_text } from "./feedback.js";
import { code_node, MarkdownView } from "./markdown_view.js";

// Why a reply ended, where the reader should know.
const kEndings = {
    length: "The reply was cut off at the limit of tokens.",
    content_filter: "The reply was cut off by a filter.",
    stopped: "Stopped.",
    interrupted: "Interrupted: the page was closed or loaded again.",
};

// A view of a message has `root`, and refresh({is_last, is_running}) that shows the message as it has become.
// actions: {edit(text), regenerate(), answer_calls(results)}
export function create_message_view(message, actions) {
    return message.role === "user" ? new QuestionView(message, actions) : new ReplyView(message, actions);
}

function copy_button(label, text) {
    const button = icon_button("copy", label, () =>
        copy_text(text(), (is_copied) => button.replaceChildren(icon(is_copied ? "check" : "copy"))),
    );
    return button;
}

class QuestionView {
    #message;
    #actions;
    #edit_button;
    #body;

    constructor(message, actions) {
        this.#message = message;
        this.#actions = actions;
        this.#edit_button = icon_button("pencil", "Edit and ask again", () => this.start_editing());
        this.#body = element("div", { class: "question", dir: "auto" }, message.content);
        this.root = element(
            "article",
            { class: "message from-user", "aria-label": "You" },
            this.#body,
            element(
                "div",
                { class: "message-tools" },
                copy_button("Copy message", () => message.content),
                this.#edit_button,
            ),
        );
    }

    refresh({ is_last_question, is_running }) {
        this.#edit_button.hidden = !is_last_question || is_running;
    }

    start_editing() {
        const field = element("textarea", { "aria-label": "Edit message", rows: 3, dir: "auto" });
        field.value = this.#message.content;
        const form = element(
            "form",
            {
                class: "edit-form",
                submit: (event) => {
                    event.preventDefault();
                    if (field.value.trim() !== "") {
                        this.#actions.edit(field.value);
                    }
                },
                keydown: (event) => {
                    if (event.key === "Escape") {
                        event.stopPropagation();
                        this.#stop_editing(form);
                    } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
                        event.preventDefault();
                        form.requestSubmit();
                    }
                },
            },
            field,
            element(
                "div",
                { class: "form-buttons" },
                element("button", { type: "button", class: "button", click: () => this.#stop_editing(form) }, "Cancel"),
                element("button", { type: "submit", class: "button primary" }, "Ask again"),
            ),
        );
        this.root.classList.add("is-edited");
        this.#body.replaceWith(form);
        field.focus();
    }

    #stop_editing(form) {
        this.root.classList.remove("is-edited");
        form.replaceWith(this.#body);
        this.#edit_button.focus();
    }
}

class ReplyView {
    #message;
    #actions;
    #thinking = new ThinkingView();
    #content = new MarkdownView();
    #calls = element("div", { class: "calls" });
    #ending = element("p", { class: "ending", hidden: true });
    #stats = element("span", { class: "stats" });
    #tools;
    #again;
    #waiting = element(
        "p",
        { class: "waiting" },
        element("span", { class: "visually-hidden" }, "Waiting for the reply"),
    );

    constructor(message, actions) {
        this.#message = message;
        this.#actions = actions;
        this.#again = icon_button("again", "Ask for another reply", () => actions.regenerate());
        this.#tools = element(
            "div",
            { class: "message-tools" },
            copy_button("Copy reply", () => message.content),
            this.#again,
            this.#stats,
        );
        this.root = element(
            "article",
            { class: "message from-model", "aria-label": "Reply" },
            this.#thinking.root,
            this.#content.root,
            this.#calls,
            this.#waiting,
            this.#ending,
            this.#tools,
        );
    }

    refresh({ is_last, is_running }) {
        const message = this.#message;
        const is_growing = is_running && is_last;
        this.root.setAttribute("aria-busy", String(is_growing));
        this.root.classList.toggle("is-growing", is_growing);
        this.#thinking.refresh(message, is_growing);
        this.#content.update(message.content);
        this.#show_calls(is_last && !is_running);
        this.#waiting.hidden = !is_growing || message.stats.first !== null;
        this.#show_ending(is_last && !is_running);
        this.#stats.textContent = stats_text(message);
        this.#tools.hidden = is_growing && message.stats.first === null;
        this.#again.hidden = !is_last || is_running;
    }

    // Calls are few and short: they are shown anew whenever they change, but not under a result that is being typed.
    #show_calls(may_answer) {
        const state = JSON.stringify([this.#message.calls, may_answer]);
        if (this.#calls.dataset.state === state) {
            return;
        }
        this.#calls.dataset.state = state;
        const is_answered = this.#message.calls.every((call) => call.result !== null);
        const asks = may_answer && !is_answered && this.#message.finish !== "failed";
        const parts = this.#message.calls.map((call, index) => call_node(call, index, asks));
        if (asks) {
            parts.push(
                element(
                    "div",
                    { class: "form-buttons" },
                    element("button", { type: "submit", class: "button primary" }, "Send results"),
                ),
            );
        }
        const submit = (event) => {
            event.preventDefault();
            this.#actions.answer_calls(Array.from(event.target.querySelectorAll("textarea"), (field) => field.value));
        };
        this.#calls.replaceChildren(...(asks ? [element("form", { submit }, ...parts)] : parts));
    }

    #show_ending(may_retry) {
        const message = this.#message;
        const text = message.error?.message ?? kEndings[message.finish] ?? "";
        this.#ending.hidden = text === "";
        this.#ending.className = message.error ? "ending is-error" : "ending";
        const retry = element(
            "button",
            { type: "button", class: "link-button", click: () => this.#actions.regenerate() },
            "Try again",
        );
        this.#ending.replaceChildren(text, ...(message.error && may_retry ? [" ", retry] : []));
    }
}

// The thinking before an answer, folded away.
class ThinkingView {
    #text = new MarkdownView();
    #label = element("span", {});

    constructor() {
        this.root = element(
            "details",
            { class: "thinking", hidden: true },
            element("summary", {}, icon("thought"), this.#label, icon("down")),
            this.#text.root,
        );
    }

    refresh(message, is_growing) {
        this.root.hidden = message.reasoning === "";
        this.#text.update(message.reasoning);
        const is_thinking = is_growing && message.stats.answered === null;
        this.root.classList.toggle("is-growing", is_thinking);
        const { first, answered, last } = message.stats;
        const seconds = ((answered ?? last) - first) / 1000;
        this.#label.textContent = is_thinking ? "Thinking…" : `Thought for ${duration(seconds)}`;
    }
}

function call_node(call, index, asks) {
    let code = { language: "json", text: call.arguments };
    try {
        code.text = JSON.stringify(JSON.parse(call.arguments), null, 2);
    } catch {
        // Still arriving, or broken: shown as it came.
    }
    const result = asks
        ? element(
              "label",
              { class: "call-result" },
              `Result of ${call.name}`,
              element("textarea", { rows: 2, spellcheck: "false" }),
          )
        : call.result === null
          ? null
          : element("div", { class: "call-result" }, "Result", element("pre", { tabindex: "0" }, call.result));
    return element(
        "section",
        { class: "call", "aria-label": `Tool call ${index + 1}` },
        element("div", { class: "call-head" }, icon("call"), "Calls ", element("b", {}, call.name)),
        code_node(code),
        result,
    );
}

function stats_text(message) {
    const speed = speed_of(message);
    if (speed === null) {
        return "";
    }
    const about = speed.is_exact ? "" : "≈ ";
    const parts = [`${about}${speed.tokens.toLocaleString("en")} ${speed.tokens === 1 ? "token" : "tokens"}`];
    if (speed.per_second !== null) {
        parts.unshift(`${about}${speed.per_second.toFixed(speed.per_second < 100 ? 1 : 0)} tokens/s`);
    }
    parts.push(`first after ${duration(speed.wait_seconds)}`);
    return parts.join(" · ");
}

function duration(seconds) {
    if (seconds < 60) {
        return `${seconds < 10 ? Math.max(0.1, seconds).toFixed(1) : Math.round(seconds)} s`;
    }
    return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}
