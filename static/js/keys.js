/** Keyboard shortcuts: one table serves the listener and the dialog that explains them. */

/** @typedef {{keys: string[], does: string, act?: () => void}} Shortcut */

/** @param {Shortcut[]} shortcuts */
export function listen(shortcuts) {
  document.addEventListener("keydown", (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (
      target.isContentEditable ||
      /^(TEXTAREA|SELECT)$/.test(target.tagName) ||
      (target instanceof HTMLInputElement && !/^(range|radio|checkbox)$/.test(target.type))
    )
      return;
    const found = shortcuts.find(({ keys, act }) => act && keys.includes(event.key));
    if (!found?.act) return;
    event.preventDefault();
    found.act();
  });
}
