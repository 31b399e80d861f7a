/** A dialog that finds one of many by any of its words; Enter takes the first, arrow keys walk through the list. */
import { createDialog } from "./dialogs.js";
import { h, put } from "./dom.js";

/**
 * @typedef {{title: string, facts: string, act: () => void, words?: string, current?: boolean}} Offer  `words`: by which
 *   it is found as well
 * @typedef {{title: string, placeholder: string, none: string, offered: () => Offer[]}} Finding
 */

const MOST = 60;

export function createFinder() {
  const list = h("ul", { class: "found" });
  const search = h("input", { type: "text", autocomplete: "off", spellcheck: "false", oninput: () => fill() });
  const element = createDialog("", [search, list]);
  const head = /** @type {HTMLElement} */ (element.querySelector("header span"));
  /** @type {Finding | null} */
  let finding = null;

  function fill() {
    if (!finding) return;
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = finding.offered().filter(({ title, facts, words: more = "" }) => {
      const text = `${title} ${facts} ${more}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
    const line = (/** @type {Offer} */ { title, facts, act, current }) => {
      const take = () => {
        element.close();
        act();
      };
      const parts = [h("b", { text: title }), h("small", { text: facts })];
      return h("li", {}, h("button", { type: "button", "aria-current": current && "true", onclick: take }, parts));
    };
    list.replaceChildren(...found.slice(0, MOST).map(line));
    if (!found.length) list.replaceChildren(h("li", { class: "empty", text: finding.none }));
  }

  element.addEventListener("keydown", (event) => {
    const buttons = [...list.querySelectorAll("button")];
    const at = buttons.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement));
    if (event.key === "Enter" && document.activeElement === search) {
      event.preventDefault();
      buttons[0]?.click();
    }
    const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!way) return;
    event.preventDefault();
    if (at + way < 0) search.focus();
    else buttons[Math.min(buttons.length - 1, at + way)]?.focus();
  });

  /** @param {Finding} wanted */
  function open(wanted) {
    finding = wanted;
    element.setAttribute("aria-label", wanted.title);
    put(head, wanted.title);
    search.setAttribute("aria-label", wanted.title);
    search.placeholder = wanted.placeholder;
    search.value = "";
    fill();
    element.showModal();
    search.focus();
  }
  return { open };
}
