/** Whether the parts of a step are its categories or its phases: two buttons, one of them pressed. */
import { h } from "../common/dom.js";

/**
 * @param {() => void} redraw  what follows a press
 * @returns {{chosen: "category" | "phase", modes: HTMLButtonElement[]}}
 */
export function createBy(redraw) {
  /** @type {{chosen: "category" | "phase", modes: HTMLButtonElement[]}} */
  const by = { chosen: "category", modes: [] };
  by.modes = /** @type {const} */ (["category", "phase"]).map((word) => {
    const mode = /** @type {HTMLButtonElement} */ (
      h("button", { type: "button", text: `by ${word}`, "aria-pressed": String(word === by.chosen) })
    );
    mode.onclick = () => {
      by.chosen = word;
      by.modes.forEach((one) => one.setAttribute("aria-pressed", String(one === mode)));
      redraw();
    };
    return mode;
  });
  return by;
}
