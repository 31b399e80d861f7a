/** Controls of the plan: the usual in front, the others folded; what a model or plan has no use for is hidden. */
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

/** @param {string} path @param {string} label @param {string} unit @param {Record<number, string>} [words] */
export const numberOf = (path, label, unit, words) =>
  createField({ path, label, unit, help: help(path), minimum: state.catalog.fields[path]?.minimum ?? 1, words });
/** @param {string} path @param {string} label */
export const choiceOf = (path, label) =>
  createSegments({
    path,
    label,
    help: help(path),
    choices: choices(path).map((value) => ({ value, label: wordIn(path)(value) })),
  });
/** @param {string} path @param {string} label */
export const menuOf = (path, label) =>
  createSelect({ path, label, help: help(path), choices: choices(path), word: wordIn(path) });
/** @param {string} path @param {string} label */
const switchOf = (path, label) =>
  createSegments({
    path,
    label,
    help: help(path),
    choices: [
      { value: false, label: "off" },
      { value: true, label: "on" },
    ],
  });

export function createPlan() {
  /** @type {Control[]} */
  const degrees = [
    numberOf("plan.dp", "Data parallel", "ranks"),
    numberOf("plan.tp", "Tensor parallel", "ranks"),
    numberOf("plan.cp", "Context parallel", "ranks"),
    numberOf("plan.pp", "Pipeline", "stages"),
    numberOf("plan.virtual_stages", "Virtual stages", "chunks per rank"),
    numberOf("plan.ep", "Expert parallel", "ranks"),
    numberOf("plan.micro_batch", "Micro-batch", "sequences"),
  ];
  /** @type {Control[]} */
  const usual = [
    choiceOf("plan.sharding", "Sharding"),
    choiceOf("plan.recompute", "Recompute"),
    menuOf("plan.schedule", "Pipeline schedule"),
    switchOf("plan.sequence_parallel", "Sequence parallel (Megatron)"),
  ];
  /** @type {Control[]} */
  const folded = [
    choiceOf("plan.tp_kind", "Tensor parallel kind"),
    numberOf("plan.tp_depth", "Depth of 2.5D", "layers of ranks"),
    choiceOf("plan.cp_kind", "Context parallel kind"),
    numberOf("plan.expert_tp", "Tensor parallel in experts", "ranks"),
    switchOf("plan.tp_overlap", "Tensor parallel overlap"),
    switchOf("plan.ep_overlap", "Expert exchange overlap"),
    menuOf("plan.ep_dispatch", "Tokens are sent"),
    menuOf("training.experts", "Experts run"),
    switchOf("plan.pp_overlap", "Pipeline overlap"),
    numberOf("plan.shard_ranks", "Hybrid sharding (0: all)", "ranks share a copy", { 0: "all ranks" }),
    numberOf("plan.recompute_every", "Checkpoint every", "blocks"),
    numberOf("plan.bucket_bytes", "Bucket of gradients", "bytes"),
    choiceOf("plan.offload", "Offload to host memory"),
    choiceOf("plan.ddp_mode", "Gradient exchange"),
    switchOf("plan.overlap", "Overlap of communication"),
    menuOf("plan.placement", "Placement, neighbours first"),
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
