/** Bring a control of the scenario panel into sight: unfolded, on a narrow page with its sheet open, and focused. */
import { byId, narrow } from "./dom.js";

/** @param {string} path  of the field, or the part of the panel */
export function reveal(path) {
  const explore = byId("explore");
  const control = explore.querySelector(`:is([data-field="${CSS.escape(path)}"], [data-part="${CSS.escape(path)}"])`);
  if (!control) return;
  if (narrow()) explore.querySelector(".sheet-button")?.click();
  for (let at = control.closest("details"); at; at = at.parentElement?.closest("details") ?? null) at.open = true;
  /** @type {HTMLElement | null} */ (
    control.querySelector("input:checked, input:not([type=radio]), select, input")
  )?.focus();
}
