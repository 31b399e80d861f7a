/** How right predictions are: measured steps beside their predictions and intervals, and how many each interval holds. */
import { change, plural, quantity, scaleFor } from "../format.js";
import { escaped, hoverText, layout, logTicks, SERIES, UNNAMED, words } from "./base.js";
import { inLines } from "./tableSeries.js";

/**
 * @typedef {{n: number, mape: number, median: number, p90: number, bias: number | null}} Errors  in percent
 * @typedef {{name: string, time: Errors, covered: number | null, held_out: number | null}} Group
 * @typedef {{measured_s: number, predicted_s: number, low_s: number, high_s: number, held_out: boolean, chip: string,
 *   model: string, kind: string, largest: string}} Point
 * @typedef {{name: string, rows: number, left_out: number, time: Errors | null, memory: Errors | null,
 *   naive: Errors | null, covered: number | null, held_out: number | null, phases: Record<string, Errors>,
 *   peers: Record<string, Errors>, by: Record<string, Group[]>, points: Point[]}} AccuracySet
 * @typedef {import("../types.js").Colour} Colour
 * @typedef {"chip" | "model" | "kind" | "largest"} By
 */

/** By what steps are taken apart. @type {[By, string][]} */
export const BY = [
  ["kind", "Kind"],
  ["chip", "Chip"],
  ["model", "Model"],
  ["largest", "Cause"],
];
const OTHERS = "others";
/** How far from what is asked a set that nothing was fitted on may lie, in percent of its measured times. */
const AROUND = 10;

/** Groups with most steps first; those beyond the hues share one. @param {Point[]} points @param {By} by */
function seriesOf(points, by) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const point of points) counts.set(point[by], (counts.get(point[by]) ?? 0) + 1);
  const names = [...counts].sort((a, b) => b[1] - a[1]).map(([name]) => name);
  const hues = SERIES.filter((token) => token !== UNNAMED);
  const own = names.slice(0, names.length > hues.length ? hues.length - 1 : hues.length);
  const of = (/** @type {string} */ name) => (own.includes(name) ? name : OTHERS);
  const shown = names.length > own.length ? [...own, OTHERS] : own;
  return shown.map((name) => ({
    name,
    token: name === OTHERS ? UNNAMED : hues[own.indexOf(name)],
    points: points.filter((point) => of(point[by]) === name),
  }));
}

/**
 * Every step: hollow, as it is predicted, over what was measured, with its interval; a cross where that misses.
 * @param {{points: Point[], by: By, colour: Colour, narrow: boolean}} input
 * @returns {import("../types.js").Figure & {inside: number, legend: [token: string, text: string][]}}
 */
