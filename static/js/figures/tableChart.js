/** One chart of a table, as Plotly draws it: solid is measured, hatched or dashed is predicted. */
import { percent, plural, quantity, rounded, scaleFor, significant } from "../format.js";
import { barMarker, doubled, escaped, hoverText, layout, logTicks, roundUp, SERIES } from "./base.js";
import { cutApart, doublings, OUT_OF_MEMORY, shortened } from "./tableSeries.js";

/** @typedef {import("./tableSeries.js").Chart} Chart */
/** @typedef {import("./tableSeries.js").Drawn} Drawn */

const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "star"];
const SHAPES = ["●", "■", "◆", "▲", "✚", "★"];
const MOST_MARKED = 80;
/** Letters of a name in a legend, and in a hover. */
const LONGEST_WORDS = 60;
const LONGEST_HOVER = 132;
const CUT = { wide: 44, narrow: 18 };
/** Of a row that its bars leave free. */
const GAP_FRAC = 0.25;

/** @param {any} name */
const hovered = (name) => hoverText(shortened(String(name), LONGEST_HOVER));
/** @param {number} hue */
const tokenOf = (hue) => SERIES[hue % SERIES.length];

/**
 * @param {{chart: Chart, colour: import("../types.js").Colour, narrow: boolean}} input
 * @returns {import("../types.js").Figure}
 */
export function tableChart({ chart, colour, narrow }) {
  const values = chart.series.flatMap(({ y }) => y).filter((value) => value !== null);
  const largest = Math.max(0, ...values);
  // a prefix says something of a unit only, and of a fraction nothing
  const bare = chart.y.kind === "frac" || (!chart.y.kind && chart.y.log);
  const scale = bare ? { factor: 1, unit: "" } : scaleFor(largest, chart.y.kind);
  const shown = (/** @type {number | null} */ value) => (value === null ? null : value / scale.factor);
  const drawing = { chart, colour, narrow, shown, unit: scale.unit };
  const parts = chart.form === "lines" ? lineParts(drawing) : barParts(drawing);
  const out = chart.series.reduce(
    (sum, one) => sum + (one.out?.length ?? 0) + (one.lacks ?? []).filter((why) => why === OUT_OF_MEMORY).length,
    0,
  );
  const below = chart.series.reduce((sum, one) => sum + belowZero(one), 0);
  const said = `${chart.title}: ${plural(chart.series.length, "series", "series")}, at most ${amount(largest, chart.y.kind)}`;
  const whole = `${said}${out ? `, ${plural(out, "place")} out of memory` : ""}${below ? `; ${plural(below, "spread")} down to zero` : ""}.`;
  return { ...parts, summary: whole, table: tableOf(chart) };
}

/** @param {import("./tableSeries.js").Spread | undefined} spread @returns {[number, number]} */
const sides = (spread) => (Array.isArray(spread) ? spread : [spread ?? 0, spread ?? 0]);

/** How many spreads of a series are as large as their value. @param {Drawn} one */
const belowZero = ({ y, spread = [] }) =>
  y.filter((value, at) => value !== null && sides(spread[at])[0] >= value).length;

/**
 * Whiskers of a series; none measured less than nothing, so that none reaches below zero, and on a logarithmic axis,
 * which has no zero, such a one has its upper half only.
 * @param {Drawn} one @param {(value: number | null) => number | null} shown @param {boolean} log
 */
function whiskers({ y, spread }, shown, log) {
  if (!spread?.some((value) => value !== null)) return null;
  const lower = y.map((value, at) => {
    const [below] = sides(spread[at]);
    return below < (value ?? 0) ? below : log ? 0 : (value ?? 0);
  });
  return {
    type: "data",
    symmetric: false,
    array: spread.map((value) => shown(sides(value)[1]) ?? 0),
    arrayminus: lower.map((value) => shown(value) ?? 0),
    thickness: 1,
    width: 2,
  };
}

/** A value with how far it spreads. @param {Drawn} one @param {number} at @param {string} kind */
function spreadAmount({ y, spread = [] }, at, kind) {
  const value = y[at] ?? Number.NaN;
  const said = amount(value, kind);
  const given = spread[at];
  if (given === null || given === undefined) return said;
  if (!Array.isArray(given)) return `${said} ± ${amount(given, kind)}`;
  return `${said}, from ${amount(value - given[0], kind)} to ${amount(value + given[1], kind)}`;
}

/** @param {number} value @param {string} kind */
const amount = (value, kind) => (kind === "frac" ? percent(value) : kind ? quantity(value, kind) : significant(value));

/** A place on an axis of bytes. @param {number} value */
const sized = (value) => rounded(value, "bytes");

/** Of an axis of fractions. @param {string} kind */
const ticksOf = (kind) => (kind === "frac" ? { tickformat: ".3~%" } : {});

