// @ts-check
/** Ways to split one block: a number per token along tokens or lengths, with the points where ways change places. */
import { count, quantity, scaleFor, short, significant } from "../format.js";
import { layout } from "./base.js";
import { ticks } from "./front.js";

/** @typedef {import("../types.js").Comparison} Comparison */
/** @typedef {{name: string, from: number, to: number}} Run  where one way leads */

export const METRICS = /** @type {[string, string, string][]} */ ([
  ["block_s", "time", "s"],
  ["communication_bytes", "volume", "bytes"],
  ["communication_s", "sends' time", "s"],
  ["activations_bytes", "activations", "bytes"],
]);
const TOKENS = ["matmul", "communication", "attention", "elementwise"];
const SHORTEST_RUN = 4; // points; below that products filling the chip in waves decide, not the way
const APART = 1.05;

/** The token that colours a way. @param {Comparison} comparison @param {string} name */
export const tokenOfWay = ({ ways }, name) => TOKENS[ways.findIndex((way) => way.name === name) % TOKENS.length];
/** @param {Comparison} comparison @param {string} name */
const labelOf = ({ ways }, name) => ways.find((way) => way.name === name)?.label ?? name;

/**
 * Which way has least of a metric, from where to where; short turns between two are left out.
 * @param {Comparison} comparison @param {string} metric @returns {Run[]}
 */
export function leaders({ x, curves, crossovers }, metric) {
  const names = x.map(
    (_, at) => curves.reduce((best, one) => (one[metric][at] < best[metric][at] * (1 - 1e-9) ? one : best)).name,
  );
  /** @type {{name: string, from: number, to: number}[]} */
  const runs = [];
  names.forEach((name, at) => {
    if (runs.at(-1)?.name === name) /** @type {any} */ (runs.at(-1)).to = at;
    else runs.push({ name, from: at, to: at });
  });
  /** @type {{name: string, from: number, to: number}[]} */
  const kept = [];
  for (const run of runs) {
    const last = kept.at(-1);
    if (last && (last.name === run.name || (run.to - run.from < SHORTEST_RUN && run.to < x.length - 1)))
      last.to = run.to;
    else kept.push({ ...run });
  }
  // where two ways were found to change places for good is more exact than the point at which that shows
  const exact = (/** @type {string | undefined} */ before, /** @type {string} */ then, /** @type {number} */ at) =>
    crossovers.find((one) => one.metric === metric && one.before === before && one.then === then)?.at ?? at;
  return kept.map(({ name, from, to }, at) => ({ name, from: exact(kept[at - 1]?.name, name, x[from]), to: x[to] }));
}

const WORDS = /** @type {Record<string, [string, string]>} */ ({
  block_s: ["fastest", "is faster than"],
  communication_bytes: ["least volume", "moves less than"],
  communication_s: ["shortest sends", "sends for less time than"],
  activations_bytes: ["fewest activations", "keeps less than"],
});

/**
 * What the curves say, in sentences: who leads where, and every point at which two change places.
 * @param {Comparison} comparison @param {string} metric @returns {string[]}
 */
export function sentences(comparison, metric) {
  const { crossovers, curves, axis } = comparison;
  const unit = axis === "sequence length" ? "tokens a sequence" : "tokens";
  const [best, beats] = WORDS[metric];
  const found = [];
  if (curves.length > 1) {
    const runs = leaders(comparison, metric);
    const parts = runs.map(({ name, from }, at) => {
      const end = runs[at + 1]
        ? ` below ${short(runs[at + 1].from)}`
        : runs.length > 1
          ? ` from ${short(from)}`
          : " everywhere";
      return labelOf(comparison, name) + (at && runs[at + 1] ? `${end}` : end);
    });
    found.push(
      `${best[0].toUpperCase()}${best.slice(1)}: ${parts.join(", then ")}${runs.length > 1 ? ` ${unit}` : ""}.`,
    );
  }
  for (const one of crossovers.filter(({ metric: its }) => its === metric)) {
    const pair = `${labelOf(comparison, one.then)} ${beats} ${labelOf(comparison, one.before)}`;
    const turns = one.at / one.first > APART ? ` (they take turns from ${short(one.first)})` : "";
    found.push(`From ${short(one.at)} ${unit} on ${pair}${turns}.`);
  }
  if (metric === "communication_bytes")
    for (const one of crossovers.filter(({ metric: its }) => its === "linears")) {
      const pair = `${labelOf(comparison, one.then)} moves less than ${labelOf(comparison, one.before)}`;
      found.push(
        one.at === null
          ? `By the linears alone ${pair} nowhere.`
          : `By the linears alone, in closed form: ${pair} from ${count(one.at)} ${unit}.`,
      );
    }
  return found;
}

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
        mode: "markers+text",
        name: "cross-over",
        x: points.map(({ at }) => at),
        y: heights,
        text: points.map(({ at }) => short(at)),
        textposition: "top center",
        textfont: { size: 11.5, color: colour("ink") },
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
        ...ticks(positive.length ? positive.map((value) => value / scale.factor) : [1, 10]),
      },
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

/** Ticks at powers of two, as lengths are counted. @param {number[]} x @param {boolean} narrow */
function powers(x, narrow) {
  const [low, high] = [Math.ceil(Math.log2(x[0]) - 1e-9), Math.floor(Math.log2(x[x.length - 1]) + 1e-9)];
  const step = narrow ? 3 : 2;
  const tickvals = Array.from({ length: Math.floor((high - low) / step) + 1 }, (_, at) => 2 ** (low + step * at));
  return {
    tickvals,
    ticktext: tickvals.map((value) => (value >= 1024 ? `${significant(value / 1024, 4)}k` : String(value))),
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
