// A server of the page and of the API it uses, which answers by script: the last message says what happens.

import { createServer } from "node:http";

export const kModel = "mock/gemma";
export const kContextTokens = 4096;
export const kKey = "open sesame";
export const kHostile = '<img src=x onerror="window.hacked = true"><script>window.hacked = true</script>';

const kCodeReply = "Here it is:\n\n```python\ndef double(x):\n    return 2 * x  # <b>\n```\n\nDone.";
const kCall = { index: 0, id: "call_1", type: "function", function: { name: "weather", arguments: "" } };

// Each script: the deltas to send, how long to wait between them, and how the stream ends.
const kScripts = {
    code: { deltas: () => pieces(kCodeReply) },
    html: {
        deltas: () =>
            pieces(
                `Text ${kHostile} and [link](javascript:window.hacked=true) and ![image](https://example.com/a.png)`,
            ),
    },
    think: { deltas: () => [...pieces("Let me **see**.", "reasoning_content"), ...pieces("It is 4.")] },
    tool: {
        deltas: () => [
            { tool_calls: [kCall] },
            ...['{"city"', ': "Bern"}'].map((text) => ({ tool_calls: [{ index: 0, function: { arguments: text } }] })),
        ],
        finish: "tool_calls",
    },
    slow: { deltas: () => Array.from({ length: 500 }, (_, index) => ({ content: `word${index} ` })), wait: 20 },
    cut: { deltas: () => pieces("It ends in the mid"), finish: "length" },
    midway: {
        deltas: () => pieces("A beginning"),
        error: { message: "the device failed", type: "server_error", param: null, code: "device" },
    },
    break: { deltas: () => pieces("A beginning"), is_broken: true },
};

function pieces(text, field = "content") {
    return text.match(/[^]{1,5}/g).map((piece) => ({ [field]: piece }));
}

// Starts the server. page: {html, policy}. options: {needs_key}. Returns {url, requests, closed_early, close()}: the
// bodies of the chat requests, and how many streams the client left.
export async function start_mock_server(page, options = {}) {
    const state = { requests: [], closed_early: 0, needs_key: options.needs_key ?? false, extra: {} };
    const server = createServer((request, response) => {
        answer(state, page, request, response).catch((error) => response.destroy(error));
    });
    await new Promise((resolve) => {
        server.listen(0, "127.0.0.1", resolve);
    });
    state.url = `http://127.0.0.1:${server.address().port}/`;
    state.close = () => {
        server.closeAllConnections();
        return new Promise((resolve) => {
            server.close(resolve);
        });
    };
    return state;
}

async function answer(state, page, request, response) {
    if (request.url === "/") {
        response.writeHead(200, { "Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": page.policy });
        response.end(page.html);
    } else if (state.needs_key && request.headers.authorization !== `Bearer ${kKey}`) {
        send_error(response, 401, "a valid API key is needed", "invalid_api_key");
    } else if (request.url === "/v1/models") {
        const model = { id: kModel, object: "model", created: 1, owned_by: "test", max_model_len: kContextTokens };
        send_json(response, 200, { object: "list", data: [model, { ...model, id: "mock/other" }] });
    } else if (request.url === "/v1/chat/completions") {
        await answer_chat(state, request, response);
    } else {
        send_error(response, 404, "no such route", "not_found");
    }
}

async function answer_chat(state, request, response) {
    let text = "";
    for await (const piece of request) {
        text += piece;
    }
    const body = JSON.parse(text);
    state.requests.push(body);
    const last = body.messages.at(-1);
    const word = last.role === "user" ? last.content.split(" ")[0] : "";
    if (word === "fail") {
        send_error(response, 500, "the server is on fire", "internal");
    } else if (word === "long") {
        send_error(response, 400, "9000 tokens do not fit a context of 4096", "context_length_exceeded");
    } else {
        const script = kScripts[word] ?? { deltas: () => pieces(state.extra[word] ?? `You said: ${last.content}`) };
        await stream(state, body, script, response);
    }
}

async function stream(state, body, script, response) {
    response.on("close", () => {
        state.closed_early += response.writableFinished ? 0 : 1;
    });
    response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-cache" });
    const send = (fields) =>
        response.write(
            `data: ${JSON.stringify({
                id: "chatcmpl-1",
                object: "chat.completion.chunk",
                created: 1,
                model: body.model,
                ...fields,
            })}\n\n`,
        );
    const deltas = script.deltas();
    send({ choices: [{ index: 0, delta: { role: "assistant" }, finish_reason: null }] });
    response.write(": a comment, as servers send to keep a connection alive\n\n");
    for (const delta of deltas) {
        send({ choices: [{ index: 0, delta, finish_reason: null }] });
        await new Promise((resolve) => {
            setTimeout(resolve, script.wait ?? 2);
        });
        if (response.destroyed) {
            return;
        }
    }
    if (script.is_broken) {
        response.destroy();
        return;
    }
    if (script.error) {
        response.write(`data: ${JSON.stringify({ error: script.error })}\n\n`);
    } else {
        send({ choices: [{ index: 0, delta: {}, finish_reason: script.finish ?? "stop" }] });
        send({
            choices: [],
            usage: { prompt_tokens: 1000, completion_tokens: deltas.length, total_tokens: 1000 + deltas.length },
        });
    }
    response.end("data: [DONE]\n\n");
}

function send_json(response, status, body) {
    response.writeHead(status, { "Content-Type": "application/json" });
    response.end(JSON.stringify(body));
}

function send_error(response, status, message, code) {
    send_json(response, status, { error: { message, type: "invalid_request_error", param: null, code } });
}
