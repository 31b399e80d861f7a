/** What an upload leaves open, asked with an answer that is right most often: what it was, and on what it ran. */
import { state } from "../../state.js";
import { h, put } from "./dom.js";

/** @typedef {import("../../types.js").Measurement} Measurement */

/** What it was read as. @param {Measurement} measurement */
export const kindWords = ({ origin }) => origin.format.replace(/^text\//, "").replaceAll("-", " ");

/** Whether a table depends on a machine that nobody has named. @param {Measurement} measurement */
export const asksDevice = ({ device, origin }) =>
  Array.isArray(device.candidates) && !device.name && device.kind !== "cpu" && origin.kind === "upload";

/** Whether somebody answered, and may have been mistaken. @param {Measurement} measurement */
export const answeredDevice = ({ device, origin }) =>
  Array.isArray(device.candidates) && Boolean(device.name) && origin.kind === "upload";

/**
 * At most two questions, answered already: what a table was, as it was read, and what it was measured on.
 * @param {{change: (chip: string) => void, right: (chip: string) => void, again: () => void}} acts
 */
export function createQuestions({ change, right, again }) {
  const what = h("b");
  const choice = h("select", { onchange: () => change(choice.value) });
  const why = h("small", { class: "quiet" });
  const yes = h("button", { type: "button", class: "primary", text: "Confirm", onclick: () => right(choice.value) });
  const known = h("b");
  const other = h("button", { type: "button", class: "text", text: "Change", onclick: again });
  const element = h(
    "div",
    { class: "questions" },
    h("p", {}, h("span", { class: "quiet", text: "What was it? " }), what),
    h("p", {}, h("span", { class: "quiet", text: "On what? " }), known, " ", other, choice, yes, why),
  );

  /** @param {Measurement} measurement @param {string} chip @param {number} tables  of the file that wait for an answer @param {boolean} asked */
  function update(measurement, chip, tables, asked) {
    const { label, id, device } = measurement;
    element.hidden = !asked && !answeredDevice(measurement);
    known.hidden = other.hidden = asked;
    choice.hidden = yes.hidden = why.hidden = !asked;
    if (element.hidden) return;
    put(what, kindWords(measurement));
    if (!asked) {
      put(known, device.name);
      other.setAttribute("aria-label", `${label || id}: measured on another chip`);
      return;
    }
    /** @type {{chip: string, why: string}[]} */
    const likely = device.candidates ?? [];
    const labels = new Map(state.catalog.chips.map((one) => [one.key, one.label]));
    const others = [...labels.keys()].filter((key) => !likely.some((one) => one.chip === key));
    const offer = (/** @type {string} */ key) => h("option", { value: key, text: labels.get(key) ?? key });
    choice.setAttribute("aria-label", `${label || id}: measured on`);
    choice.replaceChildren(
      ...(chip ? [] : [h("option", { value: "", text: "choose the chip" })]),
      ...(likely.length
        ? [
            h(
              "optgroup",
              { label: likely.some((one) => one.why) ? "likely" : "fast and large enough" },
              likely.map((one) => offer(one.chip)),
            ),
          ]
        : []),
      h("optgroup", { label: likely.length ? "others" : "chips" }, others.map(offer)),
    );
    choice.value = chip;
    yes.disabled = !chip;
    const it = likely.find((one) => one.chip === chip);
    const reason = it && (it.why || "fast and large enough for every row");
    const all = tables > 1 ? `for ${tables} tables of this file` : "";
    put(why, [reason, all].filter(Boolean).join("; "));
  }
  return { element, update, open: () => !element.hidden && known.hidden };
}
