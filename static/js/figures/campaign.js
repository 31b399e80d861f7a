/** A campaign: each run's step, predicted and measured; and one run's steps as they come. */
import { seconds, scaleFor } from "../format.js";
import { escaped, layout, level } from "./base.js";

/** @typedef {import("../types.js").Colour} Colour */
/** @typedef {{name: string, predicted_s: number | null, measured_s: number | null, disturbed: number}} Point */

/** What is said of steps that something else disturbed. @param {number} ratio */
const disturbedWords = (ratio) => `disturbed, repeat: steps differ by ${ratio.toFixed(1)}×, the fastest is shown`;

/** @param {{points: Point[], colour: Colour}} input @returns {import("../types.js").Figure} */
export function campaignFigure({ points, colour }) {
  const all = points.flatMap(({ predicted_s, measured_s }) => [predicted_s ?? 0, measured_s ?? 0]);
  const scale = scaleFor(Math.max(...all, 0), "s");
  const x = points.map(({ name }) => escaped(name));
  const drawn = (/** @type {(one: Point) => number | null} */ value) =>
    points.map((one) => {
      const its = value(one);
      return its === null ? null : its / scale.factor;
    });
  const calm = drawn(({ measured_s, disturbed }) => (disturbed ? null : measured_s));
  const troubled = drawn(({ measured_s, disturbed }) => (disturbed ? measured_s : null));
  const marks = (/** @type {string} */ name, /** @type {(number | null)[]} */ y, /** @type {any} */ marker) => ({
    type: "scatter",
    mode: "markers",
    name,
    x,
    y,
    customdata: points.map(({ disturbed }) => (disturbed ? `<br>${disturbedWords(disturbed)}` : "")),
    hovertemplate: `%{x}: ${name} %{y:.4g} ${scale.unit}%{customdata}<extra></extra>`,
    marker: { size: 10, ...marker },
  });
  return {
    data: [
      marks(
        "predicted",
        drawn(({ predicted_s }) => predicted_s),
        {
          color: "rgba(0,0,0,0)",
          line: { width: 1.8, color: colour("accent") },
        },
      ),
      marks("measured", calm, { color: colour("accent") }),
      // no error of the prediction: nobody knows what it would have been
      marks("disturbed", troubled, { symbol: "x-thin", line: { width: 1.6, color: colour("ink-3") } }),
    ],
    layout: layout(colour, {
      height: 220,
      margin: { l: 52, r: 10, t: 8, b: 60 },
      xaxis: { type: "category", tickangle: points.length > 6 ? 30 : 0 },
      yaxis: { rangemode: "tozero", title: { text: `step, ${scale.unit}` }, nticks: 6 },
    }),
    said: "hollow: predicted, solid: measured, cross: disturbed",
    summary: points
      .map(
        ({ name, predicted_s, measured_s }) =>
          `${name}: ${seconds(predicted_s)} predicted, ${seconds(measured_s)} measured`,
      )
      .join(". "),
    table: {
      columns: [
        { title: "run", text: true },
        { title: "predicted", unit: "s" },
        { title: "measured", unit: "s" },
        { title: "difference", unit: "change" },
        { title: "", text: true },
      ],
      rows: points.map(({ name, predicted_s, measured_s, disturbed }) => [
        name,
        predicted_s,
        measured_s,
        disturbed || !predicted_s || !measured_s ? null : predicted_s / measured_s - 1,
        disturbed ? disturbedWords(disturbed) : "",
      ]),
    },
  };
}

/** @param {{steps_s: number[], expected_s: number | null, colour: Colour}} input @returns {import("../types.js").Figure} */
export function stepsFigure({ steps_s, expected_s, colour }) {
  const scale = scaleFor(Math.max(...steps_s, expected_s ?? 0), "s");
  return {
    data: [
      {
        type: "scatter",
        mode: "lines+markers",
        x: steps_s.map((_, at) => at + 1),
        y: steps_s.map((one) => one / scale.factor),
        hovertemplate: `step %{x}: %{y:.4g} ${scale.unit}<extra></extra>`,
        line: { width: 1.4, color: colour("accent") },
        marker: { size: 5, color: colour("accent") },
      },
    ],
    layout: layout(colour, {
      height: 150,
      margin: { l: 52, r: 10, t: 8, b: 36 },
      xaxis: { title: { text: "step" }, nticks: 10, rangemode: "tozero" },
      yaxis: { rangemode: "tozero", title: { text: scale.unit }, nticks: 4 },
      shapes: expected_s ? [level(expected_s / scale.factor, colour("ink-3"), 1.4)] : [],
    }),
    said: expected_s ? `dashed: predicted, ${seconds(expected_s)}` : "",
    summary: `${steps_s.length} steps, the last ${seconds(steps_s.at(-1))}.`,
    table: {
      columns: [{ title: "step" }, { title: "took", unit: "s" }],
      rows: steps_s.map((one, at) => [at + 1, one]),
    },
  };
}
