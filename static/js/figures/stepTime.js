/** Step time: where the seconds of one step go, predicted over measured. */
import { change, quantity, scaleFor, seconds, significant } from "../format.js";
import { total } from "../measured.js";
import { barMarker, escaped, layout, roundUp, tokenOf, UNNAMED } from "./base.js";

/** @typedef {import("../types.js").Colour} Colour */
/** @typedef {import("../types.js").Named} Named */
/** @typedef {{label: string, token: string, predicted: number, measured: number | null}} Row */

/**
 * Rows of the table of errors: only names with time in them; what a measurement does not split is `unsplit`.
 * @param {{predicted: Record<string, number>, measured: Record<string, number> | null,
 *   names: Named[]}} parts @returns {Row[]}
 */
export function errorRows({ predicted, measured, names }) {
  return names
    .map((name) => ({
      label: name.label,
      token: tokenOf(name),
      predicted: predicted[name.key] ?? 0,
      measured: measured ? (measured[name.key] ?? 0) : null,
    }))
    .filter((row) => row.predicted > 0 || (row.measured ?? 0) > 0);
}

/**
 * @param {{estimate: import("../types.js").Estimate, measurement: import("../types.js").Measurement | null,
 *   measuredStep_s: number | null, judged: boolean, absent: string, by: "category" | "phase", names: Named[],
 *   largest_s: number, colour: Colour, narrow: boolean}} input  `names`: categories or phases of the catalogue; `judged`:
 *   whether what the two differ by says anything
 * @returns {import("../types.js").Figure & {rows: Row[], scale: {factor: number, unit: string}}}
 */
export function stepTime({
  estimate,
  measurement,
  measuredStep_s,
  judged,
  absent,
  by,
  names,
  largest_s,
  colour,
  narrow,
}) {
  const predicted = by === "phase" ? estimate.phases_s : estimate.breakdown_s;
  const given = measurement ? (by === "phase" ? measurement.phases_s : measurement.breakdown_s) : null;
  const split = given && total(given) > 0 ? given : null;
  const largest = Math.max(largest_s, estimate.step_time_s, estimate.interval_s[1], measuredStep_s ?? 0);
  const scale = scaleFor(largest, "s");
  const range = [0, roundUp((largest / scale.factor) * (narrow ? 1.25 : 1.1))];
  const hover = `%{fullData.name}: %{customdata}<extra></extra>`;
  const used = names.filter(({ key }) => predicted[key] > 0 || (split?.[key] ?? 0) > 0); // every trace costs time
  const data = used.map((name) => {
    const values = [split?.[name.key] ?? 0, predicted[name.key] ?? 0];
    return {
      type: "bar",
      orientation: "h",
      name: name.label,
      y: ["measured", "predicted"],
      x: values.map((value) => value / scale.factor),
      customdata: values.map((value) => quantity(value, "s", 6)),
      hovertemplate: hover,
      marker: barMarker(colour(tokenOf(name)), colour, [false, true]),
    };
  });
  const rest = measuredStep_s === null ? 0 : Math.max(0, measuredStep_s - total(split ?? {}));
  if (!split && rest > 0) {
    data.push({
      type: "bar",
      orientation: "h",
      name: "not split",
      y: ["measured", "predicted"],
      x: [rest / scale.factor, 0],
      customdata: [quantity(rest, "s", 6), ""],
      hovertemplate: hover,
      marker: barMarker(colour(UNNAMED), colour, false),
    });
  }
  const [low, high] = estimate.interval_s.map((value) => value / scale.factor);
  const end = (/** @type {number} */ x, /** @type {string} */ y, /** @type {string} */ text) => ({
    x,
    y,
    text,
    showarrow: false,
    xanchor: "left",
    xshift: 6,
    font: { size: 12, color: colour("ink") },
  });
  const error = measuredStep_s === null ? 0 : estimate.step_time_s / measuredStep_s - 1;
  const wrong = judged ? `, error ${change(error)}` : "";
  const beside = measuredStep_s === null ? "" : `, measured ${seconds(measuredStep_s)}${wrong}`;
  const both = measuredStep_s === null ? "hatched: predicted" : "hatched: predicted, solid: measured";
  return {
    data,
    scale,
    legend: [
      ...used.map((name) => /** @type {[string, string]} */ ([tokenOf(name), name.label])),
      ...(!split && rest > 0 ? [/** @type {[string, string]} */ ([UNNAMED, "not split"])] : []),
    ],
    axes: { x: `step time, ${scale.unit}` },
    said: `${both}; bracket: 80 % interval of the prediction`,
    layout: layout(colour, {
      barmode: "stack",
      height: 118,
      bargap: 0.3,
      margin: { l: narrow ? 66 : 76, r: narrow ? 18 : 10, t: 4, b: 26 },
      xaxis: { range, nticks: narrow ? 4 : 8, tickangle: 0 },
      yaxis: { tickfont: { color: colour("ink"), size: 12 }, showgrid: false, range: [-0.5, 1.5] },
      shapes: [
        { type: "line", x0: low, x1: high, y0: 1.42, y1: 1.42, line: { color: colour("ink-3"), width: 1.4 } },
        ...[low, high].map((x) => ({
          type: "line",
          x0: x,
          x1: x,
          y0: 1.36,
          y1: 1.48,
          line: { color: colour("ink-3"), width: 1.4 },
        })),
      ],
      annotations: [
        end(estimate.step_time_s / scale.factor, "predicted", significant(estimate.step_time_s / scale.factor)),
        ...(measuredStep_s === null
          ? [{ ...end(0, "measured", absent), font: { size: 12, color: colour("ink-3") } }]
          : [end(measuredStep_s / scale.factor, "measured", significant(measuredStep_s / scale.factor))]),
      ].map((one) => ({ ...one, text: escaped(one.text) })),
    }),
    rows: errorRows({ predicted, measured: split, names }),
    summary: `Predicted step time ${seconds(estimate.step_time_s)}${beside}.`,
    table: {
      columns: [
        { title: by, text: true },
        { title: "predicted", unit: "s" },
        { title: "measured", unit: "s" },
      ],
      rows: [
        ...names.map(({ key, label }) => [label, predicted[key] ?? 0, split ? (split[key] ?? 0) : null]),
        ["step", estimate.step_time_s, measuredStep_s],
      ],
    },
  };
}
