// The conversations and the replies under way: what the page does, without how it looks.

import { ApiError } from "./api.js";
import { apply_chunk, new_conversation, new_question, new_reply, title_from } from "./conversation.js";
import { request_body } from "./settings.js";
import { conversation_id_of } from "./store.js";

const kSaveMilliseconds = 1000;

// Dispatches events whose detail is {conversation, reply}:
//   "change"    messages, title or the list of conversations are different
//   "progress"  a reply under way has grown
//   "finish"    a reply has ended, however it did
//   "full"      the browser's storage has no room for the conversation
export class Chat extends EventTarget {
    #store;
    #stream_chat;
    #conversations = new Map();
    // Conversation id to {abort, saved}: its reply under way, and when that was last stored.
    #running = new Map();

    // stream_chat: as in api.js, passed in so that tests can answer.
    constructor(store, stream_chat) {
        super();
        this.#store = store;
        this.#stream_chat = stream_chat;
        for (const conversation of store.load_all()) {
            this.#conversations.set(conversation.id, conversation);
        }
    }

    // All conversations with messages, latest first.
    get conversations() {
        return [...this.#conversations.values()].sort((one, other) => other.updated - one.updated);
    }

    find(id) {
        return this.#conversations.get(id) ?? null;
    }

    // A conversation with the user's own defaults; it joins the others with its first message.
    start(model) {
        const conversation = new_conversation(this.#store.defaults);
        conversation.settings.model ||= model;
        return conversation;
    }

    is_running(conversation) {
        return this.#running.has(conversation.id);
    }

    // Asks `text`; the reply comes by events.
    send(conversation, text) {
        if (conversation.messages.length === 0 && conversation.title === "") {
            conversation.title = title_from(text);
        }
        this.#conversations.set(conversation.id, conversation);
        conversation.messages.push(new_question(text));
        return this.#reply(conversation);
    }

    // Asks for the last reply once more.
    regenerate(conversation) {
        if (conversation.messages.at(-1)?.role === "assistant") {
            conversation.messages.pop();
        }
        return this.#reply(conversation);
    }

    // Asks `text` in place of the last question; what followed that one is dropped.
    edit_last(conversation, text) {
        const index = conversation.messages.findLastIndex((message) => message.role === "user");
        conversation.messages.splice(index);
        return this.send(conversation, text);
    }

    // Gives the results of the last reply's tool calls, in their order.
    answer_calls(conversation, results) {
        conversation.messages.at(-1).calls.forEach((call, index) => {
            call.result = results[index];
        });
        return this.#reply(conversation);
    }

    // Ends the reply under way; what came of it stays.
    stop(conversation) {
        this.#running.get(conversation.id)?.abort.abort();
    }

    rename(conversation, title) {
        conversation.title = title;
        this.#save(conversation);
        this.#dispatch("change", conversation);
    }

    // To be called after the settings of a conversation were changed.
    save_settings(conversation) {
        this.#save(conversation);
    }

    // The settings that new conversations start from.
    set_defaults(settings) {
        this.#store.defaults = settings;
    }

    remove(conversation) {
        this.stop(conversation);
        this.#conversations.delete(conversation.id);
        this.#store.remove(conversation.id);
        this.#dispatch("change", conversation);
    }

    // Adds conversations that come from a file or were removed before; returns how many there was room for. One that is
    // already here stays as it is.
    add(conversations) {
        const added = conversations.filter((conversation) => !this.#conversations.has(conversation.id));
        added.forEach((conversation) => this.#conversations.set(conversation.id, conversation));
        const stored = added.filter((conversation) => this.#save(conversation));
        this.#dispatch("change", null);
        return stored.length;
    }

    // Ends all that is under way, at once: the page goes away, and its requests with it.
    interrupt() {
        for (const [id, running] of this.#running) {
            const conversation = this.find(id);
            conversation.messages.at(-1).finish = "interrupted";
            this.#save(conversation);
            running.abort.abort();
        }
    }

    // Takes over what another tab has stored. A reply under way here is newer than anything there.
    follow_storage(event) {
        const id = conversation_id_of(event);
        if (id === null || this.#running.has(id)) {
            return;
        }
        const conversation = this.#store.load(id);
        if (conversation === null) {
            this.#conversations.delete(id);
        } else {
            this.#conversations.set(id, conversation);
        }
        this.#dispatch("change", conversation);
    }

    async #reply(conversation) {
        const body = request_body(conversation);
        const reply = new_reply();
        const running = { abort: new AbortController(), saved: performance.now() };
        reply.stats.asked = running.saved;
        conversation.messages.push(reply);
        conversation.updated = Date.now();
        this.#running.set(conversation.id, running);
        this.#save(conversation);
        this.#dispatch("change", conversation, reply);
        try {
            for await (const chunk of this.#stream_chat(body, running.abort.signal)) {
                apply_chunk(reply, chunk, performance.now());
                this.#progress(conversation, reply, running);
            }
            reply.finish ??= "stop";
        } catch (error) {
            this.#fail(reply, error, running.abort.signal.aborted);
        }
        this.#running.delete(conversation.id);
        conversation.updated = Date.now();
        this.#save(conversation);
        this.#dispatch("finish", conversation, reply);
    }

    #progress(conversation, reply, running) {
        if (performance.now() - running.saved > kSaveMilliseconds) {
            running.saved = performance.now();
            this.#save(conversation);
        }
        this.#dispatch("progress", conversation, reply);
    }

    #fail(reply, error, is_stopped) {
        if (is_stopped) {
            reply.finish ??= "stopped";
            return;
        }
        reply.finish = "failed";
        reply.error = { message: error.message, status: error.status ?? 0, code: error.code ?? "" };
        if (!(error instanceof ApiError)) {
            throw error; // ours, and the console should show where
        }
    }

    // Returns whether the conversation is stored. One that was removed meanwhile, or has no message yet, is not to be.
    #save(conversation) {
        if (!this.#conversations.has(conversation.id)) {
            return false;
        }
        const is_stored = this.#store.save(conversation);
        if (!is_stored) {
            this.#dispatch("full", conversation);
        }
        return is_stored;
    }

    #dispatch(kind, conversation, reply = null) {
        this.dispatchEvent(new CustomEvent(kind, { detail: { conversation, reply } }));
    }
}
