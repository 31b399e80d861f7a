// @ts-check
/** The table of ops: one transformer layer and one micro-batch, or the whole step; then embedding, head, optimizer. */
import { bytes, csv, percent, quantity, scaleFor, significant } from "../format.js";
import { tokenOf } from "../figures/base.js";
import { download, h, swatch } from "./dom.js";
import { linesOf, shapeText } from "../figures/oplines.js";
import { grid } from "./table.js";

/** @typedef {import("../figures/oplines.js").Line} Line */

const GROUPS = /** @type {[string, string][]} */ ([
  ["layer", "Transformer layer"],
  ["embedding", "Embedding"],
  ["head", "Head and loss"],
  ["optimizer", "Optimizer"],
]);

/** @param {{name: () => string}} options */
export function createLayers({ name }) {
  let perStep = false;
  /** @type {import("../types.js").Estimate | null} */
  let estimate = null;
  const sub = h("span", { class: "sub" });
  const box = h("div", { class: "scroll", tabindex: 0, "aria-label": "Ops per layer" });
  const modes = ["one layer", "whole step"].map((text, at) =>
    h("button", {
      type: "button",
      text,
      "aria-pressed": String(!at),
      onclick: () => {
        perStep = Boolean(at);
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
        h("button", { type: "button", text: "CSV", "aria-label": "Per layer: download CSV", onclick: save }),
      ),
    ),
    box,
  );

  function save() {
    if (!estimate) return;
    const columns = [
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
    ];
    const rows = estimate.ops.map((op) =>
      columns.map((column) => (column === "shape" ? shapeText(op.shape) : /** @type {any} */ (op)[column])),
    );
    download(`${name()}-ops.csv`, csv({ columns: columns.map((title) => ({ title })), rows }));
  }

  function draw() {
    if (!estimate) return;
    const now = estimate;
    sub.textContent = perStep
      ? "one rank, all layers and micro-batches of a step"
      : "one rank, one layer and micro-batch; FLOPs, bytes and launches of the forward";
    const groups = GROUPS.map(([layer, title]) => ({
      title,
      lines: linesOf(
        now.ops.filter((op) => op.layer === layer),
        perStep,
      ),
    }))
      .concat({
        title: "Other",
        lines: linesOf(
          now.ops.filter((op) => !GROUPS.some(([layer]) => layer === op.layer)),
          perStep,
        ),
      })
      .filter(({ lines }) => lines.length);
    const all = groups.flatMap(({ lines }) => lines);
    const time = scaleFor(
      Math.max(...all.map(({ forward_s, backward_s, other_s }) => Math.max(forward_s, backward_s, other_s))),
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
    const line = (/** @type {Line} */ one) =>
      h(
        "tr",
        {},
        h("td", {}, swatch(tokenOf(one.category)), one.name),
        h("td", { text: one.per_layer > 1 && one.shape ? `${one.per_layer} × (${one.shape})` : one.shape }),
        cell(one.flops, quantity(one.flops, "")),
        cell(one.bytes, bytes(one.bytes)),
        h("td", { text: one.bytes && one.flops ? significant(one.flops / one.bytes) : "–" }),
        h("td", { text: significant(one.launches) }),
        seconds(one.forward_s + (one.backward_s ? 0 : one.other_s)),
        seconds(one.backward_s),
        cell(one.saved_bytes, bytes(one.saved_bytes)),
        h("td", { text: one.bound }),
        h(
          "td",
          {},
          percent(one.seconds / now.step_time_s, 2),
          h(
            "span",
            { class: "share" },
            h("i", {
              style: {
                width: `${Math.min(100, (100 * one.seconds) / now.step_time_s)}%`,
                background: `var(--${tokenOf(one.category)})`,
              },
            }),
          ),
        ),
      );
    box.replaceChildren(
      grid(
        heads,
        groups.flatMap(({ title, lines }) => {
          const times = lines[0].count;
          const text = times > 1 && !perStep ? `${title}, × ${significant(times, 6)} in a step` : title;
          return [
            h("tr", { class: "group" }, h("th", { colspan: heads.length, scope: "rowgroup", text })),
            ...lines.map(line),
          ];
        }),
      ),
    );
  }
  return {
    element,
    update: (/** @type {import("../types.js").Estimate} */ now) => {
      estimate = now;
      draw();
    },
  };
}