export function accuracyFigure({ points, by, colour, narrow }) {
  const isInside = (/** @type {Point} */ one) => one.low_s <= one.measured_s && one.measured_s <= one.high_s;
  const values = points.flatMap((one) => [one.measured_s, one.predicted_s]);
  const [least, most] = values.length ? [Math.min(...values), Math.max(...values)] : [0.1, 1];
  const scale = scaleFor(Math.sqrt(least * most), "s");
  const ends = [least / scale.factor / 1.4, (most / scale.factor) * 1.4];
  const ticks = logTicks(
    values.map((value) => value / scale.factor),
    true,
  );
  const series = seriesOf(points, by);
  const about = (/** @type {Point} */ one) =>
    `${hoverText(`${one.model} on ${one.chip}`)}<br>${escaped(one.kind)}, mostly ${escaped(words(one.largest))}<br>` +
    `${quantity(one.predicted_s, "s")} predicted (${quantity(one.low_s, "s")} to ${quantity(one.high_s, "s")}), ` +
    `${quantity(one.measured_s, "s")} measured, ${change(one.predicted_s / one.measured_s - 1)}`;
  const inside = points.filter(isInside).length;
  return {
    data: [
      { type: "scatter", mode: "lines", name: "as measured", x: ends, y: ends, hoverinfo: "skip",
        line: { color: colour("line-strong"), width: 1 } }, // prettier-ignore
      // What has no colour of its own lies below what has.
      ...[...series]
        .sort((a, b) => Number(b.name === OTHERS) - Number(a.name === OTHERS))
        .map(({ name, token, points: own }) => ({
          type: "scatter",
          mode: "markers",
          name,
          x: own.map((one) => one.measured_s / scale.factor),
          y: own.map((one) => one.predicted_s / scale.factor),
          error_y: {
            type: "data",
            symmetric: false,
            array: own.map((one) => (one.high_s - one.predicted_s) / scale.factor),
            arrayminus: own.map((one) => (one.predicted_s - one.low_s) / scale.factor),
            thickness: 1,
            width: 0,
            color: colour("line-strong"),
          },
          marker: {
            size: 8,
            symbol: own.map((one) => (isInside(one) ? "circle-open" : "x-thin-open")),
            color: colour(token),
            line: { width: 1.8 },
          },
          customdata: own.map(about),
          hovertemplate: "%{customdata}<extra></extra>",
        })),
    ],
    inside,
    legend: series.map(({ name, token, points: own }) => [token, `${words(name)} (${own.length})`]),
    said: "ring: the interval holds what was measured, cross: it does not",
    layout: layout(colour, {
      height: narrow ? 300 : 400,
      margin: { l: 56, r: 14, t: 10, b: 42 },
      xaxis: {
        type: "log",
        range: ends.map(Math.log10),
        title: { text: `measured, ${scale.unit}` },
        ...ticks,
        tickangle: 0,
      },
      yaxis: { type: "log", range: ends.map(Math.log10), title: { text: `predicted, ${scale.unit}` }, ...ticks },
    }),
    summary: `${plural(points.length, "step")} predicted over measured; the interval holds ${inside}.`,
    table: {
      columns: [
        { title: "model", text: true },
        { title: "chip", text: true },
        { title: "kind", text: true },
        { title: "mostly", text: true },
        { title: "measured", unit: "s" },
        { title: "predicted", unit: "s" },
        { title: "from", unit: "s" },
        { title: "to", unit: "s" },
        { title: "error", unit: "change" },
      ],
      rows: points.map((one) => [
        one.model, one.chip, one.kind, words(one.largest), one.measured_s, one.predicted_s, one.low_s, one.high_s,
        one.predicted_s / one.measured_s - 1,
      ]), // prettier-ignore
    },
  };
}

/** Letters of a line of a set's name, as many as the margin has room for, and the most lines: no name is cut. */
const NAMES = { narrow: { letters: 20, lines: 5 }, wide: { letters: 42, lines: 2 } };
const LINE_PX = 14;
const BETWEEN_PX = 5;
/** Above the first of sets that go on as it does, and below the last. */
const APART_PX = 7;

/**
 * Names one below the other, each in which another goes on by what it has more than that: the same steps, predicted
 * otherwise, stand below them. @param {string[]} names @returns {string[]}
 */
function belowTheirFirst(names) {
  let first = "";
  return names.map((name) => {
    const rest = first && name.startsWith(first) ? /^,? (.+)/.exec(name.slice(first.length)) : null;
    if (rest) return `… ${rest[1]}`;
    first = name;
    return name;
  });
}

/**
 * Of each set, the share of measured times that intervals hold, fitted with it and without its source.
 * @param {{sets: AccuracySet[], asked_frac: number, chosen: string, colour: Colour, narrow: boolean}} input
 *   `asked_frac`: what intervals are meant to hold
 * @returns {import("../types.js").Figure}
 */
