// The page in Chromium against a server that answers by script.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { build_page, kPhone, launch_browser, open_page, reply_done, send } from "./browser.js";
import { kHostile, kKey, kModel, start_mock_server } from "./mock_server.js";

let browser;
let server;
const built = build_page();

before(async () => {
    browser = await launch_browser();
    server = await start_mock_server(built);
});

after(async () => {
    await browser.close();
    await server.close();
});

// A test with the page open; what it must never do is checked at the end (browser.js).
function page_test(name, options, act) {
    test(name, async () => {
        server.requests.length = 0;
        server.closed_early = 0;
        const opened = await open_page(browser, server.url, options);
        try {
            await act(opened.page, opened.context);
        } catch (error) {
            error.message += opened.faults.map((fault) => `\n${fault}`).join(""); // often the cause
            throw error;
        }
        await opened.done();
    });
}

const last_reply = (page) => page.locator(".from-model").last();

page_test("A message is sent with the settings and the reply is shown", {}, async (page) => {
    await send(page, "Hello there");
    await reply_done(page);
    assert.equal(await last_reply(page).locator(".prose").last().innerText(), "You said: Hello there");
    assert.deepEqual(server.requests, [
        {
            model: kModel,
            messages: [{ role: "user", content: "Hello there" }],
            stream: true,
            stream_options: { include_usage: true },
            chat_template_kwargs: { enable_thinking: false },
        },
    ]);
    assert.match(await last_reply(page).locator(".stats").innerText(), /5 tokens · first after [\d.]+ s$/);
    assert.equal(await page.locator("#context-text").innerText(), "1,005 of 4,096 tokens");
    assert.equal(await page.getByRole("heading", { level: 1 }).innerText(), "Hello there");
});

page_test("The whole conversation goes with the second message", {}, async (page) => {
    await send(page, "think first");
    await reply_done(page);
    await send(page, "and then");
    await reply_done(page);
    assert.deepEqual(server.requests[1].messages, [
        { role: "user", content: "think first" },
        { role: "assistant", content: "It is 4." },
        { role: "user", content: "and then" },
    ]);
});

page_test("A stopped reply stays and the server is left", {}, async (page) => {
    await send(page, "slow please");
    await page.getByText("word9 ").waitFor();
    await page.keyboard.press("Escape");
    await reply_done(page);
    const text = await last_reply(page).locator(".prose").last().innerText();
    assert.match(text, /word9/);
    assert.doesNotMatch(text, /word499/);
    assert.equal(await last_reply(page).locator(".ending").innerText(), "Stopped.");
    assert.match(
        await last_reply(page).locator(".stats").innerText(),
        /^≈ [\d.]+ tokens\/s · ≈ \d+ tokens · first after/,
    );
    await page.waitForTimeout(200);
    assert.equal(server.closed_early, 1);
    await page.reload();
    assert.equal(await last_reply(page).locator(".prose").last().innerText(), text);
});

page_test("The stop button stops", {}, async (page) => {
    await send(page, "slow please");
    await page.getByText("word3 ").waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await reply_done(page);
    assert.equal(await last_reply(page).locator(".ending").innerText(), "Stopped.");
});

page_test("A reload finds the conversation, also in the middle of a reply", {}, async (page) => {
    await send(page, "slow please");
    await page.getByText("word9 ").waitFor();
    await page.reload();
    assert.equal(await page.locator(".question").innerText(), "slow please");
    assert.match(await last_reply(page).locator(".prose").last().innerText(), /word9/);
    assert.match(await last_reply(page).locator(".ending").innerText(), /^Interrupted/);
});

page_test("Markup in a question and in a reply is text", {}, async (page) => {
    await send(page, `html ${kHostile}`);
    await reply_done(page);
    assert.equal(await page.locator(".question").innerText(), `html ${kHostile}`);
    const reply = await last_reply(page).locator(".prose").last().innerText();
    assert.ok(reply.includes(kHostile));
    assert.ok(reply.includes("[link](javascript:window.hacked=true)"));
    assert.equal(await page.locator("#messages img, #messages script").count(), 0);
    const link = last_reply(page).getByRole("link", { name: "image" });
    assert.deepEqual(
        [await link.getAttribute("rel"), await link.getAttribute("target")],
        ["noopener noreferrer", "_blank"],
    );
});

