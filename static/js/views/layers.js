// @ts-check
/** The table of ops: one transformer layer and one micro-batch, or the whole step; then embedding, head, optimizer. */
import { bytes, csv, percent, quantity, scaleFor, significant } from "../format.js";
import { tokenOf } from "../figures/base.js";
import { download, h, swatch } from "./dom.js";
import { grid } from "./table.js";

/** @typedef {import("../types.js").Op} Op */
/** @typedef {{name: string, category: string, shape: string, flops: number, bytes: number, launches: number, forward_s: number, backward_s: number, other_s: number,
 *   saved_bytes: number, bound: string, seconds: number, count: number}} Line */

const GROUPS = /** @type {[string, string][]} */ ([["layer", "Transformer layer"], ["embedding", "Embedding"], ["head", "Head and loss"], ["optimizer", "Optimizer"]]);

/** The gradients of an op stand in its line: "q projection weight gradient" belongs to "q projection". */
const GRADIENT = / (input |weight )?gradient\b.*$/;

/**
 * One line per op, with its forward and its backward; FLOPs, bytes and launches are the forward's where there is one.
 * @param {Op[]} ops @param {boolean} perStep @returns {Line[]}
 */
export function linesOf(ops, perStep) {
  /** @type {Map<string, Line>} */
  const found = new Map();
  const forward = new Set(ops.filter(({ phase }) => phase === "forward").map(({ name }) => name));
  for (const op of [...ops.filter(({ phase }) => phase === "forward"), ...ops.filter(({ phase }) => phase !== "forward")]) {
    const base = op.name.replace(GRADIENT, "");
    const name = forward.has(base) ? base : op.name;
    const times = perStep ? 1 : 1 / Math.max(1, op.count);
    const line = found.get(name) ?? {
      name, category: op.category, shape: shapeText(op.shape), flops: 0, bytes: 0, launches: 0, forward_s: 0, backward_s: 0, other_s: 0, saved_bytes: 0,
      bound: op.bound, seconds: 0, count: op.count,
    };
    if (op.phase === "forward" || !forward.has(name)) {
      line.flops += op.flops * times;
      line.bytes += op.bytes * times;
      line.launches += op.launches * times;
    }
    line.saved_bytes += op.saved_bytes * times;
    line.seconds += op.seconds;
    line[op.phase === "forward" ? "forward_s" : op.phase === "backward" ? "backward_s" : "other_s"] += op.seconds * times;
    found.set(name, line);
  }
  return [...found.values()];
}

/** @param {any} shape */
const shapeText = (shape) => (Array.isArray(shape) ? shape.join(" × ") : String(shape ?? ""));

/** @param {{name: () => string}} options */
export function createLayers({ name }) {
  let perStep = false;
  /** @type {import("../types.js").Estimate | null} */
  let estimate = null;
  const sub = h("span", { class: "sub" });
  const box = h("div", { class: "scroll", tabindex: 0, "aria-label": "Ops per layer" });
  const modes = ["one layer", "whole step"].map((text, at) => h("button", { type: "button", text, "aria-pressed": String(!at), onclick: () => {
    perStep = Boolean(at);
    modes.forEach((mode, of) => mode.setAttribute("aria-pressed", String(of === at)));
    draw();
  } }));
  const element = h("section", { class: "card w12", id: "layers" }, h(
    "header", {}, h("h3", { text: "Per layer" }), sub,
    h("span", { class: "acts" }, modes, h("span", { class: "sep" }), h("button", { type: "button", text: "CSV", "aria-label": "Per layer: download CSV", onclick: save })),
  ), box);

  function save() {
    if (!estimate) return;
    const columns = ["name", "layer", "phase", "category", "shape", "count", "flops", "bytes", "launches", "saved_bytes", "seconds", "bound", "precision"];
    const rows = estimate.ops.map((op) => columns.map((column) => (column === "shape" ? shapeText(op.shape) : /** @type {any} */ (op)[column])));
    download(`${name()}-ops.csv`, csv({ columns: columns.map((title) => ({ title })), rows }));
  }

  function draw() {
    if (!estimate) return;
    const now = estimate;
    sub.textContent = perStep ? "one rank, all layers and micro-batches of a step" : "one rank, one execution; FLOPs, bytes and launches of the forward";
    const groups = GROUPS.map(([layer, title]) => ({ title, lines: linesOf(now.ops.filter((op) => op.layer === layer), perStep) }))
      .concat({ title: "Other", lines: linesOf(now.ops.filter((op) => !GROUPS.some(([layer]) => layer === op.layer)), perStep) })
      .filter(({ lines }) => lines.length);
    const all = groups.flatMap(({ lines }) => lines);
    const time = scaleFor(Math.max(...all.map(({ forward_s, backward_s, other_s }) => Math.max(forward_s, backward_s, other_s))), "s");
    const cell = (/** @type {number} */ value, /** @type {string} */ text) => h("td", { title: value ? String(value) : null, class: !value && "quiet", text: value ? text : "–" });
    const seconds = (/** @type {number} */ value) => cell(value, significant(value / time.factor));
    const heads = ["op", "shape", "FLOPs", "bytes", "FLOP/byte", "launches", `forward, ${time.unit}`, `backward, ${time.unit}`, "saved", "bound", "of the step"];
    const line = (/** @type {Line} */ one) => h(
      "tr", {}, h("td", {}, swatch(tokenOf(one.category)), one.name), h("td", { text: one.shape }), cell(one.flops, quantity(one.flops, "")), cell(one.bytes, bytes(one.bytes)),
      h("td", { text: one.bytes && one.flops ? significant(one.flops / one.bytes) : "–" }), h("td", { text: significant(one.launches) }),
      seconds(one.forward_s + (one.backward_s ? 0 : one.other_s)), seconds(one.backward_s), cell(one.saved_bytes, bytes(one.saved_bytes)), h("td", { text: one.bound }),
      h("td", {}, percent(one.seconds / now.step_time_s, 2), h("span", { class: "share" }, h("i", { style: { width: `${Math.min(100, (100 * one.seconds) / now.step_time_s)}%`, background: `var(--${tokenOf(one.category)})` } }))),
    );
    box.replaceChildren(grid(heads, groups.flatMap(({ title, lines }) => {
      const times = lines[0].count;
      const text = times > 1 && !perStep ? `${title}, × ${significant(times, 6)} in a step` : title;
      return [h("tr", { class: "group" }, h("th", { colspan: heads.length, scope: "rowgroup", text })), ...lines.map(line)];
    })));
  }
  return { element, update: (/** @type {import("../types.js").Estimate} */ now) => { estimate = now; draw(); } };
}
