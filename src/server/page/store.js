// Keeps conversations in the browser's own storage, an entry each, and moves them to and from files.

import { conversation_from } from "./conversation.js";
import { default_settings, settings_from } from "./settings.js";

const kConversationPrefix = "gemmatrace:conversation:";
const kDefaultsEntry = "gemmatrace:defaults";
const kMaxFileBytes = 32 << 20;

// A kind of file of ours, so that an import knows its own.
const kFileKind = "gemmatrace conversations";

export class Store {
    #storage;

    // storage: localStorage, or anything like it.
    constructor(storage) {
        this.#storage = storage;
    }

    // All conversations that can be read. An entry that cannot stays where it is: deleting is the user's business.
    load_all() {
        const names = Array.from({ length: this.#storage.length }, (_, index) => this.#storage.key(index));
        return names
            .filter((name) => name.startsWith(kConversationPrefix))
            .map((name) => this.#read(name))
            .filter((conversation) => conversation !== null);
    }

    // The conversation as another tab last stored it; null if it is gone.
    load(id) {
        return this.#read(kConversationPrefix + id);
    }

    #read(name) {
        try {
            return conversation_from(JSON.parse(this.#storage.getItem(name)));
        } catch {
            return null;
        }
    }

    // Returns whether there was room. What was stored before stays when there was none.
    save(conversation) {
        return this.#write(kConversationPrefix + conversation.id, conversation);
    }

    remove(id) {
        this.#storage.removeItem(kConversationPrefix + id);
    }

    // The settings that new conversations start from.
    get defaults() {
        try {
            return settings_from(JSON.parse(this.#storage.getItem(kDefaultsEntry)));
        } catch {
            return default_settings();
        }
    }

    set defaults(settings) {
        this.#write(kDefaultsEntry, settings);
    }

    #write(name, value) {
        try {
            this.#storage.setItem(name, JSON.stringify(value));
            return true;
        } catch {
            return false;
        }
    }
}

// The id of the conversation that a storage event is about; null if it is about something else.
export function conversation_id_of(event) {
    return event.key?.startsWith(kConversationPrefix) ? event.key.slice(kConversationPrefix.length) : null;
}

// The content of a file that holds these conversations.
export function export_file(conversations) {
    return JSON.stringify({ kind: kFileKind, version: 1, conversations }, null, 1);
}

// The conversations in a file (a Blob) that export_file made. Throws an Error whose message is for the reader.
export async function import_file(file) {
    if (file.size > kMaxFileBytes) {
        throw new Error(`The file is larger than ${kMaxFileBytes >> 20} MiB.`);
    }
    let content;
    try {
        content = JSON.parse(await file.text());
    } catch {
        throw new Error("The file is not JSON.");
    }
    if (content?.kind !== kFileKind || !Array.isArray(content.conversations)) {
        throw new Error("The file holds no exported conversations.");
    }
    return content.conversations.map(conversation_from).filter((conversation) => conversation !== null);
}
