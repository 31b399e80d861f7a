/** Controls of the plan: the usual in front, the others folded; what a model or plan has no use for is hidden. */
import { labelOf } from "../../fieldLabels.js";
import { hasUse } from "../../fieldUse.js";
import { get, same } from "../../scenario.js";
import { set, state } from "../../state.js";
import { word } from "../../words.js";
import { h, put } from "../common/dom.js";
import { createField } from "./field.js";
import { createSegments } from "./segments.js";
import { createSelect } from "./select.js";

/** @typedef {{element: HTMLElement, update: () => void, path: string}} Control */

const help = (/** @type {string} */ path) => state.catalog.fields[path]?.help ?? "";
const wordIn = (/** @type {string} */ path) => (/** @type {string} */ value) =>
  word(value, state.catalog.fields[path]?.labels);
const choices = (/** @type {string} */ path) => state.catalog.fields[path]?.choices ?? [];

/** @param {string} path @param {string} unit @param {Record<number, string>} [words] */
export const numberOf = (path, unit, words) =>
  createField({
    path,
    label: labelOf(path),
    unit,
    help: help(path),
    minimum: state.catalog.fields[path]?.minimum ?? 1,
    words,
  });
/** @param {string} path */
export const choiceOf = (path) =>
  createSegments({
    path,
    label: labelOf(path),
    help: help(path),
    choices: choices(path).map((value) => ({ value, label: wordIn(path)(value) })),
  });
/** @param {string} path */
export const menuOf = (path) =>
  createSelect({ path, label: labelOf(path), help: help(path), choices: choices(path), word: wordIn(path) });
/** @param {string} path */
const switchOf = (path) =>
  createSegments({
    path,
    label: labelOf(path),
    help: help(path),
    choices: [
      { value: false, label: "off" },
      { value: true, label: "on" },
    ],
  });

export function createPlan() {
  /** @type {Control[]} */
  const degrees = [
    numberOf("plan.dp", "ranks"),
    numberOf("plan.tp", "ranks"),
    numberOf("plan.cp", "ranks"),
    numberOf("plan.pp", "stages"),
    numberOf("plan.virtual_stages", "chunks per rank"),
    numberOf("plan.ep", "ranks"),
    numberOf("plan.micro_batch", "sequences"),
  ];
  /** @type {Control[]} */
  const usual = [
    choiceOf("plan.sharding"),
    choiceOf("plan.recompute"),
    menuOf("plan.schedule"),
    switchOf("plan.sequence_parallel"),
  ];
  /** @type {Control[]} */
  const folded = [
    choiceOf("plan.tp_kind"),
    numberOf("plan.tp_depth", "layers of ranks"),
    choiceOf("plan.cp_kind"),
    numberOf("plan.expert_tp", "ranks"),
    switchOf("plan.tp_overlap"),
    switchOf("plan.ep_overlap"),
    menuOf("plan.ep_dispatch"),
    menuOf("training.experts"),
    switchOf("plan.pp_overlap"),
    numberOf("plan.shard_ranks", "ranks share a copy", { 0: "all ranks" }),
    numberOf("plan.recompute_every", "blocks"),
    numberOf("plan.bucket_bytes", "bytes"),
    choiceOf("plan.offload"),
    choiceOf("plan.ddp_mode"),
    switchOf("plan.overlap"),
    menuOf("plan.placement"),
    menuOf("training.optimizer_kernel"),
  ];
  const all = [...degrees, ...usual, ...folded];
  const of = (/** @type {Control[]} */ some) => some.map(({ element }) => element);
  const chosen = h("span", { class: "chosen" });
  const more = h("details", { class: "more" }, h("summary", {}, h("b", { text: "More" }), chosen), ...of(folded));
  more.addEventListener("toggle", () => set({ more: more.open }));
  const element = h(
    "div",
    {},
    of(degrees),
    h("p", { class: "hint", text: "Line: tokens/s per chip, area: memory; shaded: does not fit; ring: A." }),
    of(usual),
    more,
  );

  function update() {
    const { scenario, catalog, problems } = state;
    const usualValue = (/** @type {string} */ path) => same(get(scenario, path), catalog.fields[path]?.default);
    const wrong = (/** @type {string} */ path) => problems.some(({ field }) => field === path);
    for (const { element: one, path, update: draw } of all) {
      // a value that is not the usual one is never hidden, nor what is wrong with it
      one.hidden = !hasUse(path, scenario, catalog) && !wrong(path);
      if (!one.hidden) draw();
    }
    const set_ = folded
      .filter(({ path }) => !usualValue(path))
      .map(
        ({ path }) =>
          `${path.slice(path.indexOf(".") + 1).replaceAll("_", " ")} ${wordIn(path)(String(get(scenario, path)))}`,
      );
    put(chosen, set_.join(", ") || "kinds, shards, offload, placement");
    more.classList.toggle("set", set_.length > 0);
    if (folded.some(({ path }) => wrong(path))) more.open = true;
  }
  return { element, update, paths: all.map(({ path }) => path) };
}