page_test("Markup in titles, models' errors and tool calls is text", {}, async (page) => {
    await send(page, kHostile);
    await reply_done(page);
    assert.equal(await page.locator("#conversations img, header img").count(), 0);
    assert.match(await page.locator(".conversation-title").innerText(), /^<img src=x/);
});

page_test("Thinking is folded and unfolds", {}, async (page) => {
    await send(page, "think about it");
    await reply_done(page);
    const thought = last_reply(page).getByText("Let me see.");
    assert.equal(await thought.isVisible(), false);
    await last_reply(page).getByText("Thought for").click();
    assert.equal(await thought.isVisible(), true);
    assert.equal(await last_reply(page).locator("> .prose").innerText(), "It is 4.");
});

page_test("The thinking button asks the model to think", {}, async (page) => {
    await page.getByRole("button", { name: "Thinking" }).click();
    await send(page, "Hello");
    await reply_done(page);
    assert.deepEqual(server.requests[0].chat_template_kwargs, { enable_thinking: true });
});

page_test("A tool call is shown and its result goes back", {}, async (page) => {
    await send(page, "tool please");
    await reply_done(page);
    const call = page.getByRole("region", { name: "Tool call 1" });
    assert.match(await call.innerText(), /Calls\s+weather/);
    assert.equal(await call.locator("code").innerText(), '{\n  "city": "Bern"\n}');
    await call.getByLabel("Result of weather").fill("sunny");
    await page.getByRole("button", { name: "Send results" }).click();
    await page.locator(".from-model").nth(1).waitFor();
    await reply_done(page);
    assert.deepEqual(server.requests[1].messages.slice(1), [
        {
            role: "assistant",
            content: "",
            tool_calls: [
                { id: "call_1", type: "function", function: { name: "weather", arguments: '{"city": "Bern"}' } },
            ],
        },
        { role: "tool", tool_call_id: "call_1", content: "sunny" },
    ]);
    assert.match(await call.innerText(), /sunny/);
});

page_test("Code is copied as it was written", {}, async (page) => {
    await send(page, "code please");
    await reply_done(page);
    assert.equal(await last_reply(page).locator(".code-language").innerText(), "python");
    await page.getByRole("button", { name: "Copy code" }).click();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "def double(x):\n    return 2 * x  # <b>");
    await page.getByText("Copied", { exact: true }).first().waitFor();
});

for (const [word, message] of [
    ["fail", "the server is on fire"],
    ["long", "9000 tokens do not fit a context of 4096"],
    ["midway", "the device failed"],
    ["break", "The reply broke off"],
]) {
    page_test(`The error of "${word}" is shown and can be tried again`, {}, async (page) => {
        await send(page, `${word} now`);
        await reply_done(page);
        assert.match(await last_reply(page).locator(".is-error").innerText(), new RegExp(message));
        await page.getByRole("button", { name: "Try again" }).click();
        await reply_done(page);
        assert.equal(server.requests.length, 2);
        assert.deepEqual(server.requests[1], server.requests[0]);
        assert.equal(await page.locator(".from-model").count(), 1);
    });
}

page_test("A reply cut off by the limit says so", {}, async (page) => {
    await send(page, "cut it");
    await reply_done(page);
    assert.match(await last_reply(page).locator(".ending").innerText(), /cut off at the limit/);
});

page_test("The last question can be edited and the last reply asked for again", {}, async (page) => {
    await send(page, "first");
    await reply_done(page);
    await send(page, "second");
    await reply_done(page);
    await page.getByRole("button", { name: "Ask for another reply" }).click();
    await reply_done(page);
    assert.deepEqual(server.requests[2], server.requests[1]);
    assert.equal(await page.getByRole("button", { name: "Edit and ask again" }).count(), 1);
    await page.getByLabel("Message", { exact: true }).press("ArrowUp");
    await page.getByLabel("Edit message").fill("third");
    await page.keyboard.press("Enter");
    await page.getByText("You said: third", { exact: true }).waitFor();
    await reply_done(page);
    assert.deepEqual(
        server.requests[3].messages.map((message) => message.content),
        ["first", "You said: first", "third"],
    );
    assert.deepEqual(await page.locator(".question").allInnerTexts(), ["first", "third"]);
});