export function coverageFigure({ sets, asked_frac, chosen, colour, narrow }) {
  const known = sets.filter((one) => one.held_out !== null && one.time);
  const { letters, lines } = narrow ? NAMES.narrow : NAMES.wide;
  const shown = belowTheirFirst(known.map((one) => one.name));
  const names = shown.map((its) => inLines(its, letters, lines));
  const labels = names.map((its, at) => {
    const text = its.map(escaped).join("<br>");
    return known[at].name === chosen ? `<b>${text}</b>` : text;
  });
  const isFirst = known.map((one, at) => shown[at] === one.name);
  // each set has the height of its name; those that go on as the first of them does stand together
  let below_px = 0;
  const places = names
    .map((its, at) => {
      const row_px = LINE_PX * its.length + BETWEEN_PX;
      const apart = at > 0 && isFirst[at] && !(isFirst[at - 1] && (isFirst[at + 1] ?? true));
      return { row_px, apart_px: apart ? APART_PX : 0 };
    })
    .reverse()
    .map(({ row_px, apart_px }) => {
      const place = below_px + row_px / 2;
      below_px += row_px + apart_px;
      return place;
    })
    .reverse();
  const [from, to] = [-AROUND, AROUND].map((off) => Math.round(100 * asked_frac) + off);
  const dots = (/** @type {"covered" | "held_out"} */ what, /** @type {string} */ name, /** @type {any} */ marker) => ({
    type: "scatter",
    mode: "markers",
    name,
    x: known.map((one) => one[what]),
    y: places,
    marker,
    customdata: known.map((one) => `${escaped(one.name)}<br>${name}: ${one[what]} % of ${one.time?.n}`),
    hovertemplate: "%{customdata}<extra></extra>",
  });
  const right = known.filter(({ held_out }) => held_out !== null && held_out >= from && held_out <= to).length;
  return {
    data: [
      dots("covered", "fitted with it", {
        size: 9,
        symbol: "circle-open",
        color: colour("ink-3"),
        line: { width: 1.5 },
      }),
      dots("held_out", "of a source not known", { size: 9, color: colour("accent") }),
    ],
    layout: layout(colour, {
      height: Math.max(narrow ? 300 : 400, 52 + below_px),
      margin: { l: narrow ? 138 : 276, r: 14, t: 10, b: 42 },
      xaxis: { range: [-3, 103], title: { text: "measured times inside, %" }, tickvals: [0, 20, 40, 60, 80, 100] },
      yaxis: { range: [0, below_px], tickvals: places, ticktext: labels, showgrid: false },
      shapes: [
        { type: "rect", xref: "x", yref: "paper", x0: from, x1: to, y0: 0, y1: 1, layer: "below",
          fillcolor: colour("line"), line: { width: 0 } }, // prettier-ignore
      ],
    }),
    said: `shaded: ${from} to ${to} %, as asked`,
    summary: `Of ${plural(known.length, "set")}, ${right} have ${from} to ${to} % of times inside intervals that did not know them.`,
    table: {
      columns: [
        { title: "set", text: true },
        { title: "steps" },
        { title: "fitted with it, %" },
        { title: "of a source not known, %" },
      ],
      rows: known.map((one) => [one.name, one.time?.n ?? null, one.covered, one.held_out]),
    },
  };
}

/**
 * Groups of the sets, joined by name: steps, mean error, bias, and the shares that intervals hold, in percent.
 * @param {AccuracySet[]} sets @param {By} by
 */
export function groupTable(sets, by) {
  /** @type {Map<string, Group[]>} */
  const found = new Map();
  for (const one of sets)
    for (const group of one.by[by] ?? []) found.set(group.name, [...(found.get(group.name) ?? []), group]);
  const steps = (/** @type {Group[]} */ groups) => groups.reduce((sum, { time }) => sum + time.n, 0);
  const mean = (/** @type {Group[]} */ groups, /** @type {(one: Group) => number | null} */ of) => {
    const known = groups.filter((one) => of(one) !== null);
    return known.length ? known.reduce((sum, one) => sum + one.time.n * (of(one) ?? 0), 0) / steps(known) : null;
  };
  const title = { chip: "chip", model: "model", kind: "kind of step", largest: "most of the step" }[by];
  return {
    columns: [
      { title, text: true },
      { title: "steps" },
      { title: "mean error, %" },
      { title: "bias, %" },
      { title: "interval holds, %" },
      { title: "of a source not known, %" },
    ],
    rows: [...found]
      .sort(([, a], [, b]) => steps(b) - steps(a))
      .map(([name, groups]) => [
        words(name),
        steps(groups),
        mean(groups, ({ time }) => time.mape),
        mean(groups, ({ time }) => time.bias),
        mean(groups, ({ covered }) => covered),
        mean(groups, ({ held_out }) => held_out),
      ]),
  };
}
