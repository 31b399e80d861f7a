/** What the file of a run leaves out, asked one by one where its model and its chip are asked: the rest of it is kept. */
import { count, short } from "../../format.js";
import { savedParts } from "../../ownParts.js";
import { state } from "../../state.js";
import { announce, h, put } from "../common/dom.js";
import { options, OWN } from "../common/entries.js";
import { createModelFile } from "./modelFile.js";

/** Numbers that nobody can choose from a list, by their names in an answer. @type {Record<string, string>} */
const NUMBERS = {
  seq_len: "tokens of a sequence",
  global_batch: "sequences of a step, all GPUs",
  gpus: "GPUs",
};
/** By how much the parameters of one model may differ, as they are counted: norms, biases, positions. */
const SAME_FRAC = 0.05;
/** What of a field says nothing without its name. */
const BARE = ["model.name", "plan.sharding", "training.precision", "training.framework", "cluster.chip"];

/** What was read of a run, in a line. @param {import("../../types.js").Proposal} found */
export const readWords = ({ fields }) =>
  Object.entries(fields)
    .filter(([, { sure }]) => sure)
    .map(([path, { value }]) => {
      const name = path.slice(path.indexOf(".") + 1).replaceAll("_", " ");
      return BARE.includes(path) ? String(value) : `${name} ${typeof value === "number" ? count(value) : value}`;
    })
    .join(" · ");

/**
 * What a file's count of parameters says of a model that is chosen for it; "" where either is not known.
 * @param {number} said  by the file @param {number} own  of the model @param {string} label
 */
export function countWords(said, own, label) {
  if (!said) return "";
  const file = `Its file counts ${short(said)} parameters`;
  if (!own) return `${file}.`;
  if (Math.abs(own / said - 1) <= SAME_FRAC) return `${file}, as ${label} has.`;
  return `${file}, ${label} has ${short(own)}: it is another model${own > said ? ", or trains a part of it" : ""}.`;
}

/** @param {() => void} changed  an answer was given, or taken back */
export function createMissing(changed) {
  const boxesOf = h("span", {});
  const counted = h("p", { class: "hint", role: "status", hidden: true });
  /** Models of one's own that may be chosen, with their parameters where those are known. @type {Map<string, {model: import("../../types.js").Part, parameters: number}>} */
  const own = new Map();
  /** @type {HTMLSelectElement | null} */
  let models = null;
  const file = createModelFile({
    title: "Take the model of this run from its config.json",
    label: "config.json of the model of this run",
    take({ model, parameters }) {
      own.set(model.name, { model, parameters });
      if (!models) return;
      offerOwn();
      models.value = OWN + model.name;
      announce(`${model.name}: ${short(parameters)} parameters`);
      hold();
      changed();
    },
  });
  const element = h("span", { class: "missing" }, boxesOf, counted, file.said, file.problem);
  /** @type {Map<string, HTMLInputElement | HTMLSelectElement>} */
  const boxes = new Map();
  let shown = "";
  let said = 0;

  /** Offer the models of one's own beside the catalogue's. */
  function offerOwn() {
    models?.querySelector("[data-own]")?.remove();
    if (own.size)
      models?.append(
        h(
          "optgroup",
          { label: "your own", "data-own": true },
          [...own.keys()].map((name) => h("option", { value: OWN + name, text: name })),
        ),
      );
  }

  /** Hold the count of the file against that of the chosen model. */
  function hold() {
    const key = models?.value ?? "";
    const entry = state.catalog.models.find((one) => one.key === key);
    const mine = own.get(key.slice(OWN.length));
    const [parameters, label] = entry
      ? [entry.parameters, entry.label]
      : key.startsWith(OWN)
        ? [mine?.parameters, mine?.model.name]
        : [0, ""];
    put(counted, models ? countWords(said, parameters ?? 0, label) : "");
    counted.hidden = !counted.textContent;
  }

  /** @param {string} name @param {string} of  whose it is @param {unknown} guess  what its file may mean */
  function boxOf(name, of, guess) {
    const number = NUMBERS[name];
    const label = `${of}: ${number ?? "model"}`;
    const box = number
      ? h("input", {
          type: "number",
          min: 1,
          step: 1,
          inputmode: "numeric",
          "aria-label": label,
          value: String(guess ?? ""),
        })
      : h(
          "select",
          { "aria-label": label },
          h("option", { value: "", text: "choose the model" }),
          options(state.catalog.models),
        );
    if (box instanceof HTMLSelectElement) {
      models = box;
      for (const [saved, model] of Object.entries(savedParts().model)) own.set(saved, { model, parameters: 0 });
      offerOwn();
      box.value = state.catalog.models.find((one) => one.label === guess || one.key === guess)?.key ?? "";
      box.addEventListener("input", hold);
    }
    box.addEventListener("input", changed);
    boxes.set(name, box);
    return h("label", {}, box, number ? ` ${number}` : "");
  }

  return {
    element,
    /**
     * @param {import("../../types.js").Measurement} measurement @param {string[]} asked
     * @param {import("../../types.js").Proposal["fields"]} [fields]  what was read, guesses among it
     * @param {number} [parameters]  as the file counts them, 0 where it does not
     */
    update({ id, label }, asked, fields = {}, parameters = 0) {
      const names = asked.filter((name) => name === "model" || name in NUMBERS);
      const key = [id, ...names].join();
      element.hidden = !names.length;
      if (key === shown) return;
      shown = key;
      boxes.clear();
      own.clear();
      models = null;
      said = parameters;
      file.clear();
      boxesOf.replaceChildren(
        ...names.flatMap((name) => [
          boxOf(name, label || id, fields[name === "model" ? "model.name" : `training.${name}`]?.value),
          ...(models && name === "model" ? [file.element] : []),
        ]),
      );
      hold();
    },
    /** What was answered, null as long as something lacks. @returns {Record<string, any> | null} */
    answers() {
      const given = [...boxes].map(([name, box]) => [
        name,
        box instanceof HTMLInputElement
          ? box.valueAsNumber
          : box.value.startsWith(OWN)
            ? own.get(box.value.slice(OWN.length))?.model
            : box.value,
      ]);
      const good = given.every(([, value]) =>
        typeof value === "number" ? Number.isInteger(value) && value > 0 : value,
      );
      return good ? Object.fromEntries(given) : null;
    },
  };
}