/** How the predicted is told from the measured, and what a cross stands for, where there is any. @param {Chart} chart */
export const kindsOf = ({ form, series }) =>
  [
    series.some(({ predicted }) => predicted) && `${form === "lines" ? "dashed" : "hatched"}: predicted`,
    series.some(({ out }) => out?.length) && "×: out of memory, or not run",
  ]
    .filter(Boolean)
    .join("; ");

/** What each colour and shape stands for. @param {Chart} chart @returns {[token: string, text: string][]} */
export function legendOf({ series }) {
  const own = series.filter(({ predicted }) => !predicted);
  const shaped = new Set(own.map(({ hue }) => hue)).size < own.length;
  const shape = (/** @type {Drawn} */ { symbol = 0 }) => (shaped ? `${SHAPES[symbol % SHAPES.length]} ` : "");
  const names = cutApart(
    own.map(({ name }) => name),
    LONGEST_WORDS,
  );
  return own.map((one, at) => [tokenOf(one.hue), shape(one) + names[at]]);
}

/** @param {Chart} chart */
function tableOf({ x, y, series }) {
  const places = [...new Set(series.flatMap((one) => one.x))];
  if (places.every((place) => typeof place === "number")) places.sort((a, b) => Number(a) - Number(b));
  return {
    columns: [
      { title: x.label || "row", text: typeof places[0] === "string" },
      ...series.map(({ name }) => ({ title: name, unit: y.kind === "frac" ? "" : scaleFor(1, y.kind).unit })),
    ],
    rows: places.map((place) => [place, ...series.map((one) => one.y[one.x.indexOf(place)] ?? null)]),
  };
}

/**
 * @typedef {{chart: Chart, colour: import("../types.js").Colour, narrow: boolean, unit: string,
 *   shown: (value: number | null) => number | null}} Drawing
 */

/** By how much two marks on a logarithmic axis of these values are told apart. @param {number[]} values */
function stepOf(values) {
  const positive = values.filter((value) => value > 0);
  return positive.length ? Math.max(1.1, (Math.max(...positive) / Math.min(...positive)) ** 0.06) : 1.1;
}

/** @param {Drawing} drawing */
function lineParts({ chart: { series, x, y }, colour, narrow, shown, unit }) {
  const all = series.flatMap((one) => one.y.map(shown)).filter((value) => value !== null);
  const top = Math.max(...all.map(Number)) * (y.log ? 1.6 : 1.08);
  const places = series.flatMap((one) => one.x).map(Number);
  const placed = (/** @type {number} */ value) => (x.kind === "bytes" ? sized(value) : significant(value, 6));
  const swept = doublings(places, narrow ? 5 : 8);
  const shaped = new Set(series.map(({ symbol = 0 }) => symbol)).size > 1;
  const text = x.kind === "bytes" ? sized : undefined;
  /** How many are out of memory at a place already: marks stand above one another. @type {Map<number | string, number>} */
  const crowd = new Map();
  const above = (/** @type {number | string} */ place) => {
    const before = crowd.get(place) ?? 0;
    crowd.set(place, before + 1);
    return top * (y.log ? stepOf(all.map(Number)) ** before : 1 + 0.06 * before);
  };
  const data = series.flatMap((one) => {
    const ink = colour(tokenOf(one.hue));
    const symbol = SYMBOLS[(one.symbol ?? 0) % SYMBOLS.length];
    const reach = whiskers(one, shown, Boolean(y.log));
    const line = {
      type: "scatter",
      mode: (one.predicted && !shaped) || one.x.length > MOST_MARKED ? "lines" : "lines+markers",
      name: one.name,
      x: one.x,
      y: one.y.map(shown),
      connectgaps: false,
      line: { color: ink, width: one.predicted ? 1.5 : 2, dash: one.predicted ? "dash" : "solid" },
      marker: { size: one.predicted ? 5 : 6, symbol: one.predicted ? `${symbol}-open` : symbol, color: ink },
      ...(reach && { error_y: { ...reach, color: ink } }),
      customdata: one.y.map((_, at) => `${placed(Number(one.x[at]))}: ${spreadAmount(one, at, y.kind)}`),
      hovertemplate: `${hovered(one.name)}<br>%{customdata}<extra></extra>`,
    };
    const out = {
      type: "scatter",
      mode: "markers",
      name: `${one.name}, out of memory`,
      x: one.out,
      y: one.out?.map(above),
      marker: { size: 9, symbol: "x-thin", color: ink, line: { width: 2, color: ink } },
      hovertemplate: `${hovered(one.name)}<br>%{x}: out of memory or not run<extra></extra>`,
    };
    return one.out?.length ? [line, out] : [line];
  });
  return {
    data,
    layout: layout(colour, {
      height: narrow ? 260 : 320,
      margin: { l: 58, r: 14, t: 10, b: 44 },
      xaxis: {
        type: x.log ? "log" : "linear",
        title: { text: escaped(x.label) },
        ...(x.log &&
          (swept.length ? { tickvals: swept, ticktext: swept.map(text ?? doubled) } : logTicks(places, true, text))),
        tickangle: 0,
        nticks: narrow ? 5 : 10,
      },
      yaxis: {
        type: y.log ? "log" : "linear",
        rangemode: "tozero",
        title: { text: escaped([y.label, unit].filter(Boolean).join(", ")) },
        ...ticksOf(y.kind),
        ...(y.log && logTicks(all.map(Number), false, y.kind === "frac" ? percent : undefined)),
      },
    }),
  };
}

