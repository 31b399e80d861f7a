/** Ways to split one block: a number per token along tokens or lengths, with the points where ways change places. */
import { count, quantity, scaleFor, short } from "../format.js";
import { doubled, layout, logTicks } from "./base.js";
import { labelOf, sentences } from "./splitText.js";

/** @typedef {import("../types.js").Comparison} Comparison */

export const METRICS = /** @type {[string, string, string][]} */ ([
  ["block_s", "time", "s"],
  ["communication_bytes", "volume", "bytes"],
  ["communication_s", "sends' time", "s"],
  ["activations_bytes", "activations", "bytes"],
]);
const TOKENS = ["hue-blue", "hue-orange", "hue-violet", "hue-teal"];

/** The token that colours a way. @param {Comparison} comparison @param {string} name */
export const tokenOfWay = ({ ways }, name) => TOKENS[ways.findIndex((way) => way.name === name) % TOKENS.length];
/** A curve's value anywhere on the axis, linear between points. @param {number[]} x @param {number[]} y @param {number} at */
export function valueAt(x, y, at) {
  const next = x.findIndex((value) => value >= at);
  if (next <= 0) return next === 0 ? y[0] : y[y.length - 1];
  const part = (at - x[next - 1]) / (x[next] - x[next - 1]);
  return y[next - 1] + part * (y[next] - y[next - 1]);
}

/**
 * @param {{comparison: Comparison, metric: string, here: number, colour: import("../types.js").Colour,
 *   narrow: boolean}} input  `here`: where the present scenario stands
 * @returns {import("../types.js").Figure}
 */
export function parallelismFigure({ comparison, metric, here, colour, narrow }) {
  const { x, curves, crossovers, axis } = comparison;
  const [, title, kind] = METRICS.find(([name]) => name === metric) ?? METRICS[0];
  const perToken = curves.map((curve) =>
    curve[metric].map((/** @type {number} */ value, /** @type {number} */ at) => value / x[at]),
  );
  const positive = perToken.flat().filter((value) => value > 0);
  const scale = scaleFor(Math.max(...positive, 0), kind);
  const points = crossovers.filter((one) => one.metric === metric && one.leads && one.at !== null);
  const heights = points.map(
    ({ then, at }) => valueAt(x, perToken[curves.findIndex(({ name }) => name === then)], at) / scale.factor,
  );
  return {
    data: [
      ...curves.map((curve, of) => ({
        type: "scatter",
        mode: "lines",
        name: labelOf(comparison, curve.name),
        x,
        y: perToken[of].map((/** @type {number} */ value) => (value > 0 ? value / scale.factor : null)),
        line: { color: colour(tokenOfWay(comparison, curve.name)), width: 2.2 },
        customdata: x.map(
          (tokens, at) =>
            `${short(tokens)}: ${quantity(curve[metric][at], kind)}, ${quantity(perToken[of][at], kind)} per token`,
        ),
        hovertemplate: "%{fullData.name}<br>%{customdata}<extra></extra>",
      })),
      {
        type: "scatter",
        mode: "markers",
        name: "cross-over",
        x: points.map(({ at }) => at),
        y: heights,
        marker: { size: 9, color: colour("card"), line: { width: 2, color: colour("ink") } },
        customdata: points.map(
          ({ then, before, at }) =>
            `${labelOf(comparison, then)} before ${labelOf(comparison, before)} from ${count(at)}`,
        ),
        hovertemplate: "%{customdata}<extra></extra>",
      },
    ],
    layout: layout(colour, {
      height: narrow ? 270 : 310,
      margin: { l: 58, r: 14, t: 10, b: 42 },
      xaxis: { type: "log", title: { text: axis }, ...powers(x, narrow) },
      yaxis: {
        type: "log",
        title: { text: `${title} per token, ${scale.unit}` },
        ...logTicks(positive.map((value) => value / scale.factor)),
      },
      // annotations have a ground of their own, so that curves do not cross the numbers
      annotations: labels(points, heights, Math.log10(x[x.length - 1] / x[0]) / (narrow ? 5 : 9)).map((one) => ({
        ...one,
        showarrow: false,
        yanchor: "bottom",
        yshift: 7,
        borderpad: 1,
        bgcolor: colour("card"),
        opacity: 0.9,
        font: { size: 11.5, color: colour("ink") },
      })),
      shapes: [
        {
          type: "line",
          yref: "paper",
          x0: here,
          x1: here,
          y0: 0,
          y1: 1,
          line: { color: colour("line-strong"), width: 1.2, dash: "dot" },
        },
      ],
    }),
    summary: sentences(comparison, metric).join(" "),
    table: {
      columns: [{ title: axis }, ...curves.map(({ name }) => ({ title: labelOf(comparison, name), unit: kind }))],
      rows: x.map((tokens, at) => [Math.round(tokens), ...curves.map((curve) => curve[metric][at])]),
    },
  };
}

/**
 * Where each cross-over is; those too close for labels of their own share one.
 * @param {{at: number}[]} points @param {number[]} heights @param {number} room  in decades of the axis
 */
function labels(points, heights, room) {
  const sorted = points.map(({ at }, of) => ({ at, height: heights[of] })).sort((one, other) => one.at - other.at);
  /** @type {{x: number, y: number, text: string}[]} */
  const found = [];
  for (const { at, height } of sorted) {
    const [x, y, last] = [Math.log10(at), Math.log10(height), found[found.length - 1]];
    if (last && x - last.x < room) {
      last.y = Math.max(y, last.y);
      last.text += `, ${short(at)}`;
    } else found.push({ x, y, text: short(at) });
  }
  return found;
}

/** Ticks at powers of two, as lengths are counted. @param {number[]} x @param {boolean} narrow */
function powers(x, narrow) {
  const [low, high] = [Math.ceil(Math.log2(x[0]) - 1e-9), Math.floor(Math.log2(x[x.length - 1]) + 1e-9)];
  const step = narrow ? 3 : 2;
  const tickvals = Array.from({ length: Math.floor((high - low) / step) + 1 }, (_, at) => 2 ** (low + step * at));
  return {
    tickvals,
    ticktext: tickvals.map(doubled),
    tickangle: 0,
  };
}

/**
 * Every way at one place of the axis: the table beside the figure; refused ways have their reason instead.
 * @param {Comparison} comparison @param {number} here
 */
export const atPlace = (comparison, here) =>
  comparison.ways.map((way) => {
    const curve = comparison.curves.find(({ name }) => name === way.name);
    const of = (/** @type {string} */ metric) => (curve ? valueAt(comparison.x, curve[metric], here) : null);
    return {
      name: way.name,
      label: way.label + (way.plan.tp_kind === "2.5d" && curve ? `, depth ${way.plan.tp_depth}` : ""),
      problems: way.problems,
      block_s: of("block_s"),
      communication_bytes: of("communication_bytes"),
      communication_s: of("communication_s"),
      weights_bytes: curve?.weights_bytes ?? null,
      activations_bytes: of("activations_bytes"),
    };
  });