page_test("Several conversations are kept, renamed, deleted and brought back", {}, async (page) => {
    for (const text of ["one", "two"]) {
        await page.getByRole("button", { name: "New chat" }).click();
        await send(page, text);
        await reply_done(page);
    }
    const titles = page.locator(".conversation-title");
    assert.deepEqual(await titles.allInnerTexts(), ["two", "one"]);
    await page.getByRole("link", { name: "one" }).click();
    assert.equal(await page.locator(".question").innerText(), "one");
    await page.getByRole("button", { name: "Rename one" }).click();
    await page.getByLabel("Title", { exact: true }).fill("The first");
    await page.keyboard.press("Enter");
    await page.reload();
    assert.deepEqual(await titles.allInnerTexts(), ["two", "The first"]);
    await page.getByRole("button", { name: "Delete The first" }).click();
    assert.deepEqual(await titles.allInnerTexts(), ["two"]);
    assert.equal(await page.locator(".question").count(), 0);
    await page.getByRole("button", { name: "Undo" }).click();
    assert.deepEqual(await titles.allInnerTexts(), ["two", "The first"]);
    await page.goBack();
    assert.deepEqual(await page.locator(".question").allInnerTexts(), ["two"]);
});

page_test("A reply goes on while another conversation is open", {}, async (page) => {
    await send(page, "slow one");
    await page.getByText("word3 ").waitFor();
    await page.getByRole("button", { name: "New chat" }).click();
    await send(page, "another");
    await reply_done(page);
    assert.equal(await last_reply(page).locator("> .prose").innerText(), "You said: another");
    await page.getByRole("link", { name: "slow one" }).click();
    await page.getByText("word60 ").waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await reply_done(page);
});

page_test("Settings are sent, checked and kept with their conversation", {}, async (page) => {
    await page.getByRole("button", { name: "Settings of this chat" }).click();
    const dialog = page.getByRole("dialog", { name: "Settings of this chat" });
    await dialog.getByLabel("System prompt").fill("Be brief.");
    await dialog.getByLabel("Temperature").fill("0.5");
    await dialog.getByLabel("Top k").fill("2.5");
    await dialog.getByLabel("Seed").fill("7");
    await dialog.getByText("Tools", { exact: true }).click();
    await dialog.getByLabel("Functions the model may call, as JSON").fill("[{]");
    await dialog.getByLabel("Seed").focus();
    assert.equal(await dialog.getByText("A whole number from 0 to 1000000, or nothing.").isVisible(), true);
    assert.equal(await dialog.getByText("This is not JSON").isVisible(), true);
    const tools = [{ type: "function", function: { name: "weather", parameters: { type: "object" } } }];
    await dialog.getByLabel("Functions the model may call, as JSON").fill(JSON.stringify(tools));
    await page.keyboard.press("Escape");
    await page.getByLabel("Model", { exact: true }).selectOption("mock/other");
    await send(page, "Hello");
    await reply_done(page);
    const { temperature, top_k, top_p, seed, tools: sent_tools, model, messages } = server.requests[0];
    assert.deepEqual([temperature, top_k, top_p, seed, model], [0.5, undefined, undefined, 7, "mock/other"]);
    assert.deepEqual(sent_tools, tools);
    assert.deepEqual(messages[0], { role: "system", content: "Be brief." });
    await page.reload();
    await send(page, "Again");
    await reply_done(page);
    assert.equal(server.requests[1].temperature, 0.5);
    await page.getByRole("button", { name: "New chat" }).click();
    await send(page, "Hello");
    await reply_done(page);
    assert.equal(server.requests[2].temperature, undefined);
});

page_test("A key is asked for, kept for the tab only, and the message is sent again", {}, async (page, context) => {
    server.needs_key = true;
    try {
        await page.reload();
        const dialog = page.getByRole("dialog", { name: "API key" });
        await dialog.waitFor();
        await page.keyboard.press("Escape");
        await send(page, "Hello");
        await dialog.getByLabel("Key", { exact: true }).fill(kKey);
        await page.keyboard.press("Enter");
        await page.getByText("You said: Hello", { exact: true }).waitFor();
        await page.reload();
        await send(page, "Once more");
        await page.getByText("You said: Once more", { exact: true }).waitFor();
        const stored = await context.storageState();
        assert.equal(JSON.stringify(stored).includes(kKey), false);
    } finally {
        server.needs_key = false;
    }
});