/** @param {Drawing} drawing */
function barParts({ chart: { series, y, form }, colour, narrow, shown, unit }) {
  const places = [...new Set(series.flatMap((one) => one.x))].map(String);
  const stacked = form === "stack";
  const predicted = series.some((one) => one.predicted);
  const cut = narrow ? CUT.narrow : CUT.wide;
  const longest = Math.min(cut, Math.max(...places.map(({ length }) => length)));
  const ways = stacked ? (predicted ? 2 : 1) : series.length;
  const sums = series.flatMap((one) =>
    places.map((_, at) =>
      stacked
        ? series
            .filter((other) => Boolean(other.predicted) === Boolean(one.predicted))
            .reduce((sum, other) => sum + (shown(other.y[at]) ?? 0), 0)
        : (shown(one.y[at]) ?? 0) + (one.y[at] === null ? 0 : (shown(sides(one.spread?.[at])[1]) ?? 0)),
    ),
  );
  const low = Math.min(...sums.filter((value) => value > 0));
  const slotOf = (/** @type {number} */ place) => (1 - GAP_FRAC) * ((place + 0.5) / series.length - 0.5);
  return {
    data: series.map((one) => ({
      type: "bar",
      orientation: "h",
      name: one.name,
      offsetgroup: stacked ? (one.predicted ? "predicted" : "measured") : one.name,
      y: one.x.map((place) => places.indexOf(String(place))),
      x: one.y.map(shown),
      marker: barMarker(colour(tokenOf(one.hue)), colour, Boolean(one.predicted)),
      customdata: one.y.map((_, at) => `${hovered(one.x[at])}: ${spreadAmount(one, at, y.kind)}`),
      hovertemplate: `${hovered(one.name)}<br>%{customdata}<extra></extra>`,
      ...(!stacked &&
        one.spread?.some((value) => value !== null) && {
          error_x: { ...whiskers(one, shown, Boolean(y.log)), color: colour("ink") },
        }),
    })),
    layout: layout(colour, {
      barmode: stacked ? "relative" : "group",
      bargap: GAP_FRAC,
      annotations: series.flatMap(({ lacks = [] }, place) =>
        lacks.flatMap((text, at) =>
          text
            ? [
                {
                  xref: "paper",
                  x: 0,
                  xanchor: "left",
                  // of one bar beside others, where it would be
                  y: series.some((one) => one.y[at]) ? at + (stacked ? 0 : slotOf(place)) : at,
                  text: `${text === OUT_OF_MEMORY ? "✕ " : ""}${text}`,
                  showarrow: false,
                  font: { size: 11, color: colour(text === OUT_OF_MEMORY ? "bad" : "ink-2") },
                },
              ]
            : [],
        ),
      ),
      height: 56 + places.length * Math.max(20, 7 * ways + 4),
      margin: { l: 14 + 7.2 * longest, r: 16, t: 4, b: 42 },
      ...(y.base !== undefined && {
        shapes: [
          {
            type: "line",
            x0: y.base,
            x1: y.base,
            yref: "paper",
            y0: 0,
            y1: 1,
            line: { color: colour("ink-2"), width: 1, dash: "dot" },
          },
        ],
      }),
      xaxis: {
        type: y.log ? "log" : "linear",
        ...ticksOf(y.kind),
        ...(y.log
          ? { range: [Math.log10(low) - 0.3, Math.log10(Math.max(...sums)) + 0.2], ...logTicks(sums, true) }
          : { range: [0, roundUp(Math.max(...sums) * 1.02)], nticks: narrow ? 4 : 9 }),
        tickangle: 0,
        title: { text: escaped([y.label, unit].filter(Boolean).join(", ")) },
      },
      yaxis: {
        tickvals: places.map((_, at) => at),
        ticktext: cutApart(places, cut).map(escaped),
        range: [places.length - 0.5, -0.5],
        showgrid: false,
        tickfont: { size: 11.5, color: colour("ink") },
      },
    }),
  };
}
