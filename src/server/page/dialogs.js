// The dialogs: settings of a conversation, and the API key.

import { api_key } from "./api.js";
import { by_id, element } from "./dom.js";
import { fault_of_tools, is_within, kParameters } from "./settings.js";

// A click beside a dialog closes it, as Escape does.
function close_by_click_outside(dialog) {
    dialog.addEventListener("pointerdown", (event) => {
        const box = dialog.getBoundingClientRect();
        const is_inside =
            event.clientX >= box.left &&
            event.clientX <= box.right &&
            event.clientY >= box.top &&
            event.clientY <= box.bottom;
        if (event.target === dialog && !is_inside) {
            dialog.close();
        }
    });
}

export class SettingsDialog {
    #dialog = by_id("settings");
    #system = by_id("system");
    #tools = by_id("tools");
    #numbers = new Map();
    #conversation = null;

    // actions: {changed(conversation), set_defaults(settings), export_markdown(conversation),
    // export_json(conversation)}
    constructor(actions) {
        close_by_click_outside(this.#dialog);
        for (const parameter of kParameters) {
            by_id("parameters").append(this.#parameter_row(parameter, actions));
        }
        this.#system.addEventListener("change", () => this.#set("system", this.#system.value, actions));
        this.#tools.addEventListener("change", () => {
            this.#set("tools", this.#tools.value, actions);
            this.#show_fault(this.#tools, by_id("tools-fault"), fault_of_tools(this.#tools.value));
        });
        by_id("set-defaults").addEventListener("click", () => actions.set_defaults({ ...this.#conversation.settings }));
        by_id("export-markdown").addEventListener("click", () => actions.export_markdown(this.#conversation));
        by_id("export-json").addEventListener("click", () => actions.export_json(this.#conversation));
    }

    open(conversation) {
        this.#conversation = conversation;
        this.#system.value = conversation.settings.system;
        this.#tools.value = conversation.settings.tools;
        this.#show_fault(this.#tools, by_id("tools-fault"), fault_of_tools(this.#tools.value));
        for (const [name, { field, fault }] of this.#numbers) {
            field.value = conversation.settings[name] ?? "";
            this.#show_fault(field, fault, "");
        }
        for (const id of ["export-markdown", "export-json"]) {
            by_id(id).disabled = conversation.messages.length === 0;
        }
        this.#dialog.showModal();
    }

    // A value is taken when the field is left, and only if it can be sent.
    #parameter_row(parameter, actions) {
        const { name, label, min, max, step, hint } = parameter;
        const field = element("input", {
            type: "number",
            id: `parameter-${name}`,
            min,
            max,
            step: "any",
            placeholder: "default",
            inputmode: step < 1 ? "decimal" : "numeric",
            "aria-describedby": `hint-${name} fault-${name}`,
        });
        const fault = element("p", { class: "fault", id: `fault-${name}`, hidden: true });
        this.#numbers.set(name, { field, fault });
        field.addEventListener("change", () => {
            const is_empty = field.value === "" && !field.validity.badInput;
            const is_sound = is_empty || (field.value !== "" && is_within(parameter, field.valueAsNumber));
            const kind = step < 1 ? "A number" : "A whole number";
            this.#show_fault(field, fault, is_sound ? "" : `${kind} from ${min} to ${max}, or nothing.`);
            if (is_sound) {
                this.#set(name, is_empty ? null : field.valueAsNumber, actions);
            }
        });
        return element(
            "div",
            { class: "parameter" },
            element("label", { for: field.id }, label),
            field,
            element("p", { class: "hint", id: `hint-${name}` }, hint),
            fault,
        );
    }

    #set(name, value, actions) {
        this.#conversation.settings[name] = value;
        actions.changed(this.#conversation);
    }

    #show_fault(field, holder, text) {
        field.setAttribute("aria-invalid", String(text !== ""));
        holder.textContent = text;
        holder.hidden = text === "";
    }
}

export class KeyDialog {
    #dialog = by_id("key");
    #field = by_id("key-field");
    #remember = by_id("key-remember");
    #reason = by_id("key-reason");

    // on_change is called after a key was entered or removed.
    constructor(on_change) {
        close_by_click_outside(this.#dialog);
        by_id("key-cancel").addEventListener("click", () => this.#dialog.close());
        by_id("key-form").addEventListener("submit", () => {
            api_key.set(this.#field.value.trim(), this.#remember.checked);
            on_change();
        });
    }

    // reason: why the key is asked for, "" when the reader opened the dialog.
    open(reason) {
        this.#reason.textContent = reason;
        this.#reason.hidden = reason === "";
        this.#field.value = api_key.get();
        this.#remember.checked = api_key.is_remembered();
        if (!this.#dialog.open) {
            this.#dialog.showModal();
            this.#field.select();
        }
    }
}
