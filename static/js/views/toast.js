// @ts-check
/** Short answers to what a person just did, in the tray. */
import { byId, h } from "./dom.js";

const SHOWN_MS = 2600;

/** @param {string} text */
export function toast(text) {
  const note = h("div", { class: "toast", role: "status", text });
  byId("tray").append(note);
  setTimeout(() => note.remove(), SHOWN_MS);
}

/** @param {string} text @param {string} said  what the toast says */
export async function copy(text, said) {
  try {
    await navigator.clipboard.writeText(text);
    toast(said);
  } catch {
    toast("The browser did not allow copying.");
  }
}
