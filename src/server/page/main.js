// Puts the page together: the parts know nothing of each other, only of what they are given here.

import { list_models, stream_chat } from "./api.js";
import { Drawer, set_up_theme } from "./appearance.js";
import { is_lasting, lasting_storage } from "./browser_storage.js";
import { Chat } from "./chat.js";
import { Composer } from "./composer.js";
import { context_used, conversation_markdown } from "./conversation.js";
import { ConversationList } from "./conversation_list.js";
import { KeyDialog, SettingsDialog } from "./dialogs.js";
import { by_id, draw_icons, element } from "./dom.js";
import { announce, notify, save_file } from "./feedback.js";
import { export_file, import_file, Store } from "./store.js";
import { Transcript } from "./transcript.js";

class Page {
    #chat = new Chat(new Store(lasting_storage), stream_chat);
    #models = [];
    #current = this.#chat.start("");
    #drawer = new Drawer();
    #model_field = by_id("model");
    #has_told_full = false;

    #transcript = new Transcript({
        edit: (text) => this.#ask(() => this.#chat.edit_last(this.#current, text)),
        regenerate: () => this.#ask(() => this.#chat.regenerate(this.#current)),
        answer_calls: (results) => this.#ask(() => this.#chat.answer_calls(this.#current, results)),
    });
    #composer = new Composer({
        send: (text) => this.#ask(() => this.#chat.send(this.#current, text)),
        stop: () => this.#chat.stop(this.#current),
        set_thinking: (on) => this.#change_setting("thinking", on),
        edit_last: () => this.#transcript.edit_last_question(),
    });
    #list = new ConversationList({
        rename: (conversation, title) => this.#chat.rename(conversation, title),
        remove: (conversation) => this.#remove(conversation),
    });
    #settings = new SettingsDialog({
        changed: (conversation) => this.#chat.save_settings(conversation),
        set_defaults: (settings) => {
            this.#chat.set_defaults(settings);
            announce("New chats will start with these settings");
            by_id("defaults-set").hidden = false;
        },
        export_markdown: (conversation) =>
            save_file(file_name(conversation, "md"), "text/markdown", conversation_markdown(conversation)),
        export_json: (conversation) =>
            save_file(file_name(conversation, "json"), "application/json", export_file([conversation])),
    });
    #key = new KeyDialog(() => this.#on_key_change());

    start() {
        this.#chat.addEventListener("change", () => this.#show());
        this.#chat.addEventListener("progress", ({ detail }) => this.#on_progress(detail));
        this.#chat.addEventListener("finish", ({ detail }) => this.#on_finish(detail));
        this.#chat.addEventListener("full", () => this.#on_full());
        this.#listen_to_window();
        this.#listen_to_buttons();
        if (!is_lasting()) {
            notify("This browser keeps nothing for this page: conversations are lost when it is closed.");
        }
        this.#open_by_address();
        this.#load_models();
    }

    #listen_to_window() {
        addEventListener("hashchange", () => this.#open_by_address());
        addEventListener("storage", (event) => this.#chat.follow_storage(event));
        addEventListener("pagehide", () => this.#chat.interrupt());
        addEventListener("keydown", (event) => {
            const is_typing = event.target.closest("input, textarea, select, dialog") !== null;
            if (event.key === "Escape" && event.target.closest("dialog") === null) {
                this.#chat.stop(this.#current);
            } else if (event.key === "/" && !is_typing && !event.ctrlKey && !event.metaKey) {
                event.preventDefault();
                this.#composer.focus();
            }
        });
    }

    #listen_to_buttons() {
        const on_click = (id, act) => by_id(id).addEventListener("click", act);
        on_click("skip", (event) => {
            event.preventDefault(); // its address would be taken for a conversation's
            this.#composer.focus();
        });
        on_click("new-chat", () => this.#open_new());
        on_click("open-settings", () => {
            by_id("defaults-set").hidden = true;
            this.#settings.open(this.#current);
        });
        on_click("open-key", () => this.#key.open(""));
        on_click("export-all", () =>
            save_file("gemmatrace-conversations.json", "application/json", export_file(this.#chat.conversations)),
        );
        on_click("import", () => by_id("import-file").click());
        by_id("import-file").addEventListener("change", (event) => this.#import(event.target));
        by_id("conversations").addEventListener("click", (event) => {
            if (event.target.closest("a")) {
                this.#drawer.close();
            }
        });
        this.#model_field.addEventListener("change", () => {
            this.#change_setting("model", this.#model_field.value);
            this.#show();
        });
    }

    // The conversation in the address, as a link, a reload or the back button left it; a new one if it names none.
    #open_by_address() {
        this.#current = this.#chat.find(location.hash.slice(1)) ?? this.#chat.start("");
        this.#settle_model();
        this.#show();
        this.#composer.invite();
    }

    #open_new() {
        this.#drawer.close();
        if (location.hash !== "") {
            history.pushState(null, "", location.pathname + location.search);
        }
        this.#open_by_address();
    }

    #remove(conversation) {
        this.#chat.remove(conversation);
        if (conversation === this.#current) {
            history.replaceState(null, "", location.pathname + location.search);
            this.#current = this.#chat.start(conversation.settings.model);
            this.#show();
        }
        notify(`Deleted “${conversation.title}”.`, { label: "Undo", run: () => this.#chat.add([conversation]) });
    }

    // Starts a reply and shows it from its beginning on.
    async #ask(start) {
        if (this.#current.settings.model === "") {
            await this.#load_models(); // the server may have come up since
        }
        start();
        if (location.hash.slice(1) !== this.#current.id) {
            history.pushState(null, "", `#${this.#current.id}`);
            this.#show();
        }
        this.#transcript.follow();
    }

    #change_setting(name, value) {
        this.#current.settings[name] = value;
        this.#chat.save_settings(this.#current);
    }

    #on_progress({ conversation }) {
        if (conversation === this.#current) {
            this.#transcript.grow();
        }
    }

    #on_finish({ conversation, reply }) {
        this.#show();
        if (conversation !== this.#current) {
            return;
        }
        const calls = reply.calls.map((call) => `Tool call: ${call.name}.`).join(" ");
        const ending = reply.error ? `Error: ${reply.error.message}` : reply.finish === "stopped" ? "Stopped." : "";
        announce(["Reply:", reply.content, calls, ending].filter((part) => part !== "").join(" "));
        if (reply.error?.status === 401) {
            this.#key.open("This server asks for an API key.");
        }
    }

    #on_full() {
        if (!this.#has_told_full) {
            this.#has_told_full = true;
            notify("The browser's storage is full: new messages are not kept. Export conversations and delete some.", {
                label: "Export all",
                run: () => by_id("export-all").click(),
            });
        }
    }

    async #on_key_change() {
        await this.#load_models();
        if (this.#current.messages.at(-1)?.error?.status === 401) {
            this.#ask(() => this.#chat.regenerate(this.#current));
        }
    }

    async #load_models() {
        try {
            this.#models = await list_models();
            this.#settle_model();
            this.#show();
        } catch (error) {
            if (error.status === 401) {
                this.#key.open("This server asks for an API key.");
            } else {
                notify(error.message, { label: "Try again", run: () => this.#load_models() });
            }
        }
    }

    // A conversation whose model the server no longer has goes on with one that it has.
    #settle_model() {
        const settings = this.#current.settings;
        if (this.#models.length > 0 && !this.#models.some((model) => model.id === settings.model)) {
            settings.model = this.#models[0].id;
        }
    }

    async #import(field) {
        try {
            const conversations = await import_file(field.files[0]);
            const added = this.#chat.add(conversations);
            notify(`Imported ${added} of ${conversations.length} conversations.`);
        } catch (error) {
            notify(error.message);
        }
        field.value = ""; // so that the same file can be chosen again
    }

    #show() {
        // Another tab may have stored the conversation anew.
        this.#current = this.#chat.find(this.#current.id) ?? this.#current;
        const conversation = this.#current;
        const is_running = this.#chat.is_running(conversation);
        const title = conversation.title || "New chat";
        by_id("title").textContent = title;
        document.title = conversation.title ? `${title} – gemmatrace` : "gemmatrace";
        this.#show_models();
        this.#show_context();
        this.#transcript.show(conversation, is_running, this.#welcome());
        this.#composer.show(conversation, is_running);
        this.#list.show(this.#chat.conversations, conversation.id, (other) => this.#chat.is_running(other));
        by_id("export-all").disabled = this.#chat.conversations.length === 0;
    }

    #show_models() {
        const names = this.#models.map((model) => model.id);
        this.#model_field.replaceChildren(...names.map((name) => element("option", {}, name)));
        this.#model_field.value = this.#current.settings.model;
        this.#model_field.hidden = names.length === 0;
    }

    #context_tokens() {
        return this.#models.find((model) => model.id === this.#current.settings.model)?.context_tokens ?? null;
    }

    #show_context() {
        const used = context_used(this.#current);
        const most = this.#context_tokens();
        const meter = by_id("context");
        meter.hidden = used === null;
        if (used === null) {
            return;
        }
        const share = most === null ? 0 : Math.min(1, used / most);
        by_id("context-text").textContent =
            most === null ? `${count(used)} tokens` : `${count(used)} of ${count(most)} tokens`;
        by_id("context-bar").style.width = `${share * 100}%`;
        meter.classList.toggle("is-high", share > 0.85);
        meter.title = "Tokens of the model's context that this conversation fills";
    }

    #welcome() {
        const most = this.#context_tokens();
        const model = this.#current.settings.model;
        const about = [model, most === null ? "" : `${count(most)} tokens of context`]
            .filter((part) => part !== "")
            .join(" · ");
        return [
            element("h2", {}, "What is on your mind?"),
            element("p", {}, about),
            element("p", {}, "Conversations stay in this browser; what you write goes to this server only."),
        ];
    }
}

function count(number) {
    return number.toLocaleString("en");
}

function file_name(conversation, ending) {
    const name = conversation.title
        .replace(/[^\p{L}\p{N}]+/gu, "-")
        .replace(/^-|-$/g, "")
        .slice(0, 40);
    return `${name || "conversation"}.${ending}`;
}

draw_icons();
set_up_theme();
new Page().start();
