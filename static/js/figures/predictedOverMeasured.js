/** Predicted over measured: a point per number, the diagonal, a band about it, and the worst by name. */
import { change, plural, quantity, rounded, scaleFor } from "../format.js";
import { escaped, faded, hoverText, layout, logTicks, SERIES } from "./base.js";

/**
 * @typedef {{words: string, column: string, kind: string, measured: number, predicted: number}} Pair  `words`: which row;
 *   `kind` as `quantity` takes it
 */

/** Half the width of the band. */
const BAND_FRAC = 0.15;
const NAMED = 2;
const VAST = 1e6;
/** Of the figure: what a letter takes of its width, and a line of its height. */
const LETTER_FRAC = { wide: 0.0115, narrow: 0.023 };
const LONGEST = { wide: 34, narrow: 18 };
const LINE_FRAC = 0.07;
/** How high it is, without its axes. */
const PLOT_PX = 228;
/** Between a point and its words. */
const GAP_FRAC = 0.016;

/** The pairs of the kind that has most of them. @param {Pair[]} all */
export function chiefPairs(all) {
  const usable = all.filter(({ measured, predicted }) => measured > 0 && predicted > 0);
  /** @type {Map<string, Pair[]>} */
  const kinds = new Map();
  for (const one of usable) kinds.set(one.kind, [...(kinds.get(one.kind) ?? []), one]);
  return [...kinds.values()].sort((a, b) => b.length - a.length)[0] ?? [];
}

/** @param {Pair} one */
const errorOf = ({ measured, predicted }) => predicted / measured - 1;
/** @param {Pair} one */
export const isInside = (one) => Math.abs(errorOf(one)) <= BAND_FRAC;

/** @typedef {[x: number, y: number]} Spot  shares of the figure */
/** @typedef {{right: boolean, line: number, from: number, width: number, height: number}} Place  of words, `from` their left end */

/**
 * Beside a point, or a line or two above or below, where its words cover fewest others and stay in the figure.
 * @param {Spot} spot @param {number} width  of the words @param {Spot[]} others @param {Place[]} taken  by other words
 */
function placeOf([x, y], width, others, taken) {
  const sides = x > 0.5 ? [true, false] : [false, true];
  /** @type {Place[]} */
  const places = [0, 1, -1, 2, -2].flatMap((line) =>
    sides.map((right) => ({
      right,
      line,
      from: right ? x - GAP_FRAC - width : x + GAP_FRAC,
      width,
      height: y + line * LINE_FRAC,
    })),
  );
  const cost = (/** @type {Place} */ { from, height, line }) => {
    const outside = Math.max(0, -from, from + width - 1, LINE_FRAC / 2 - height, height + LINE_FRAC / 2 - 1);
    const crossed = taken.some(
      (one) => from < one.from + one.width && one.from < from + width && Math.abs(one.height - height) < LINE_FRAC,
    );
    const under = others.filter(
      ([a, b]) => a > from - GAP_FRAC && a < from + width + GAP_FRAC && Math.abs(b - height) < 0.7 * LINE_FRAC,
    );
    return 1e6 * outside + 1e4 * Number(crossed) + under.length + 0.1 * Math.abs(line);
  };
  return places.reduce((best, one) => (cost(one) < cost(best) ? one : best));
}

/**
 * @param {{pairs: Pair[], colour: import("../types.js").Colour, narrow: boolean}} input  all of one kind
 * @returns {import("../types.js").Figure & {inside: number, legend: [token: string, text: string][]}}
 */