page_test("A full storage is told and nothing is lost before it", {}, async (page) => {
    await send(page, "kept");
    await reply_done(page);
    await page.evaluate(() => {
        let size = 1 << 22;
        while (size > 0) {
            try {
                localStorage.setItem(`filler${size}`, "x".repeat(size));
            } catch {
                // Smaller pieces still fit.
            }
            size >>= 1;
        }
    });
    await send(page, "too much ".repeat(500));
    await page.getByText("The browser's storage is full").waitFor();
    await reply_done(page);
    assert.equal(await page.locator(".question").count(), 2);
    await page.reload();
    assert.deepEqual(await page.locator(".question").allInnerTexts(), ["kept"]);
});

page_test("Damaged entries in the storage do not stop the page", {}, async (page) => {
    await page.evaluate(() => {
        localStorage.setItem("gemmatrace:conversation:aa", "{");
        localStorage.setItem(
            "gemmatrace:conversation:bb",
            JSON.stringify({ id: "bb", title: 7, messages: [{ role: "user" }, null, { calls: [null] }] }),
        );
        localStorage.setItem("gemmatrace:defaults", "[]");
        localStorage.setItem("gemmatrace:theme", "purple");
    });
    await page.reload();
    await page.getByRole("link", { name: "Untitled" }).click();
    assert.equal(await page.locator(".message").count(), 3);
    await send(page, "Hello");
    await reply_done(page);
});

page_test("Conversations are exported and imported", {}, async (page) => {
    await send(page, "keep this");
    await reply_done(page);
    const [download] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("button", { name: "Export all" }).click(),
    ]);
    const path = await download.path();
    await page.getByRole("button", { name: "Delete keep this" }).click();
    await page.locator("#import-file").setInputFiles(path);
    await page.getByText("Imported 1 of 1 conversations.").waitFor();
    await page.getByRole("link", { name: "keep this" }).click();
    assert.equal(await last_reply(page).locator("> .prose").innerText(), "You said: keep this");
    await page
        .locator("#import-file")
        .setInputFiles({ name: "x.json", mimeType: "application/json", buffer: Buffer.from("[1") });
    await page.getByText("The file is not JSON.").waitFor();
});

page_test("Two tabs show the same conversations", {}, async (page, context) => {
    const other = await context.newPage();
    await other.goto(server.url);
    await send(page, "from the first tab");
    await reply_done(page);
    await other.getByRole("link", { name: "from the first tab" }).click();
    assert.equal(await other.locator(".from-model > .prose").innerText(), "You said: from the first tab");
});

page_test("Everything can be done with the keyboard", {}, async (page) => {
    await page.evaluate(() => {
        // from the start of the page, as one comes from the browser's own controls
        document.body.tabIndex = -1;
        document.body.focus();
    });
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the message field");
    await page.keyboard.press("Enter");
    await page.keyboard.type("line one");
    await page.keyboard.press("Shift+Enter");
    await page.keyboard.type("line two");
    await page.keyboard.press("Enter");
    await reply_done(page);
    assert.equal(server.requests[0].messages[0].content, "line one\nline two");
    assert.equal(await page.evaluate(() => document.activeElement.id), "message");
    await page.keyboard.press("ArrowUp");
    assert.equal(await page.evaluate(() => document.activeElement.value), "line one\nline two");
    await page.keyboard.press("Escape");
    const reached = new Set();
    for (let step = 0; step < 40; ++step) {
        await page.keyboard.press("Tab");
        reached.add(
            await page.evaluate(
                () => document.activeElement.getAttribute("aria-label") ?? document.activeElement.innerText,
            ),
        );
    }
    for (const name of [
        "New chat",
        "Model",
        "Settings of this chat",
        "Messages",
        "Edit and ask again",
        "Ask for another reply",
        "Copy reply",
        "Thinking",
        "Send",
        "Rename line one",
        "Delete line one",
        "API key",
        "Message",
    ]) {
        assert.ok(reached.has(name), `${name} is not reached by Tab: ${[...reached]}`);
    }
    await page.getByRole("button", { name: "Ask for another reply" }).focus();
    await page.keyboard.press("/");
    assert.equal(await page.evaluate(() => document.activeElement.id), "message");
});

