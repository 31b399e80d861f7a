/** What the file of a run leaves out, asked one by one where its model and its chip are asked: the rest of it is kept. */
import { count } from "../../format.js";
import { state } from "../../state.js";
import { h } from "../common/dom.js";
import { options } from "../common/entries.js";

/** Numbers that nobody can choose from a list, by their names in an answer; `usual`: what is assumed meanwhile. */
const NUMBERS = /** @type {Record<string, {label: string, usual?: number}>} */ ({
  seq_len: { label: "tokens of a sequence" },
  global_batch: { label: "sequences of a step, all GPUs" },
  gpus: { label: "GPUs", usual: 1 },
});
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

/** @param {() => void} changed  an answer was given, or taken back */
export function createMissing(changed) {
  const element = h("span", { class: "missing" });
  /** @type {Map<string, HTMLInputElement | HTMLSelectElement>} */
  const boxes = new Map();
  let shown = "";

  /** @param {string} name @param {string} of  whose it is @param {unknown} guess  what its file may mean */
  function boxOf(name, of, guess) {
    const number = NUMBERS[name];
    const label = `${of}: ${number?.label ?? "model"}`;
    const box = number
      ? h("input", {
          type: "number",
          min: 1,
          step: 1,
          inputmode: "numeric",
          "aria-label": label,
          value: String(number.usual ?? guess ?? ""),
        })
      : h(
          "select",
          { "aria-label": label },
          h("option", { value: "", text: "choose the model" }),
          options(state.catalog.models),
        );
    box.addEventListener("input", changed);
    if (!number) box.value = state.catalog.models.find((one) => one.label === guess || one.key === guess)?.key ?? "";
    boxes.set(name, box);
    return h("label", {}, box, number ? ` ${number.label}` : "");
  }

  return {
    element,
    /**
     * @param {import("../../types.js").Measurement} measurement @param {string[]} asked
     * @param {import("../../types.js").Proposal["fields"]} [fields]  what was read, guesses among it
     */
    update({ id, label }, asked, fields = {}) {
      const names = asked.filter((name) => name === "model" || name in NUMBERS);
      const key = [id, ...names].join();
      element.hidden = !names.length;
      if (key === shown) return;
      shown = key;
      boxes.clear();
      element.replaceChildren(
        ...names.map((name) =>
          boxOf(name, label || id, fields[name === "model" ? "model.name" : `training.${name}`]?.value),
        ),
      );
    },
    /** What was answered, null as long as something lacks. @returns {Record<string, any> | null} */
    answers() {
      const given = [...boxes].map(([name, box]) => [
        name,
        box instanceof HTMLInputElement ? box.valueAsNumber : box.value,
      ]);
      const good = given.every(([, value]) =>
        typeof value === "number" ? Number.isInteger(value) && value > 0 : value,
      );
      return good ? Object.fromEntries(given) : null;
    },
  };
}