export function predictedOverMeasured({ pairs, colour, narrow }) {
  const values = pairs.flatMap(({ measured, predicted }) => [measured, predicted]);
  const [least, most] = values.length ? [Math.min(...values), Math.max(...values)] : [1, 10];
  const of = pairs[0]?.kind ?? "s";
  const kind = of === "frac" ? "" : of;
  const scale = scaleFor(Math.sqrt(least * most), kind);
  const margin = Math.max(1.3, (most / least) ** 0.03); // no point is cut by the edge
  const ends = [least / scale.factor / margin, (most / scale.factor) * margin];
  const columns = [...new Set(pairs.map(({ column }) => column))];
  const token = (/** @type {string} */ column) => SERIES[columns.indexOf(column) % SERIES.length];
  const traces = columns.map((column) => {
    const some = pairs.filter((one) => one.column === column);
    return {
      type: "scatter",
      mode: "markers",
      name: column,
      x: some.map(({ measured }) => measured / scale.factor),
      y: some.map(({ predicted }) => predicted / scale.factor),
      marker: {
        size: 9,
        symbol: some.map((one) => (isInside(one) ? "circle-open" : "x-thin-open")),
        color: colour(token(column)),
        line: { width: 2 },
      },
      customdata: some.map(
        (one) =>
          `${hoverText(one.words)}<br>${hoverText(column)}<br>${quantity(one.predicted, kind)} predicted, ${quantity(one.measured, kind)} measured, ${change(errorOf(one))}`,
      ),
      hovertemplate: "%{customdata}<extra></extra>",
    };
  });
  const line = (/** @type {number} */ times, /** @type {any} */ more) => ({
    type: "scatter",
    mode: "lines",
    x: ends,
    y: ends.map((end) => end * times),
    line: { color: colour("line-strong"), width: 1 },
    hoverinfo: "skip",
    ...more,
  });
  const worst = [...pairs]
    .filter((one) => !isInside(one))
    .sort((a, b) => Math.abs(Math.log(b.predicted / b.measured)) - Math.abs(Math.log(a.predicted / a.measured)));
  const wide = Math.log(most / least) || 1;
  /** Words of two points that lie so near would cover one another. @type {Pair[]} */
  const named = [];
  const far = (/** @type {number} */ a, /** @type {number} */ b, /** @type {number} */ frac) =>
    Math.abs(Math.log(a / b)) > frac * wide;
  for (const one of worst)
    if (
      named.length < (narrow ? 1 : NAMED) &&
      named.every((other) => far(one.predicted, other.predicted, 0.08) || far(one.measured, other.measured, 0.6))
    )
      named.push(one);
  const vast = kind && most / least > VAST; // no one prefix fits both ends
  const every = logTicks(
    values.map((value) => value / scale.factor),
    true,
  );
  const told = every.tickvals.filter((value) => Math.round(Math.log10(value * scale.factor)) % 3 === 0);
  const ticks = vast ? { tickvals: told, ticktext: told.map((value) => rounded(value * scale.factor, kind)) } : every;
  const range = ends.map(Math.log10);
  const share = (/** @type {number} */ value) => (Math.log10(value / scale.factor) - range[0]) / (range[1] - range[0]);
  const at = (/** @type {Pair} */ one) => /** @type {[number, number]} */ ([share(one.measured), share(one.predicted)]);
  const titled = (/** @type {string} */ text) => ({ text: [text, !vast && scale.unit].filter(Boolean).join(", ") });
  /** @type {Place[]} */
  const taken = [];
  /** @param {Pair} one */
  const wordsOf = (one) => {
    const most = narrow ? LONGEST.narrow : LONGEST.wide;
    return `${one.words.length > most ? `${one.words.slice(0, most - 1)}…` : one.words} ${change(errorOf(one))}`;
  };
  return {
    data: [
      line(1 - BAND_FRAC, { name: "band", line: { width: 0 } }),
      line(1 + BAND_FRAC, { name: "band", line: { width: 0 }, fill: "tonexty", fillcolor: colour("line") }),
      line(1, { name: "as measured" }),
      ...traces,
    ],
    inside: pairs.filter(isInside).length,
    legend: columns.map((column) => [token(column), column]),
    said: "ring: within the band, cross: outside it",
    layout: layout(colour, {
      height: narrow ? 260 : 280,
      margin: { l: 56, r: 14, t: 10, b: 42 },
      xaxis: { type: "log", range, title: titled("measured"), ...ticks, tickangle: 0 },
      yaxis: { type: "log", range, title: titled("predicted"), ...ticks },
      annotations: named.map((one) => {
        const width = wordsOf(one).length * (narrow ? LETTER_FRAC.narrow : LETTER_FRAC.wide);
        const others = pairs.filter((other) => other !== one).map(at);
        const place = placeOf(at(one), width, others, taken);
        taken.push(place);
        const { right, line } = place;
        return {
          x: Math.log10(one.measured / scale.factor),
          y: Math.log10(one.predicted / scale.factor),
          xanchor: right ? "right" : "left",
          // a line leads to words that stand above or below their point
          ...(line
            ? {
                ax: right ? -9 : 9,
                ay: -line * LINE_FRAC * PLOT_PX,
                arrowhead: 0,
                arrowwidth: 1,
                arrowcolor: colour("bad"),
              }
            : { xshift: right ? -9 : 9, showarrow: false }),
          text: escaped(wordsOf(one)),
          bgcolor: faded(colour("card"), 0.75),
          borderpad: 0,
          font: { size: 11, color: colour("bad") },
        };
      }),
    }),
    summary: `${plural(pairs.length, "number")} predicted over measured.`,
    table: {
      columns: [
        { title: "row", text: true },
        { title: "column", text: true },
        { title: "measured", unit: of },
        { title: "predicted", unit: of },
        { title: "error", unit: "change" },
      ],
      rows: pairs.map((one) => [one.words, one.column, one.measured, one.predicted, errorOf(one)]),
    },
  };
}
