/** Deleting what was measured: a button that asks once more, and what is forgotten with it. */
import { writeUrl } from "../../actions.js";
import { refreshMeasurements } from "../../measurements.js";
import { set, state } from "../../state.js";
import { h, put } from "./dom.js";
import { trying } from "./toast.js";

const ASKED_MS = 4000;

/**
 * A button that deletes when it is pressed a second time within some seconds.
 * @param {string} label  of what it deletes @param {() => Promise<any>} remove @param {string} [looks]  its class
 */
export function createRemove(label, remove, looks = "") {
  let timer = 0;
  const button = h("button", { type: "button", onclick: press });
  ask(false);

  /** @param {boolean} again */
  function ask(again) {
    clearTimeout(timer);
    timer = again ? setTimeout(() => ask(false), ASKED_MS) : 0;
    button.className = again ? `${looks} danger` : looks;
    button.setAttribute("aria-label", again ? `Delete ${label} for good` : `Delete ${label}`);
    put(button, again ? "Delete for good?" : "Delete");
  }

  function press() {
    if (!timer) return ask(true);
    ask(false);
    void trying(remove());
    return undefined;
  }
  return button;
}

/** Show measurements no more that were deleted. @param {string[]} ids */
export async function forget(ids) {
  const { measured, pins, open, a, b } = state;
  const names = ids.map((id) => `m:${id}`);
  if (ids.includes(open.replace(/\.\d+$/, "")) || ids.includes(open)) set({ open: "" });
  if (ids.includes(measured)) set({ measured: "" });
  const kept = (/** @type {string} */ side) => (names.includes(side) ? "" : side);
  set({ a: kept(a), b: kept(b) });
  if (pins.some((pin) => names.includes(pin))) set({ pins: pins.filter((pin) => !names.includes(pin)) });
  writeUrl();
  await refreshMeasurements();
}
