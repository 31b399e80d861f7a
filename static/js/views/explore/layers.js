/** The table of ops, those of the selected cause marked: one transformer layer and one micro-batch, or the whole step; then embedding, head, optimizer. */
import { bytes, csv, percent, quantity, scaleFor, significant } from "../../format.js";
import { categoryIn, tokenOfKey } from "../../figures/base.js";
import { state } from "../../state.js";
import { breakable, download, h, swatch } from "../common/dom.js";
import { besideOps, linesOf, shapeText } from "../../figures/opLines.js";
import { createLayerTable } from "./layerTable.js";
import { createSave, panelJson } from "../common/save.js";
import { createScroller } from "../common/scroller.js";
import { grid, leadOf } from "../common/table.js";

/** @typedef {import("../../figures/opLines.js").Line} Line */

/** Parts of the network that are no layer, in the order of the table. @type {[string, string][]} */
const OTHERS = [
  ["embedding", "Embedding"],
  ["head", "Head and loss"],
  ["optimizer", "Optimizer"],
];

/** Columns that a narrow page leaves to "every column"; the shape stands under the name there. */
const WIDE = [1, 2, 3, 4, 5, 8];

/** @param {Line} line */
const shapeOf = ({ per_layer, shape }) => (per_layer > 1 && shape ? `${per_layer} × (${shape})` : shape);
/** Spaces at which a shape in a column of its own does not break its line: that is left to those before a bracket. */
const INSIDE = / (?=×)|(?<=×) (?!\()/g;

/** A name whose long words may be broken where a narrow column has no room for them. @param {string} name */
const hyphened = (name) => name.replace(/(\w{7})(?=\w{5})/g, "$1\u00ad");

/** @param {HTMLElement} cell */
function wide(cell) {
  cell.classList.add("wide");
  return cell;
}

/** Kinds of layers as the model has them, then what is outside. @param {import("../../types.js").Op[]} ops */
function groupsOf(ops) {
  const present = [...new Set(ops.map(({ layer }) => layer))];
  const others = OTHERS.filter(([name]) => present.includes(name));
  const layers = present.filter((name) => !others.some(([other]) => other === name));
  const title = (/** @type {string} */ name) =>
    // a module is called as its program writes it
    name === "layer" ? "Transformer layer" : /layer$/.test(name) ? `${name[0].toUpperCase()}${name.slice(1)}` : name;
  return [...layers.map((name) => /** @type {[string, string]} */ ([name, title(name)])), ...others];
}

/** @param {{name: () => string, whose: () => string}} options  `whose`: whose ops they are, where that is not plain */
export function createLayers({ name, whose }) {
  let mode = 0;
  /** @type {import("../../types.js").Estimate | null} */
  let estimate = null;
  const sub = h("span", { class: "sub" });
  const box = createScroller("Ops per layer");
  const every = createLayerTable({ name });
  every.element.hidden = true;
  const modes = ["one layer", "whole step", "every column"].map((text, at) =>
    h("button", {
      type: "button",
      text,
      "aria-pressed": String(!at),
      onclick: () => {
        mode = at;
        modes.forEach((mode, of) => mode.setAttribute("aria-pressed", String(of === at)));
        draw();
      },
    }),
  );
  const element = h(
    "section",
    { class: "card w12", id: "layers" },
    h(
      "header",
      {},
      h("h3", { text: "Per layer" }),
      sub,
      h(
        "span",
        { class: "acts" },
        modes,
        h("span", { class: "sep" }),
        createSave({
          title: "Per layer",
          choices: [
            ["CSV", () => (mode === 2 ? every.save() : download(`${name()}-ops.csv`, csv(table())))],
            [
              "JSON",
              async () => download(`${name()}-ops.json`, await panelJson("Per layer", [table()]), "application/json"),
            ],
          ],
        }),
      ),
    ),
    box.element,
    every.element,
  );

  /** Every op of a step with full precision. @returns {import("../../types.js").Table} */
  function table() {
    const columns = /** @type {const} */ ([
      "name",
      "layer",
      "phase",
      "category",
      "shape",
      "count",
      "flops",
      "bytes",
      "launches",
      "saved_bytes",
      "seconds",
      "bound",
      "precision",
    ]);
    const rows = (estimate?.ops ?? []).map((op) =>
      columns.map((column) => (column === "shape" ? shapeText(op.shape) : op[column])),
    );
    return { columns: columns.map((title) => ({ title })), rows };
  }

  function draw() {
    if (!estimate) return;
    const now = estimate;
    const perStep = mode === 1;
    box.element.hidden = mode === 2;
    every.element.hidden = mode !== 2;
    const of = whose() && `${whose()}; `;
    if (mode === 2) {
      sub.textContent = `${of}one rank, one layer and micro-batch; sends stand with the op that needs them; shares are of the whole step`;
      void every.update();
      return;
    }
    sub.replaceChildren(
      of,
      perStep ? "one rank, all layers and micro-batches of a step" : "one rank, one layer and micro-batch",
      perStep ? "" : h("span", { class: "wide", text: "; FLOPs, bytes and launches of the forward" }),
    );
    const groups = groupsOf(now.ops).map(([layer, title]) => ({
      title,
      lines: linesOf(
        now.ops.filter((op) => op.layer === layer),
        perStep,
      ),
    }));
    const all = groups.flatMap(({ lines }) => lines);
    const time = scaleFor(
      leadOf(all.flatMap(({ forward_s, backward_s, other_s }) => [forward_s, backward_s, other_s])),
      "s",
    );
    const cell = (/** @type {number} */ value, /** @type {string} */ text) =>
      h("td", { title: value ? String(value) : null, class: !value && "quiet", text: value ? text : "–" });
    const seconds = (/** @type {number} */ value) => cell(value, significant(value / time.factor));
    const heads = [
      "op",
      "shape",
      "FLOPs",
      "bytes",
      "FLOP/byte",
      "launches",
      `forward, ${time.unit}`,
      `backward, ${time.unit}`,
      "saved",
      "bound",
      "of the step",
    ];
    const wanted = categoryIn(state.selected, state.catalog.categories);
    const line = (/** @type {Line} */ one) =>
      h(
        "tr",
        { class: wanted && (one.category === wanted ? "marked" : "muted") },
        h(
          "td",
          { class: "wrap" },
          swatch(tokenOfKey(state.catalog.categories, one.category)),
          breakable(one.name),
          h("small", { class: "stacked", text: shapeOf(one) }),
        ),
        h("td", { class: "wide", text: shapeOf(one).replace(INSIDE, "\u00a0") }),
        wide(cell(one.flops, quantity(one.flops, ""))),
        wide(cell(one.bytes, bytes(one.bytes))),
        h("td", { class: "wide", text: one.bytes && one.flops ? significant(one.flops / one.bytes) : "–" }),
        h("td", { class: "wide", text: significant(one.launches) }),
        seconds(one.forward_s + (one.backward_s ? 0 : one.other_s)),
        seconds(one.backward_s),
        wide(cell(one.saved_bytes, bytes(one.saved_bytes))),
        h("td", { text: one.bound }),
        share(one.category, one.seconds),
      );
    const group = (/** @type {string} */ text) =>
      h("tr", { class: "group" }, h("th", { colspan: heads.length, scope: "rowgroup" }, h("span", { text })));
    const share = (/** @type {string} */ category, /** @type {number} */ spent_s) =>
      h(
        "td",
        {},
        percent(spent_s / now.step_time_s, 2),
        h(
          "span",
          { class: "share" },
          h("i", {
            style: {
              width: `${Math.min(100, (100 * spent_s) / now.step_time_s)}%`,
              background: `var(--${tokenOfKey(state.catalog.categories, category)})`,
            },
          }),
        ),
      );
    const rest = besideOps(now);
    const label = (/** @type {string} */ key) =>
      hyphened(state.catalog.categories.find((one) => one.key === key)?.label ?? key);
    const beside = rest.length
      ? [
          group("Beside the ops"),
          ...rest.map(([category, spent_s]) =>
            h(
              "tr",
              { class: wanted && (category === wanted ? "marked" : "muted") },
              h("td", {}, swatch(tokenOfKey(state.catalog.categories, category)), label(category)),
              ...heads.slice(1, -1).map((_, at) => h("td", { class: WIDE.includes(at + 1) && "wide" })),
              share(category, spent_s),
            ),
          ),
        ]
      : [];
    box.fill(
      grid(
        heads,
        [
          ...groups.flatMap(({ title, lines }) => {
            const times = lines[0].count;
            const text = times > 1 && !perStep ? `${title}, ${significant(times, 6)} times in a step` : title;
            return [group(text), ...lines.map(line)];
          }),
          ...beside,
        ],
        { wide: WIDE },
      ),
    );
  }
  return {
    element,
    update: (/** @type {import("../../types.js").Estimate} */ now) => {
      estimate = now;
      draw();
    },
  };
}
