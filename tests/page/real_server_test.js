// The page as a real server serves it, with a real model behind it; only where GEMMATRACE_URL names one.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch_browser, open_page, reply_done, send } from "./browser.js";

const url = process.env.GEMMATRACE_URL;
const options = { skip: url ? false : "GEMMATRACE_URL names no server", timeout: 300000 };
let browser;

before(async () => {
    browser = url ? await launch_browser() : null;
});

after(() => browser?.close());

const last_reply = (page) => page.locator(".from-model").last();

test("A real server's page comes with its policy", options, async () => {
    const response = await fetch(url);
    assert.equal(response.status, 200);
    assert.match(response.headers.get("Content-Type"), /^text\/html/);
    const policy = response.headers.get("Content-Security-Policy");
    for (const rule of ["default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'", "script-src 'sha256-"]) {
        assert.ok(policy.includes(rule), `no ${rule} in ${policy}`);
    }
});

test("A real server answers, and a reload finds the answer", options, async () => {
    const { page, done } = await open_page(browser, url);
    await send(page, "Say hello.");
    await page.locator(".from-model").waitFor();
    await reply_done(page);
    assert.equal(await last_reply(page).locator(".is-error").count(), 0);
    const text = await last_reply(page).locator("> .prose").innerText();
    assert.notEqual(text.trim(), "");
    assert.match(await last_reply(page).locator(".stats").innerText(), /^(?!≈).*tokens?/);
    assert.match(await page.locator("#context-text").innerText(), /^[\d,]+ of [\d,]+ tokens$/);
    await page.reload();
    assert.equal(await last_reply(page).locator("> .prose").innerText(), text);
    await done();
});

test("A real server's reply can be stopped and the next one comes", options, async () => {
    const { page, done } = await open_page(browser, url);
    await send(page, "Count from one to a thousand in words.");
    await page.locator(".from-model .prose :not(:empty)").first().waitFor();
    await page.keyboard.press("Escape");
    await reply_done(page);
    await send(page, "Say hello.");
    await page.locator(".from-model").nth(1).waitFor();
    await reply_done(page);
    assert.equal(await last_reply(page).locator(".is-error").count(), 0);
    await done();
});
