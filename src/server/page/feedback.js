// Tells the reader what happened: to the eye as a notice, to a screen reader as an announcement.

import { by_id, element } from "./dom.js";

const kNoticeMilliseconds = 8000;
const kCopiedMilliseconds = 1600;
const kMaxAnnouncedCharacters = 4000;

let notice_timer = 0;

// Has a screen reader say `text` once it is done with what it is saying.
export function announce(text) {
    const announcer = by_id("announcer");
    // The same text twice would be no change, and nothing would be said.
    announcer.textContent = "";
    setTimeout(() => {
        announcer.textContent = text.slice(0, kMaxAnnouncedCharacters);
    }, 50);
}

// Shows a notice for a while, with one thing to do about it if `action` is {label, run}.
export function notify(text, action = null) {
    const notice = by_id("notice");
    const close = () => {
        clearTimeout(notice_timer);
        notice.replaceChildren();
    };
    const run = () => {
        close();
        action.run();
    };
    notice.replaceChildren(
        element(
            "div",
            { class: "notice" },
            element("span", {}, text),
            action ? element("button", { type: "button", class: "link-button", click: run }, action.label) : null,
        ),
    );
    clearTimeout(notice_timer);
    notice_timer = setTimeout(close, kNoticeMilliseconds);
}

// Copies text and says whether it worked. When it did, show(true) is called, and show(false) a moment later.
export async function copy_text(text, show) {
    let copied = true;
    try {
        await navigator.clipboard.writeText(text);
    } catch {
        copied = copy_by_selection(text);
    }
    announce(copied ? "Copied" : "The browser refused to copy");
    if (copied) {
        show(true);
        setTimeout(() => show(false), kCopiedMilliseconds);
    }
}

// The old way, for plain http on another address than localhost, where browsers offer no clipboard object.
function copy_by_selection(text) {
    const field = element("textarea", { class: "visually-hidden", "aria-hidden": "true" });
    const focused = document.activeElement;
    field.value = text;
    document.body.append(field);
    field.select();
    const copied = document.execCommand("copy");
    field.remove();
    focused?.focus();
    return copied;
}

// Offers `text` as a file to save.
export function save_file(name, type, text) {
    const address = URL.createObjectURL(new Blob([text], { type }));
    element("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
}
