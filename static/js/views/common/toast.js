/** Short answers to what a person just did, at the foot of the page. */
import { ApiError } from "../../api.js";
import { byId, h, icon } from "./dom.js";
import { arrange, keepLine } from "./kept.js";

const SHOWN_MS = 2600;
/** To read a letter. */
const LETTER_MS = 60;
const MOST = 3;

/** Say something for a moment; the same again takes its own place, and the oldest makes room. @param {string} text */
export function toast(text) {
  const note = h("div", { class: "toast", role: "status", text });
  const others = [...byId("tray").querySelectorAll(".toast")].filter((one) => {
    if (one.textContent === text) one.remove();
    return one.isConnected;
  });
  others.slice(MOST - 1).forEach((one) => one.remove());
  byId("tray").prepend(note);
  setTimeout(() => note.remove(), Math.max(SHOWN_MS, LETTER_MS * text.length));
}

/**
 * Something that stays above the figures until it is closed.
 * @param {string} text @param {{title?: string, act?: HTMLElement | null}} [more]  `act`: what can be done about it
 */
export function notice(text, { title = "Not all of it is known", act = null } = {}) {
  const close = h(
    "button",
    { type: "button", class: "dismiss", "aria-label": "Dismiss", onclick: () => (note.remove(), arrange()) },
    icon("close"),
  );
  const note = h(
    "div",
    { class: "import", role: "status" },
    h("div", { class: "head" }, h("b", { text: title }), close),
    h("p", { text }),
    act,
  );
  keepLine(note, text);
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

/**
 * Wait for something the server was asked for; say what it refused. That it does not answer at all says the banner.
 * @param {Promise<any>} promise
 */
export const trying = (promise) =>
  promise.catch((error) => {
    if (!(error instanceof ApiError)) throw error;
    if (error.status) toast(error.message);
  });
