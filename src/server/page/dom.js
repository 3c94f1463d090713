// Builds elements: the only way the page makes markup, and text always enters it as text.

const kSvgNamespace = "http://www.w3.org/2000/svg";

// Outlines on a grid of 24 by 24.
const kIcons = {
    again: "M19.5 12a7.5 7.5 0 1 1-2.4-5.5M19.5 3.5v4h-4",
    call: "M8.5 6L3 12l5.5 6M15.5 6L21 12l-5.5 6",
    check: "M5 12.5l4.5 4.5L19 7.5",
    close: "M6 6l12 12M18 6L6 18",
    copy: "M9 9h11v11H9zM5 15H4V4h11v1",
    down: "M6 9.5l6 6 6-6",
    export: "M12 4v11M7 10.5l5 5 5-5M5 20h14",
    import: "M12 15.5V4M7 9l5-5 5 5M5 20h14",
    key: "M12 15a4 4 0 1 1-8 0 4 4 0 0 1 8 0zM11 12l8.5-8.5M16 7l3 3",
    menu: "M4 7h16M4 12h16M4 17h16",
    pencil: "M4 20l1-4.5L16 4.5l3.5 3.5L8.5 19zM13.5 7l3.5 3.5",
    plus: "M12 5v14M5 12h14",
    send: "M12 19.5V5M5.5 11.5L12 5l6.5 6.5",
    sliders:
        "M4 8h8M17 8h3M4 16h3M12 16h8M17 8a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0z" +
        "M12 16a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0z",
    stop: "M7.5 7.5h9v9h-9z",
    theme: "M12 4v16a8 8 0 0 1 0-16a8 8 0 0 1 0 16",
    thought: "M9.5 18h5M10.5 21h3M9.5 15.5c0-1.3-.6-1.9-1.4-2.8a5.5 5.5 0 1 1 7.8 0c-.8.9-1.4 1.5-1.4 2.8z",
    trash: "M4.5 7h15M9.5 7V4h5v3M6.5 7l1 13h9l1-13",
};

// A new element. Values of `attributes`: a string or number is set, true sets an empty attribute, false, null and
// undefined leave it out, a function listens to the event of that name. Children are nodes or strings; null ones are
// left out.
export function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
        if (typeof value === "function") {
            made.addEventListener(name, value);
        } else if (value !== false && value !== null && value !== undefined) {
            made.setAttribute(name, value === true ? "" : String(value));
        }
    }
    made.append(...children.filter((child) => child !== null && child !== undefined));
    return made;
}

// The icon of that name; it is decoration, so whatever holds it needs a label of its own.
export function icon(name) {
    const drawing = document.createElementNS(kSvgNamespace, "svg");
    drawing.setAttribute("viewBox", "0 0 24 24");
    drawing.setAttribute("class", "icon icon-" + name);
    drawing.setAttribute("aria-hidden", "true");
    const outline = document.createElementNS(kSvgNamespace, "path");
    outline.setAttribute("d", kIcons[name]);
    drawing.append(outline);
    return drawing;
}

// A button that shows an icon only; `label` is what a screen reader says and the pointer sees.
export function icon_button(name, label, on_click) {
    return element(
        "button",
        { type: "button", class: "icon-button", "aria-label": label, title: label, click: on_click },
        icon(name),
    );
}

// The element of index.html with that id.
export function by_id(id) {
    return document.getElementById(id);
}

// Puts the icons into the buttons of index.html that name one.
export function draw_icons() {
    for (const holder of document.querySelectorAll("[data-icon]")) {
        holder.prepend(icon(holder.dataset.icon));
    }
}