page_test("A screen reader hears the finished reply once, and every control has a name", {}, async (page) => {
    await page.evaluate(() => {
        window.said = [];
        new MutationObserver(() => window.said.push(document.getElementById("announcer").textContent)).observe(
            document.getElementById("announcer"),
            { childList: true, characterData: true, subtree: true },
        );
    });
    await send(page, "Hello");
    await reply_done(page);
    await page.waitForTimeout(200);
    assert.deepEqual(
        (await page.evaluate(() => window.said)).filter((text) => text !== ""),
        ["Reply: You said: Hello"],
    );
    const nameless = await page.evaluate(() =>
        Array.from(document.querySelectorAll("button, input, textarea, select, a"))
            .filter(
                (control) =>
                    !(
                        control.getAttribute("aria-label") ||
                        control.innerText ||
                        control.textContent.trim() ||
                        control.labels?.length
                    ),
            )
            .map((control) => control.outerHTML),
    );
    assert.deepEqual(nameless, []);
});

page_test(
    "On a phone nothing is wider than the screen and the drawer opens and closes",
    { viewport: kPhone, hasTouch: true, isMobile: true },
    async (page) => {
        const width = () => page.evaluate(() => document.documentElement.scrollWidth);
        const table = `| ${"column | ".repeat(12)}\n|${"---|".repeat(12)}\n| ${"value | ".repeat(12)}`;
        server.extra.wide = `${table}\n\n\`\`\`\n${"x".repeat(400)}\n\`\`\`\n\n${"y".repeat(300)}`;
        await page.getByLabel("Message", { exact: true }).fill("wide please");
        await page.getByRole("button", { name: "Send" }).tap();
        await reply_done(page);
        assert.equal(await width(), kPhone.width);
        assert.equal(
            await page.evaluate(
                () =>
                    document.getElementById("transcript").scrollWidth <=
                    document.getElementById("transcript").clientWidth,
            ),
            true,
        );
        await page.getByRole("button", { name: "Conversations" }).tap();
        await page.getByRole("link", { name: "wide please" }).waitFor();
        assert.equal(await page.evaluate(() => document.activeElement.id), "close-drawer");
        assert.equal(await page.evaluate(() => document.getElementById("main").inert), true);
        await page.keyboard.press("Escape");
        assert.equal(await page.evaluate(() => document.activeElement.id), "open-drawer");
        assert.equal(await width(), kPhone.width);
    },
);

page_test("The theme follows the system until one is chosen", { colorScheme: "dark" }, async (page) => {
    const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const dark = await background();
    await page.getByRole("button", { name: "Theme: automatic" }).click();
    const light = await background();
    assert.notEqual(light, dark);
    await page.reload();
    assert.equal(await background(), light);
    await page.getByRole("button", { name: "Theme: light" }).click();
    assert.equal(await background(), dark);
});

page_test("A reader who scrolls up is left there, and a button leads back", {}, async (page) => {
    server.extra.tall = Array.from({ length: 80 }, (_, index) => `Paragraph ${index}`).join("\n\n");
    await send(page, "tall please");
    await reply_done(page);
    await send(page, "slow please");
    await page.getByText("word3 ").waitFor();
    await page.locator("#transcript").evaluate((log) => {
        log.scrollTop = 0;
    });
    await page.getByText("word40 ").waitFor();
    assert.equal(await page.locator("#transcript").evaluate((log) => log.scrollTop), 0);
    await page.getByRole("button", { name: "To the end" }).click();
    await page.keyboard.press("Escape");
    await reply_done(page);
    assert.ok(
        (await page.locator("#transcript").evaluate((log) => log.scrollHeight - log.scrollTop - log.clientHeight)) < 4,
    );
});

page_test("Markdown that streams in looks as it does when shown at once", {}, async (page) => {
    server.extra.much =
        "# Title\n\nSome *text*\nwith lines\n- a\n- b\n  1. c\n\n  d\n\n> quote\n> more\n\n" +
        "| a | b |\n|---|--:|\n| 1 | `2` |\n\n```js\nlet x;\n\n```\n***\n2. two\n3. three\n\nend";
    await send(page, "much please");
    await reply_done(page);
    const shown = () => last_reply(page).locator("> .prose").innerHTML();
    const streamed = await shown();
    await page.reload();
    assert.equal(await shown(), streamed);
});
