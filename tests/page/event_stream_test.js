// Server-sent events, however the network cuts them, and the growth of a reply from chunks.

import assert from "node:assert/strict";
import { test } from "node:test";
import { apply_chunk, new_reply, speed_of } from "../../src/server/page/conversation.js";
import { read_events } from "../../src/server/page/event_stream.js";

async function events_of(bytes, piece_bytes) {
    const body = new ReadableStream({
        start(controller) {
            for (let start = 0; start < bytes.length; start += piece_bytes) {
                controller.enqueue(bytes.slice(start, start + piece_bytes));
            }
            controller.close();
        },
    });
    const events = [];
    for await (const event of read_events(body)) {
        events.push(event);
    }
    return events;
}

test("Events are the same however the stream is cut, with any line end", async () => {
    const text =
        ": comment\r\n\r\ndata: one é 🎈\n\nevent: x\rdata:two\rdata: lines\r\r" +
        "data: three\r\n\r\nid: 4\n\ndata: cut off";
    const bytes = new TextEncoder().encode(text);
    for (let piece_bytes = 1; piece_bytes <= bytes.length; ++piece_bytes) {
        assert.deepEqual(
            await events_of(bytes, piece_bytes),
            ["one é 🎈", "two\nlines", "three"],
            `pieces of ${piece_bytes}`,
        );
    }
});

test("An event without an end is refused", async () => {
    const bytes = new Uint8Array(17 << 20).fill(0x61);
    await assert.rejects(events_of(bytes, 1 << 20), RangeError);
});

test("A reply grows by content, thinking, calls in pieces and usage", () => {
    const reply = new_reply();
    const deltas = [
        { role: "assistant" },
        { reasoning_content: "hm" },
        { content: "a" },
        { content: null },
        { tool_calls: [{ index: 1, id: "b", function: { name: "second", arguments: "{" } }] },
        {
            tool_calls: [
                { index: 0, id: "a", function: { name: "first", arguments: "{}" } },
                { index: 1, function: { arguments: "}" } },
            ],
        },
    ];
    deltas.forEach((delta, index) => apply_chunk(reply, { choices: [{ index: 0, delta }] }, index));
    apply_chunk(reply, { choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] }, 9);
    apply_chunk(reply, { choices: [], usage: { prompt_tokens: 5, completion_tokens: 6 } }, 10);
    assert.deepEqual([reply.reasoning, reply.content, reply.finish], ["hm", "a", "tool_calls"]);
    assert.deepEqual(
        reply.calls.map((call) => [call.id, call.name, call.arguments]),
        [
            ["a", "first", "{}"],
            ["b", "second", "{}"],
        ],
    );
    assert.deepEqual(reply.stats, {
        asked: null,
        first: 1,
        answered: 2,
        last: 5,
        pieces: 4,
        prompt_tokens: 5,
        completion_tokens: 6,
    });
});

test("Speed leaves out the first token, is a guess till usage comes, and is not told of an instant", () => {
    const reply = new_reply();
    reply.stats.asked = 0;
    assert.equal(speed_of(reply), null);
    [500, 1000, 1500].forEach((now) => apply_chunk(reply, { choices: [{ delta: { content: "a" } }] }, now));
    assert.deepEqual(speed_of(reply), { tokens: 3, is_exact: false, per_second: 2, wait_seconds: 0.5 });
    apply_chunk(reply, { choices: [], usage: { prompt_tokens: 5, completion_tokens: 6 } }, 1500);
    assert.deepEqual(speed_of(reply), { tokens: 6, is_exact: true, per_second: 5, wait_seconds: 0.5 });
    reply.stats.last = 501;
    assert.equal(speed_of(reply).per_second, null);
});
