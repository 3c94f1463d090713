// Speaks to the server: the list of models and streamed chat completions in OpenAI's dialect.

import { lasting_storage, tab_storage } from "./browser_storage.js";
import { read_events } from "./event_stream.js";

const kKeyEntry = "gemmatrace:key";

// What went wrong with a request. `status` is HTTP's, 0 when no answer came; `code` is the server's word for it.
export class ApiError extends Error {
    constructor(message, status = 0, code = "") {
        super(message);
        this.status = status;
        this.code = code;
    }
}

// The API key: for this tab, or for this browser when the user asks for that.
export const api_key = {
    get() {
        return tab_storage.getItem(kKeyEntry) ?? lasting_storage.getItem(kKeyEntry) ?? "";
    },
    is_remembered() {
        return lasting_storage.getItem(kKeyEntry) !== null;
    },
    set(key, remember) {
        tab_storage.removeItem(kKeyEntry);
        lasting_storage.removeItem(kKeyEntry);
        if (key !== "") {
            (remember ? lasting_storage : tab_storage).setItem(kKeyEntry, key);
        }
    },
};

function headers() {
    const key = api_key.get();
    return key === "" ? {} : { Authorization: `Bearer ${key}` };
}

// Addresses are relative to the page, so that it also works below a path of a reverse proxy.
async function request(path, options = {}) {
    let response;
    try {
        response = await fetch(path, {
            ...options,
            headers: { ...headers(), ...options.headers },
            credentials: "omit",
        });
    } catch (error) {
        if (error.name === "AbortError") {
            throw error;
        }
        throw new ApiError("The server cannot be reached.");
    }
    if (!response.ok) {
        throw await error_of(response);
    }
    return response;
}

async function error_of(response) {
    const described = await response.json().then(
        (body) => body?.error,
        () => null,
    );
    let message = described?.message
        ? String(described.message)
        : `The server answered with status ${response.status}.`;
    const wait = response.headers.get("Retry-After");
    if (response.status === 429 && wait !== null) {
        message += ` Try again in ${wait} seconds.`;
    }
    return new ApiError(message, response.status, String(described?.code ?? ""));
}

// The models on offer: [{id, context_tokens}], where context_tokens is null if the server does not say. Throws
// ApiError.
export async function list_models() {
    const answer = await (await request("v1/models")).json().catch(() => null);
    if (!Array.isArray(answer?.data)) {
        throw new ApiError("The server's list of models cannot be read.");
    }
    return answer.data.map((model) => ({ id: String(model.id), context_tokens: model.max_model_len ?? null }));
}

// Yields the chunks of one reply, as the server sent them. Throws ApiError, also for an error sent in mid-stream and
// for a stream that ends before its end was announced; throws AbortError once `signal` is aborted.
export async function* stream_chat(body, signal) {
    const response = await request("v1/chat/completions", {
        method: "POST",
        signal,
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(body),
    });
    try {
        for await (const data of read_events(response.body)) {
            if (data === "[DONE]") {
                return;
            }
            const chunk = parse_chunk(data);
            if (chunk.error) {
                throw new ApiError(
                    String(chunk.error.message ?? "The server failed."),
                    0,
                    String(chunk.error.code ?? ""),
                );
            }
            yield chunk;
        }
    } catch (error) {
        const is_known = error instanceof ApiError || error.name === "AbortError";
        throw is_known ? error : new ApiError(`The reply broke off: ${error.message}.`);
    }
    throw new ApiError("The reply broke off: the server closed the connection.");
}

function parse_chunk(data) {
    try {
        const chunk = JSON.parse(data);
        if (typeof chunk === "object" && chunk !== null) {
            return chunk;
        }
    } catch {
        // Said below, together with the case of a chunk that is no object.
    }
    throw new ApiError("The server sent a piece of the reply that cannot be read.");
}
