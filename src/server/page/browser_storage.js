// The browser's storage, or memory in its place where the browser refuses it.

class MemoryStorage {
    #entries = new Map();

    get length() {
        return this.#entries.size;
    }

    key(index) {
        return [...this.#entries.keys()][index] ?? null;
    }

    getItem(name) {
        return this.#entries.get(name) ?? null;
    }

    setItem(name, value) {
        this.#entries.set(name, value);
    }

    removeItem(name) {
        this.#entries.delete(name);
    }
}

// Where cookies are blocked, already naming the storage throws.
function usable(name) {
    try {
        globalThis[name].getItem("");
        return globalThis[name];
    } catch {
        return new MemoryStorage();
    }
}

// Kept by the browser until the reader deletes it.
export const lasting_storage = usable("localStorage");

// Gone with the tab.
export const tab_storage = usable("sessionStorage");

// Whether lasting_storage really lasts.
export function is_lasting() {
    return !(lasting_storage instanceof MemoryStorage);
}
