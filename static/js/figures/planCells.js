/** The best plan in each cell of two axes, as a heatmap: the stronger its colour, the better. */
import { plural, short } from "../format.js";
import { axisOf } from "../fieldLabels.js";
import { between, escaped, hoverText, layout, legibleOn } from "./base.js";
import { said } from "./plans.js";

/** @typedef {import("./plans.js").Shown} Shown */
/** @typedef {{values: any[], one: Shown}} PlanCell */

/** Share of its place that a cell fills. */
const CELL = 0.94;

/** Numbers by size, words by the alphabet. @param {any} a @param {any} b */
const order = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));

/**
 * @param {{cells: PlanCell[], axes: string[], measure: import("./plans.js").Measure,
 *   colour: import("../types.js").Colour, narrow: boolean}} input
 * @returns {import("../types.js").Figure}  its points stand in the order of `cells`
 */
export function planCells({ cells, axes, measure, colour, narrow }) {
  const [xs, ys] = [0, 1].map((at) => [...new Set(cells.map(({ values }) => values[at]))].sort(order));
  const numbers = cells.map(({ one }) => measure.of(one) ?? Infinity);
  const least = Math.min(...numbers);
  // what is many times worse is all alike, so that near the best one sees more
  const most = Math.max(least * 1.01, Math.min(Math.max(...numbers.filter(Number.isFinite)), 4 * least));
  const rows = cells.map(({ values }) => ys.indexOf(values[1]));
  const columns = cells.map(({ values }) => xs.indexOf(values[0]));
  const fills = numbers.map((value) =>
    between(colour("accent"), colour("accent-soft"), (Math.min(value, most) - least) / (most - least) || 0),
  );
  const few = xs.length <= (narrow ? 6 : 8);
  // on a phone the unit, which the card says, leaves its room to the number
  const written = (/** @type {Shown} */ one) =>
    narrow ? said(measure, one).split(" ")[0] : measure.kind ? said(measure, one) : short(measure.of(one) ?? 0);
  const named = (/** @type {any[]} */ values) => ({
    tickvals: values.map((_, at) => at),
    ticktext: values.map((value) => escaped(value)),
    range: [-0.55, values.length - 0.45],
    showgrid: false,
  });
  return {
    data: [
      {
        type: "bar",
        name: "cells",
        x: columns,
        base: rows.map((row) => row - CELL / 2),
        y: cells.map(() => CELL),
        width: CELL,
        marker: {
          // Plotly warns of every bar whose colour is a number of a scale
          color: fills,
          line: { width: 1, color: colour("line-strong") },
        },
        text: few ? cells.map(({ one }) => written(one)) : [],
        textposition: "inside",
        insidetextanchor: "middle",
        textangle: 0,
        constraintext: "none",
        textfont: {
          size: 10.5,
          color: fills.map(legibleOn),
        },
        customdata: cells.map(
          ({ values, one }) =>
            `${values.map((value, at) => `${axisOf(axes[at])} ${escaped(value)}`).join(", ")}<br>${hoverText(one.words)}<br>${measure.text} ${said(measure, one)}`,
        ),
        hovertemplate: "%{customdata}<extra></extra>",
      },
    ],
    layout: layout(colour, {
      height: narrow ? 280 : 320,
      barmode: "overlay",
      margin: { l: narrow ? 74 : 92, r: 12, t: 12, b: 42 },
      xaxis: { ...named(xs), title: { text: axisOf(axes[0]) }, tickangle: 0 },
      yaxis: { ...named(ys), title: { text: axisOf(axes[1]) } },
    }),
    said: `${measure.text} of the best plan in each cell; the stronger its colour the better, empty: none fits`,
    summary: `${plural(cells.length, "cell")} of ${axisOf(axes[0])} and ${axisOf(axes[1])}.`,
    table: {
      columns: [
        ...axes.map((name) => ({ title: axisOf(name), text: true })),
        { title: "plan", text: true },
        { title: measure.text, unit: measure.kind ?? measure.unit },
      ],
      rows: cells.map(({ values, one }) => [...values.map(String), one.words, measure.of(one)]),
    },
  };
}
