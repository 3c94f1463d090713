// Light or dark, and the drawer that the list of conversations is in on a narrow screen.

import { lasting_storage } from "./browser_storage.js";
import { by_id } from "./dom.js";

const kThemeEntry = "gemmatrace:theme";
const kThemes = ["auto", "light", "dark"];

// Shows the chosen theme and lets its button go on to the next.
export function set_up_theme() {
    const button = by_id("theme");
    const show = (theme) => {
        document.documentElement.dataset.theme = theme;
        by_id("theme-label").textContent = { auto: "Theme: automatic", light: "Theme: light", dark: "Theme: dark" }[
            theme
        ];
    };
    const stored = lasting_storage.getItem(kThemeEntry);
    show(kThemes.includes(stored) ? stored : "auto");
    button.addEventListener("click", () => {
        const next = kThemes[(kThemes.indexOf(document.documentElement.dataset.theme) + 1) % kThemes.length];
        lasting_storage.setItem(kThemeEntry, next);
        show(next);
    });
}

// On a narrow screen the drawer lies over the page, and what is below it must not be reached.
export class Drawer {
    #drawer = by_id("drawer");
    #main = by_id("main");
    #opener = by_id("open-drawer");
    #is_narrow = matchMedia("(max-width: 800px)");
    #is_open = false;

    constructor() {
        this.#opener.addEventListener("click", () => this.#set(true));
        by_id("close-drawer").addEventListener("click", () => this.close());
        by_id("backdrop").addEventListener("click", () => this.close());
        this.#drawer.addEventListener("keydown", (event) => {
            if (event.key === "Escape" && this.#is_open) {
                event.stopPropagation();
                this.close();
            }
        });
        this.#is_narrow.addEventListener("change", () => this.#set(false));
        this.#set(false);
    }

    close() {
        if (this.#is_open) {
            this.#set(false);
            this.#opener.focus();
        }
    }

    #set(is_open) {
        this.#is_open = is_open && this.#is_narrow.matches;
        document.documentElement.classList.toggle("drawer-open", this.#is_open);
        this.#drawer.inert = this.#is_narrow.matches && !this.#is_open;
        this.#main.inert = this.#is_open;
        this.#opener.setAttribute("aria-expanded", String(this.#is_open));
        if (this.#is_open) {
            by_id("close-drawer").focus();
        }
    }
}
