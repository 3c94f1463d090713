// Builds the page, and opens it in the system's Chromium with an eye on what it must never do.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const kScript = join(import.meta.dirname, "../../cmake/embed_page.cmake");
const kBrowsers = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

export const kDesktop = { width: 1280, height: 860 };
export const kPhone = { width: 375, height: 740 };

// The page as the build makes it: {html, policy}.
export function build_page() {
    const folder = mkdtempSync(join(tmpdir(), "page-"));
    try {
        execFileSync("cmake", ["-D", `PAGE_OUTPUT=${folder}`, "-P", kScript]);
        return {
            html: readFileSync(join(folder, "page.html"), "utf8"),
            policy: readFileSync(join(folder, "page_policy.txt"), "utf8"),
        };
    } finally {
        rmSync(folder, { recursive: true });
    }
}

export async function launch_browser() {
    const path = kBrowsers.find((candidate) => candidate && existsSync(candidate));
    assert.ok(path, "no Chromium found: install chromium, or name one in CHROMIUM");
    // Chromium's own sandbox does not start for root, as in a container.
    return chromium.launch({ executablePath: path, args: process.getuid?.() === 0 ? ["--no-sandbox"] : [] });
}

// Opens `url` in a fresh profile. options: as Playwright's newContext. Returns {page, context, faults, done()}: done()
// closes it and fails if the page asked for anything elsewhere, broke its policy, ran what a message said, or threw.
export async function open_page(browser, url, options = {}) {
    const context = await browser.newContext({
        viewport: kDesktop,
        permissions: ["clipboard-read", "clipboard-write"],
        ...options,
    });
    const faults = [];
    const origin = new URL(url).origin;
    await context.exposeFunction("report_violation", (directive) => {
        faults.push(`policy violated: ${directive}`);
    });
    await context.addInitScript(() => {
        document.addEventListener("securitypolicyviolation", (event) =>
            window.report_violation(event.violatedDirective),
        );
    });
    context.on("request", (request) => {
        const address = new URL(request.url());
        if (address.origin !== origin && address.protocol !== "data:" && address.protocol !== "blob:") {
            faults.push(`request to elsewhere: ${address}`);
        }
    });
    const page = await context.newPage();
    page.on("pageerror", (error) => faults.push(`exception: ${error.message} ${error.stack}`));
    page.on("dialog", (dialog) => faults.push(`dialog: ${dialog.message()}`));
    page.setDefaultTimeout(30000); // machines that test are busy
    await page.goto(url);
    const done = async () => {
        const is_hacked = await page.evaluate(() => window.hacked === true);
        await context.close();
        assert.equal(is_hacked, false, "a message ran as a program");
        assert.deepEqual(faults, []);
    };
    return { page, context, faults, done };
}

// Writes a message and sends it.
export async function send(page, text) {
    await page.getByLabel("Message", { exact: true }).fill(text);
    await page.getByLabel("Message", { exact: true }).press("Enter");
}

// Waits until no reply is under way.
export async function reply_done(page) {
    await page.getByRole("button", { name: "Send", exact: true }).waitFor();
}
