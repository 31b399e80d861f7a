/** Lines above the figures that stay to be read until they are closed: the newest first, whoever says them. */
import { byId, h } from "./dom.js";

const closeAll = h("button", {
  type: "button",
  class: "close-all",
  text: "Close all",
  onclick: () => {
    for (const card of lines()) /** @type {HTMLElement | null} */ (card.querySelector(".dismiss"))?.click();
  },
});
const lines = () => [...byId("kept").querySelectorAll(".import")];

/** Several lines can be closed at once. */
export function arrange() {
  if (lines().length > 1) byId("kept").prepend(closeAll);
  else closeAll.remove();
}

/**
 * Put a line above all others, and in sight; an older one of the same name makes room: it is of a file that came again.
 * @param {HTMLElement} card @param {string} name
 */
export function keepLine(card, name) {
  const kept = byId("kept");
  for (const one of lines()) if (one !== card && one.getAttribute("data-of") === name) one.remove();
  card.setAttribute("data-of", name);
  kept.prepend(card);
  arrange();
  kept.scrollTop = 0;
  kept.scrollIntoView({ block: "nearest" });
}

/** A file that came without a word takes away what was said of it before. @param {string} name */
export function forgetLine(name) {
  for (const one of lines()) if (one.getAttribute("data-of") === name) one.remove();
  arrange();
}
