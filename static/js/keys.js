/** Keyboard shortcuts: one table serves the listener and the dialog that explains them. */

import { isTable } from "./pasted.js";

/** `words`: by which the commands find it as well. @typedef {{keys: string[], does: string, words?: string, act?: () => void}} Shortcut */

/** Whether what is typed or pasted there is its own. @param {EventTarget | null} target */
const takesText = (target) =>
  target instanceof HTMLElement &&
  (target.isContentEditable ||
    /^(TEXTAREA|SELECT)$/.test(target.tagName) ||
    (target instanceof HTMLInputElement && !/^(range|radio|checkbox)$/.test(target.type)));

/** A table that is pasted beside every text field. @param {(text: string) => void} take */
export function listenForTables(take) {
  document.addEventListener("paste", (event) => {
    const text = event.clipboardData?.getData("text/plain") ?? "";
    if (takesText(event.target) || document.querySelector("dialog[open]") || !isTable(text)) return;
    event.preventDefault();
    take(text);
  });
}

/** @param {Shortcut[]} shortcuts */
export function listen(shortcuts) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (takesText(event.target)) return;
    const found = shortcuts.find(({ keys, act }) => act && keys.includes(event.key));
    if (!found?.act) return;
    event.preventDefault();
    found.act();
  });
}
