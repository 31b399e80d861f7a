/** What an upload leaves open, asked with an answer that is right most often: what it was, and on what it ran. */
import { savedParts } from "../../ownParts.js";
import { state } from "../../state.js";
import { h, put } from "./dom.js";
import { OWN } from "./entries.js";

/** @typedef {import("../../types.js").Measurement} Measurement */
/** @typedef {import("../../types.js").Part} Part */

/** What it was read as. @param {Measurement} measurement */
export const kindWords = ({ origin }) => origin.format.replace(/^text\//, "").replaceAll("-", " ");

/** Whether a table depends on a machine that nobody has named. @param {Measurement} measurement */
export const asksDevice = ({ device, origin }) =>
  Array.isArray(device.candidates) &&
  !device.name &&
  !device.named &&
  device.kind !== "cpu" &&
  origin.kind === "upload";

/** What a row calls its GPU. @param {Record<string, any>} row @returns {string} */
export const gpuOf = ({ gpu, hardware }) => gpu ?? hardware ?? "";

/**
 * Whether somebody answered, and may have been mistaken: a reader, or the head of the file, for all of its rows.
 * @param {Measurement} measurement
 */
export const answeredDevice = ({ device, origin, rows }) =>
  origin.kind === "upload" &&
  Boolean(device.name) &&
  !device.named &&
  (Array.isArray(device.candidates) || (origin.format.startsWith("text/") && !rows.some(gpuOf)));

/** Chips of one's own by their names: those that this browser keeps, and that of the panel. @returns {Record<string, Part>} */
function ownChips() {
  const { chip } = state.scenario.cluster;
  return { ...savedParts().chip, ...(typeof chip === "object" && { [chip.name || "own chip"]: chip }) };
}

/** The chip that an option stands for: of the catalogue its key, of one's own all of it. @param {string} value @returns {string | Part} */
export const chipMeant = (value) => (value.startsWith(OWN) ? (ownChips()[value.slice(OWN.length)] ?? "") : value);

/** The option that stands for a chip. @param {string | Part | undefined} chip */
const optionOf = (chip) => (typeof chip === "object" ? OWN + (chip.name || "own chip") : (chip ?? ""));

/** The option of what a measurement is said to have run on. @param {Part} device */
export const optionOfDevice = ({ own, name }) =>
  own ? optionOf(own) : (state.catalog.chips.find((one) => one.label === name)?.key ?? "");

/** @param {string} key @param {string} text */
const offer = (key, text) => h("option", { value: key, text });

function ownGroup() {
  const names = Object.keys(ownChips());
  return names.length
    ? [
        h(
          "optgroup",
          { label: "your own" },
          names.map((name) => offer(OWN + name, name)),
        ),
      ]
    : [];
}

/**
 * Fill a choice of what a measurement ran on: the likely chips first, then one's own, then all others.
 * @param {HTMLSelectElement} choice @param {Measurement} measurement @param {string} chip  that is chosen, "" for none
 */
export function chipOptions(choice, { device }, chip) {
  /** @type {{chip: string, why: string}[]} */
  const likely = device.candidates ?? [];
  const labels = new Map(state.catalog.chips.map((one) => [one.key, one.label]));
  const others = [...labels.keys()].filter((key) => !likely.some((one) => one.chip === key));
  const chipOffer = (/** @type {string} */ key) => offer(key, labels.get(key) ?? key);
  choice.replaceChildren(
    ...(chip ? [] : [offer("", "choose the chip")]),
    ...(likely.length
      ? [
          h(
            "optgroup",
            { label: likely.some((one) => one.why) ? "likely" : "fast and large enough" },
            likely.map((one) => chipOffer(one.chip)),
          ),
        ]
      : []),
    ...ownGroup(),
    h("optgroup", { label: likely.length ? "others" : "chips" }, others.map(chipOffer)),
  );
  choice.value = chip;
}

/** Why a chip is among the likely ones; "" where it is not. @param {Measurement} measurement @param {string} chip */
export function likelyWords({ device }, chip) {
  const likely = /** @type {{chip: string, why: string}[]} */ (device.candidates ?? []);
  const it = likely.find((one) => one.chip === chip);
  return it ? it.why || "fast and large enough for every row" : "";
}

const MOST_NAMES = 4;

/** What the names of GPUs in a table's rows were taken for. @param {[string, string][]} names */
function namesWords(names) {
  const said = names
    .slice(0, MOST_NAMES)
    .map(([name, label]) => (label ? `${name} is ${label}` : `${name} is unknown`));
  return said.join("; ") + (names.length > MOST_NAMES ? `; and ${names.length - MOST_NAMES} more` : "");
}

/**
 * At most two questions, answered already: what a table was, as it was read, and what it was measured on; and what the
 * names of GPUs in its rows mean.
 * @param {{change: (chip: string) => void, right: (chip: string) => void, again: () => void,
 *   named: (name: string, chip: string) => void}} acts
 */
export function createQuestions({ change, right, again, named }) {
  const what = h("b");
  const choice = h("select", { onchange: () => change(choice.value) });
  const why = h("small", { class: "quiet" });
  const yes = h("button", { type: "button", class: "primary", text: "Confirm", onclick: () => right(choice.value) });
  const known = h("b");
  const other = h("button", { type: "button", class: "link", text: "Change", onclick: again });
  const whole = h("p", {}, h("span", { class: "quiet", text: "On what? " }), known, " ", other, choice, yes, why);

  const said = h("span");
  const name = h("select", { onchange: () => choose() });
  const meant = h("select", { onchange: () => named(name.value, meant.value) });
  const correct = h("button", {
    type: "button",
    class: "link",
    text: "Change",
    onclick: () => {
      correcting = !correcting;
      toggle();
    },
  });
  const each = h("p", {}, h("span", { class: "quiet", text: "In its rows " }), said, " ", correct, name, meant);
  const element = h(
    "div",
    { class: "questions" },
    h("p", {}, h("span", { class: "quiet", text: "What was it? " }), what),
    whole,
    each,
  );
  let open = false;
  let correcting = false;
  let id = "";
  /** @type {Part} */
  let chips = {};

  function choose() {
    meant.replaceChildren(
      offer("", "as the table has it"),
      ...ownGroup(),
      h(
        "optgroup",
        { label: "chips" },
        state.catalog.chips.map(({ key, label }) => offer(key, label)),
      ),
    );
    meant.value = optionOf(chips[name.value]);
  }
  function toggle() {
    name.hidden = meant.hidden = !correcting;
    correct.setAttribute("aria-expanded", String(correcting));
  }

  /** @param {Measurement} measurement @param {Record<string, string>} names */
  function updateNames({ id: now, label, device, origin }, names) {
    const all = origin.kind === "upload" ? Object.entries(names) : [];
    each.hidden = !all.length;
    if (now !== id) correcting = false;
    id = now;
    chips = device.chips ?? {};
    put(said, namesWords(all));
    const before = name.value;
    name.replaceChildren(...all.map(([one]) => offer(one, one)));
    const unknown = all.find(([, taken]) => !taken)?.[0];
    name.value = before in names ? before : (unknown ?? all[0]?.[0] ?? "");
    name.setAttribute("aria-label", `${label || now}: name in its rows`);
    meant.setAttribute("aria-label", `${label || now}: chip of that name`);
    correct.setAttribute("aria-label", `${label || now}: change the chips of its rows`);
    choose();
    toggle();
    return all.length > 0;
  }

  /**
   * @param {Measurement} measurement @param {string} chip @param {number} tables  of the file that wait for an answer
   * @param {boolean} asked @param {Record<string, string>} names  what those in its rows were taken for
   */
  function update(measurement, chip, tables, asked, names) {
    const { label, id: own, device } = measurement;
    open = asked;
    const answered = answeredDevice(measurement);
    element.hidden = !updateNames(measurement, names) && !asked && !answered;
    whole.hidden = !asked && !answered;
    known.hidden = other.hidden = asked;
    choice.hidden = yes.hidden = why.hidden = !asked;
    put(what, kindWords(measurement));
    if (!asked) {
      put(known, device.name ?? "");
      if (answered) other.setAttribute("aria-label", `${label || own}: measured on another chip`);
      return;
    }
    choice.setAttribute("aria-label", `${label || own}: measured on`);
    chipOptions(choice, measurement, chip);
    yes.disabled = !chip;
    const reason = likelyWords(measurement, chip);
    const all = tables > 1 ? `for ${tables} tables of this file` : "";
    put(why, [reason, all].filter(Boolean).join("; "));
  }
  return { element, update, open: () => open };
}
