/** The left column; on a narrow screen a sheet that a fixed button opens, so that the figures come first. */
import { h, icon, put } from "./dom.js";

/** @param {string} title @param {(Node | string)[]} content */
export function createSheet(title, content) {
  const text = h("span", { text: title });
  const button = h(
    "button",
    { type: "button", class: "sheet-button", "aria-expanded": "false", onclick: () => open(true) },
    icon("sliders"),
    text,
  );
  const close = h("button", { type: "button", class: "ghost", text: "Done", onclick: () => open(false) });
  const panel = h(
    "aside",
    { class: "panel", "aria-label": title },
    h("div", { class: "sheet-head" }, title, close),
    content,
  );

  /** @param {boolean} yes */
  function open(yes) {
    panel.classList.toggle("open", yes);
    button.setAttribute("aria-expanded", String(yes));
    if (yes) close.focus();
    else if (panel.contains(document.activeElement)) button.focus();
  }
  panel.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && panel.classList.contains("open")) open(false);
  });
  return { panel, button, open, label: (/** @type {string} */ words) => put(text, words) };
}
