// What a conversation and its messages are, and how a reply grows from the chunks of a stream.

import { default_settings, settings_from } from "./settings.js";

const kMaxTitleCharacters = 60;

// Of pieces that came all at once no speed can be told.
const kShortestSeconds = 0.1;

// A conversation without messages. It is stored once it has some.
export function new_conversation(settings = default_settings()) {
    return { id: new_id(), title: "", updated: Date.now(), settings: { ...settings }, messages: [] };
}

// crypto.randomUUID does not exist on plain http, where many run this page.
function new_id() {
    return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join(
        "",
    );
}

export function new_question(content) {
    return { role: "user", content };
}

// A reply before its first chunk. finish is null while it is under way, then the server's finish_reason, or "stopped"
// (by the reader), "interrupted" (the page went away) or "failed" (see error: {message, status, code}). stats: times in
// milliseconds of performance.now(), counts in tokens; pieces counts chunks, a guess at tokens till usage comes.
export function new_reply() {
    return {
        role: "assistant",
        content: "",
        reasoning: "",
        calls: [],
        finish: null,
        error: null,
        stats: {
            asked: null,
            first: null,
            answered: null,
            last: null,
            pieces: 0,
            prompt_tokens: null,
            completion_tokens: null,
        },
    };
}

// Adds one chunk of the stream, which came at `now`, to the reply.
export function apply_chunk(reply, chunk, now) {
    if (chunk.usage) {
        reply.stats.prompt_tokens = chunk.usage.prompt_tokens ?? null;
        reply.stats.completion_tokens = chunk.usage.completion_tokens ?? null;
    }
    const choice = chunk.choices?.[0];
    const delta = choice?.delta ?? {};
    const content = delta.content ?? "";
    const reasoning = delta.reasoning_content ?? delta.reasoning ?? "";
    reply.content += content;
    reply.reasoning += reasoning;
    for (const piece of delta.tool_calls ?? []) {
        apply_call(reply.calls, piece);
    }
    if (content !== "" || reasoning !== "" || delta.tool_calls?.length > 0) {
        reply.stats.first ??= now;
        reply.stats.last = now;
        reply.stats.pieces += 1;
        if (reasoning === "") {
            reply.stats.answered ??= now;
        }
    }
    if (choice?.finish_reason) {
        reply.finish = choice.finish_reason;
    }
}

function apply_call(calls, piece) {
    const index = piece.index ?? calls.length;
    while (calls.length <= index && calls.length < 1000) {
        calls.push({ id: "", name: "", arguments: "", result: null });
    }
    const call = calls[index];
    if (call === undefined) {
        return;
    }
    call.id ||= piece.id ?? "";
    call.name ||= piece.function?.name ?? "";
    call.arguments += piece.function?.arguments ?? "";
}

// How fast the reply came: {tokens, is_exact, per_second, wait_seconds}; null before its first token. The first token
// is not counted in per_second: it waited for the prompt.
export function speed_of(reply) {
    const { asked, first, last, pieces, completion_tokens } = reply.stats;
    if (first === null) {
        return null;
    }
    const tokens = completion_tokens ?? pieces;
    const seconds = (last - first) / 1000;
    return {
        tokens,
        is_exact: completion_tokens !== null,
        per_second: tokens > 1 && seconds >= kShortestSeconds ? (tokens - 1) / seconds : null,
        wait_seconds: (first - asked) / 1000,
    };
}

// How many tokens of its context the conversation fills, as the server last counted them; null when it has not.
export function context_used(conversation) {
    for (const { stats } of conversation.messages.toReversed()) {
        if (stats?.prompt_tokens) {
            return stats.prompt_tokens + (stats.completion_tokens ?? 0);
        }
    }
    return null;
}

// The title of a conversation that begins with `text`.
export function title_from(text) {
    const line = text.trim().split("\n")[0].trim();
    return line.length <= kMaxTitleCharacters ? line : line.slice(0, kMaxTitleCharacters - 1).trimEnd() + "…";
}

// `value`, from storage or a file, as a conversation; null if it is none.
export function conversation_from(value) {
    if (typeof value?.id !== "string" || !/^[0-9a-z]{1,64}$/.test(value.id) || !Array.isArray(value.messages)) {
        return null;
    }
    return {
        id: value.id,
        title: text_from(value.title),
        updated: Number.isFinite(value.updated) ? value.updated : 0,
        settings: settings_from(value.settings),
        messages: value.messages.map((message) =>
            message?.role === "user" ? new_question(text_from(message.content)) : reply_from(message),
        ),
    };
}

function reply_from(value) {
    const reply = new_reply();
    reply.content = text_from(value?.content);
    reply.reasoning = text_from(value?.reasoning);
    reply.calls = (Array.isArray(value?.calls) ? value.calls : []).map((call) => ({
        id: text_from(call?.id),
        name: text_from(call?.name),
        arguments: text_from(call?.arguments),
        result: typeof call?.result === "string" ? call.result : null,
    }));
    // What is still under way in storage was left behind by a page that is gone.
    reply.finish = text_from(value?.finish) || "interrupted";
    if (typeof value?.error?.message === "string") {
        reply.error = {
            message: value.error.message,
            status: Number(value.error.status),
            code: text_from(value.error.code),
        };
    }
    for (const name of Object.keys(reply.stats)) {
        if (Number.isFinite(value?.stats?.[name])) {
            reply.stats[name] = value.stats[name];
        }
    }
    return reply;
}

function text_from(value) {
    return typeof value === "string" ? value : "";
}

// The conversation as a document to read.
export function conversation_markdown(conversation) {
    const parts = [`# ${conversation.title}`];
    if (conversation.settings.system.trim() !== "") {
        parts.push("## System prompt", conversation.settings.system);
    }
    for (const message of conversation.messages) {
        parts.push(message.role === "user" ? "## You" : "## Reply", message.content);
        for (const call of message.calls ?? []) {
            parts.push(`Tool call \`${call.name}\`:`, "```json\n" + call.arguments + "\n```");
            if (call.result !== null) {
                parts.push("Result:", "```\n" + call.result + "\n```");
            }
        }
    }
    return parts.filter((part) => part !== "").join("\n\n") + "\n";
}
