/** Compare: one stacked bar per item, time or memory; predictions hatched, measurements solid. */
import { plural, quantity, scaleFor, significant } from "../format.js";
import { total } from "../measured.js";
import { barMarker, escaped, layout, tokenOf, UNNAMED } from "./base.js";

/**
 * @typedef {{label: string, kind: string, step_time_s: number | null, breakdown_s: Record<string, number>,
 *   memory: any}} Item
 */

const LONGEST = 30;
const LONGEST_OF_TWO = 15;

/** @param {string} text @param {number} [longest] */
const oneLine = (text, longest = LONGEST) => escaped(text.length > longest ? `${text.slice(0, longest - 1)}…` : text);

/** What tells items of one model apart stands behind its name. @param {string} text */
function twoLines(text) {
  const at = text.length > LONGEST_OF_TWO ? text.lastIndexOf(" ", LONGEST_OF_TWO) : -1;
  const lines = at > 0 ? [text.slice(0, at), text.slice(at + 1)] : [text];
  return lines.map((line) => oneLine(line, LONGEST_OF_TWO)).join("<br>");
}

/**
 * @param {{items: Item[], of: "time" | "memory", names: import("../types.js").Named[],
 *   colour: import("../types.js").Colour, narrow: boolean}} input  `names`: categories, or kinds of memory
 * @returns {import("../types.js").Figure & {legend: [token: string, text: string][]}}
 */
export function compareBars({ items, of, names, colour, narrow }) {
  const time = of === "time";
  const parts = items.map((item) => (time ? item.breakdown_s : item.memory?.by_kind) ?? {});
  const sums = items.map((item, at) => (time ? item.step_time_s : item.memory?.peak_bytes) ?? total(parts[at]));
  const largest = Math.max(...sums, 0);
  const scale = scaleFor(largest, time ? "s" : "bytes");
  const rows = items.map((_, at) => items.length - 1 - at);
  const predicted = items.map(({ kind }) => kind === "predicted");
  const trace = (/** @type {string} */ name, /** @type {string} */ token, /** @type {number[]} */ values) => ({
    type: "bar",
    orientation: "h",
    name,
    y: rows,
    x: values.map((value) => value / scale.factor),
    width: 0.62,
    customdata: values.map((value) => quantity(value, time ? "s" : "bytes", 6)),
    hovertemplate: "%{fullData.name}: %{customdata}<extra></extra>",
    marker: barMarker(colour(token), colour, predicted),
  });
  const used = names.filter((name) => parts.some((part) => part[name.key] > 0));
  const data = used.map((name) =>
    trace(
      name.label,
      tokenOf(name),
      parts.map((part) => part[name.key] ?? 0),
    ),
  );
  const unsplit = sums.map((sum, at) => (total(parts[at]) > 0 ? 0 : sum));
  /** @type {[string, string][]} */
  const legend = used.map((name) => [tokenOf(name), name.label]);
  if (unsplit.some((value) => value > 0)) {
    data.push(trace("not split", UNNAMED, unsplit));
    legend.push([UNNAMED, "not split"]);
  }
  const label = narrow ? twoLines : oneLine;
  return {
    data,
    legend,
    said: "hatched: predicted, solid: measured",
    axes: { x: `${time ? "step time" : "peak memory of one chip"}, ${scale.unit}` },
    layout: layout(colour, {
      barmode: "stack",
      height: 44 + 34 * items.length,
      margin: { l: narrow ? 112 : 210, r: narrow ? 22 : 14, t: 4, b: 28 },
      xaxis: {
        range: [0, (largest / scale.factor) * (narrow ? 1.6 : time ? 1.22 : 1.42) || 1],
        nticks: narrow ? 3 : time ? 8 : 5,
        tickangle: 0,
      },
      yaxis: {
        tickvals: rows,
        ticktext: items.map((item) => label(item.label)),
        range: [-0.6, items.length - 0.4],
        showgrid: false,
        tickfont: { size: narrow ? 11 : 12, color: colour("ink") },
      },
      annotations: sums.map((sum, at) => ({
        x: sum / scale.factor,
        y: rows[at],
        xanchor: "left",
        xshift: 6,
        showarrow: false,
        font: { size: 12, color: colour("ink") },
        text: sum ? `${significant(sum / scale.factor)} ${scale.unit}` : "–",
      })),
    }),
    summary: `${time ? "Step time" : "Peak memory"} of ${plural(items.length, "item")}.`,
    table: {
      columns: [
        { title: "item", text: true },
        { title: "", text: true },
        ...used.map(({ label }) => ({ title: label, unit: time ? "s" : "bytes" })),
        { title: time ? "step" : "peak", unit: time ? "s" : "bytes" },
      ],
      rows: items.map(({ label, kind }, at) => [
        label,
        kind,
        ...used.map(({ key }) => parts[at][key] ?? null),
        sums[at] || null,
      ]),
    },
  };
}
