// Takes pictures of the page, at the sizes and in the colours that people see it in: node looks.js FOLDER
// [phone|desktop].

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { build_page, kDesktop, kPhone, launch_browser, open_page, reply_done } from "./browser.js";
import { start_mock_server } from "./mock_server.js";

const kSample = `A **ring buffer** keeps the last *n* items in a fixed piece of memory.
Writing past the end begins again at the front:

1. Store the item at \`head\`.
2. Move \`head\` on by one, modulo the capacity.
3. If it meets \`tail\`, the oldest item is gone:
   - move \`tail\` too, or
   - refuse the write.

### In C++

\`\`\`cpp
template <typename Item, size_t kCapacity>
class Ring {
public:
    void push(const Item& item) {
        items_[head_++ % kCapacity] = item;  // the oldest is overwritten
    }

private:
    std::array<Item, kCapacity> items_;
    size_t head_ = 0;
};
\`\`\`

| operation | cost | allocates |
|---|--:|:-:|
| push | 1 | no |
| pop | 1 | no |
| search | n | no |

> It is the right choice when only the recent past matters, as with the keys and values of a sliding window.

See [the article](https://en.wikipedia.org/wiki/Circular_buffer) for more.`;

const folder = process.argv[2];
if (folder === undefined) {
    throw new Error("name the folder to write to: node looks.js FOLDER");
}
mkdirSync(folder, { recursive: true });
const browser = await launch_browser();
const server = await start_mock_server(build_page());
server.extra.Explain = kSample;
const sizes = [
    ["desktop", kDesktop],
    ["phone", kPhone],
].filter(([size]) => (process.argv[3] ?? size) === size);
for (const [size, viewport] of sizes) {
    for (const colorScheme of ["light", "dark"]) {
        await take_pictures(`${size}-${colorScheme}`, {
            viewport,
            colorScheme,
            hasTouch: size === "phone",
            isMobile: size === "phone",
        });
    }
}
await browser.close();
await server.close();

async function take_pictures(name, options) {
    const { page, done } = await open_page(browser, server.url, options);
    const take = (part) => page.screenshot({ path: join(folder, `${name}-${part}.png`), animations: "disabled" });
    const say = async (text) => {
        await page.getByLabel("Message", { exact: true }).fill(text);
        await page.getByRole("button", { name: "Send", exact: true }).click();
    };
    await page.getByLabel("Model", { exact: true }).waitFor();
    await take("1-welcome");
    for (const title of ["Letter to the landlord", "Why is the sky dark at night?", "fail on purpose"]) {
        await say(title);
        await reply_done(page);
        await open_drawer(page, options);
        await page.getByRole("button", { name: "New chat" }).click();
    }
    await say("Explain ring buffers to me, with an example in C++ and a table of what the operations cost.");
    await reply_done(page);
    await take("2-end");
    await page.locator("#transcript").evaluate((log) => {
        log.scrollTop = 0;
    });
    await take("3-begin");
    await page.locator("#transcript").evaluate((log) => {
        log.scrollTop = 700;
    });
    await take("4-middle");
    await say("think hard");
    await reply_done(page);
    await page.getByText("Thought for").last().click();
    await say("tool please");
    await reply_done(page);
    await take("5-thinking-and-tool");
    await say("midway");
    await reply_done(page);
    await say("slow");
    await page.getByText("word9 ").waitFor();
    await take("6-error-and-running");
    await page.getByRole("button", { name: "Stop" }).click();
    await reply_done(page);
    await open_drawer(page, options);
    await take("7-drawer");
    if (options.isMobile) {
        await page.getByRole("button", { name: "Close the list" }).click();
    }
    await page.getByRole("button", { name: "Settings of this chat" }).click();
    await take("8-settings");
    await done();
}

async function open_drawer(page, options) {
    if (options.isMobile) {
        await page.getByRole("button", { name: "Conversations" }).click();
        await page.waitForTimeout(300);
    }
}
