/** Plans and measurements drawn: a bar each in the order of their table, or one column over another; hue: the group. */
import { plural, scaleFor } from "../format.js";
import { barMarker, escaped, hoverText, layout, logTicks, SERIES } from "./base.js";
import { cutApart } from "./tableSeries.js";

/** @typedef {import("../items.js").Item} Item */
/** @typedef {import("../items.js").ItemColumn} ItemColumn */

/** Bars that would be as broad as cards. */
const FEW = 12;
/** Letters of all labels of bars in one line, on a narrow and on a usual page, where its width is not known yet. */
const LETTERS = [40, 150];
const LETTER_PX = 7;
/** Width of a label at most: some letters take half as much again. @param {string} label */
const widthOf = (label) =>
  [...label].reduce((sum, letter) => sum + LETTER_PX * (/[mwMW@%<>=…]/.test(letter) ? 1.5 : 1), 0);
const MARGIN = { l: 58, r: 14 };
const MOST_LINES = 3;
/** Bars that lie below one another, so that each has its name: letters of it, narrow and usual, px of a bar, how many. */
const LYING = { letters: [20, 48], px: 19, most: 30 };

/** Lines of a label, each of so many letters at most; what no line takes ends in dots. @param {string} label @param {number} letters */
function labelLines(label, letters) {
  /** @type {string[]} */
  const lines = [];
  for (const word of label.split(" ")) {
    const longer = lines.length ? `${lines[lines.length - 1]} ${word}` : word;
    if (lines.length && longer.length <= letters) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  const shown = lines.slice(0, MOST_LINES);
  if (lines.length > MOST_LINES) shown[MOST_LINES - 1] += " …";
  return shown.map((line) => (line.length > letters ? `${line.slice(0, letters - 1)}…` : line));
}

/**
 * Points of a trace stand in the order of the items at the same place of `order`.
 * @param {{groups: {name: string, items: Item[]}[], up: ItemColumn, across: ItemColumn | null,
 *   colour: import("../types.js").Colour, narrow: boolean, width?: number}} input  `across`: null for a bar each;
 *   `width`: of the drawing in px, 0 where nobody knows it yet
 * @returns {import("../types.js").Figure & {order: Item[][], legend: [token: string, text: string][]}}
 */
export function itemsFigure({ groups, up, across, colour, narrow, width = 0 }) {
  const has = (/** @type {Item} */ one) =>
    typeof one.values[up.key] === "number" && (!across || (one.values[across.key] ?? null) !== null);
  const series = groups
    .map(({ name, items }) => ({ name, items: items.filter(has) }))
    .filter(({ items }) => items.length);
  const all = series.flatMap(({ items }) => items);
  const scale = (/** @type {ItemColumn | null} */ column) => {
    const values = column
      ? all.map(({ values: own }) => own[column.key]).filter((value) => typeof value === "number")
      : [];
    const found = column?.kind ? scaleFor(Math.max(...values.map(Math.abs), 0), column.kind) : { factor: 1, unit: "" };
    return { ...found, values: values.map((value) => value / found.factor) };
  };
  const [y, x] = [scale(up), scale(across)];
  const titled = (/** @type {ItemColumn} */ column, /** @type {string} */ unit) =>
    [column.title, unit].filter(Boolean).join(", ");
  const words = (/** @type {Item} */ one) =>
    `${hoverText(one.label)}<br>${up.title} ${up.write(one.values[up.key])}${across ? `<br>${across.title} ${across.write(one.values[across.key])}` : ""}`;
  const token = (/** @type {number} */ at) => SERIES[at % SERIES.length];
  const few = all.length <= (narrow ? 4 : 12);
  const lying = !across && !few && all.length <= LYING.most;
  let place = 0;
  const traces = series.map(({ name, items }, at) => {
    const predicted = items.map((one) => one.predicted);
    const common = {
      name,
      customdata: items.map(words),
      hovertemplate: "%{customdata}<extra></extra>",
    };
    const sizes = items.map(({ values }) => values[up.key] / y.factor);
    if (!across) {
      const places = items.map(() => place++);
      return {
        ...common,
        type: "bar",
        ...(lying ? { orientation: "h", x: sizes, y: places } : { x: places, y: sizes }),
        marker: barMarker(colour(token(at)), colour, predicted),
      };
    }
    return {
      ...common,
      type: "scatter",
      mode: "markers",
      y: sizes,
      x: items.map(({ values }) => (across.number ? values[across.key] / x.factor : String(values[across.key]))),
      marker: {
        size: 10,
        symbol: predicted.map((yes) => (yes ? "circle-open" : "circle")),
        color: colour(token(at)),
        line: { width: 1.5, color: colour(token(at)) },
      },
    };
  });
  const wide = (/** @type {number[]} */ values) =>
    values.length > 1 && Math.min(...values) > 0 && Math.max(...values) > 30 * Math.min(...values);
  const axis = (/** @type {number[]} */ values) =>
    wide(values) ? { type: "log", ...logTicks(values, true) } : { rangemode: "tozero", nticks: 6 };
  const room = width ? (width - MARGIN.l - MARGIN.r) / LETTER_PX : LETTERS[narrow ? 0 : 1];
  const letters = Math.min(26, Math.floor(room / Math.max(2, all.length)) - (width ? 1 : 0)); // one between two labels
  const named = {
    showgrid: false,
    tickvals: few || lying ? all.map((_, at) => at) : [],
  };
  const labels = all.map(({ label }) => label);
  const sized = { title: { text: titled(up, y.unit) }, ...axis(y.values) };
  const cut = lying ? cutApart(labels, LYING.letters[narrow ? 0 : 1]) : [];
  const longest_px = Math.max(0, ...cut.map(widthOf));
  return {
    data: traces,
    order: series.map(({ items }) => items),
    legend: series.length > 1 ? series.map(({ name }, at) => [token(at), name]) : [],
    layout: layout(colour, {
      height: lying ? 60 + LYING.px * all.length : narrow ? 232 : 252,
      margin: lying
        ? { ...MARGIN, l: 14 + longest_px, t: 6, b: 42 }
        : { ...MARGIN, t: 10, b: across ? 42 : few ? 54 : 16 },
      bargap: all.length < FEW ? 0.6 : 0.25,
      barmode: "overlay",
      xaxis: across
        ? {
            title: { text: titled(across, x.unit) },
            tickangle: 0,
            ...(across.number ? axis(x.values) : { type: "category" }),
          }
        : lying
          ? { ...sized, tickangle: 0, nticks: 4 }
          : {
              ...named,
              range: [-0.6, Math.max(all.length, 2) - 0.4],
              tickangle: 0,
              ticktext: few ? labels.map((label) => labelLines(label, letters).map(escaped).join("<br>")) : [],
            },
      yaxis: lying ? { ...named, range: [all.length - 0.4, -0.6], ticktext: cut.map(escaped) } : sized,
    }),
    said: "hatched or hollow: predicted, solid: measured",
    summary: `${plural(all.length, "item")}: ${up.title}${across ? ` over ${across.title}` : ""}.`,
    table: {
      columns: [
        { title: "item", text: true },
        { title: up.title, unit: up.kind },
        ...(across ? [{ title: across.title, unit: across.kind, text: !across.number }] : []),
      ],
      rows: all.map((one) => [one.label, one.values[up.key], ...(across ? [one.values[across.key]] : [])]),
    },
  };
}
