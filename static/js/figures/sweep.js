/** A sweep over one field: step time, tokens a second and peak memory at each of its values. Pure. */
import { bytes, percent, scaleFor, seconds, short } from "../format.js";
import { sweptTable } from "../sweptRows.js";
import { escaped, hoverText, layout, logTicks } from "./base.js";
import { inLines, isNumber, partsOf, wide } from "./tableSeries.js";

/** @typedef {import("../sweptRows.js").Swept} Swept */

export const HEIGHT_PX = 196;
const NARROW_HEIGHT_PX = 430;
const GAP = 0.075;
/** Names along one of three axes, letters that have room beside one another there, and lines of a name. */
const MOST_NAMES = 6;
const ROOM_LETTERS = 42;
const MOST_LINES = 3;
const LINE_PX = 13;

/** @param {Swept} row */
const told = (row) =>
  [
    `${escaped(row.words)}${row.now ? ", as it is now" : ""}`,
    `${seconds(row.step_s)}, ${short(row.tokens_per_s ?? 0)} tokens/s, MFU ${percent(row.mfu)}`,
    `${bytes(row.peak_bytes)} at the peak`,
    row.why && hoverText(row.why),
  ]
    .filter(Boolean)
    .join("<br>");

/** Where each of three panels stands: beside one another, or above where the page is narrow. @param {number} at @param {boolean} narrow */
function placed(at, narrow) {
  const each = (1 - 2 * (narrow ? 0.13 : GAP)) / 3;
  const from = at * (each + (narrow ? 0.13 : GAP));
  const whole = [0, 1];
  return narrow ? { x: whole, y: [1 - from - each, 1 - from] } : { x: [from, from + each], y: whole };
}

/**
 * @param {{rows: Swept[], label: string, colour: import("../types.js").Colour, narrow: boolean}} input
 * @returns {import("../types.js").Figure & {shown: Swept[]}}  `shown`: rows that have points, in their order
 */
export function sweep({ rows, label, colour, narrow }) {
  const shown = rows.filter(({ step_s }) => step_s !== null);
  const largest = (/** @type {(row: Swept) => number | null} */ of) => Math.max(0, ...shown.map((row) => of(row) ?? 0));
  const time = scaleFor(
    largest(({ step_s }) => step_s),
    "s",
  );
  const rate = scaleFor(
    largest(({ tokens_per_s }) => tokens_per_s),
    "",
  );
  const held = scaleFor(
    largest(({ peak_bytes }) => peak_bytes),
    "bytes",
  );
  const capacity = largest(({ capacity_bytes }) => capacity_bytes) / held.factor;
  const panels = [
    { title: `step time, ${time.unit}`, y: shown.map(({ step_s }) => (step_s ?? 0) / time.factor) },
    {
      title: `${rate.unit && `${rate.unit} `}tokens/s`,
      y: shown.map(({ tokens_per_s }) => (tokens_per_s ?? 0) / rate.factor),
    },
    { title: `peak memory, ${held.unit}`, y: shown.map(({ peak_bytes }) => (peak_bytes ?? 0) / held.factor) },
  ];
  // values double, or are words: each has the same room, as on its slider
  const places = shown.map((_, at) => at);
  const every = Math.ceil(shown.length / MOST_NAMES);
  const named = places.filter((at) => at % every === 0);
  const room = Math.floor(ROOM_LETTERS / Math.max(1, named.length));
  const names = named.map((at) => {
    const { words } = shown[at];
    const longest = Math.max(...partsOf(words).map(({ length }) => length));
    return words.length > room ? inLines(words, Math.max(room, longest), MOST_LINES) : [words];
  });
  const further_px = LINE_PX * (Math.max(1, ...names.map(({ length }) => length)) - 1);
  const numbers = shown.every(({ value }) => isNumber(value));
  const base = layout(colour, {
    height: (narrow ? NARROW_HEIGHT_PX : HEIGHT_PX) + further_px,
    margin: { l: 46, r: 12, t: 22, b: 24 + further_px },
    xaxis: {},
    yaxis: {},
  });
  /** @type {Record<string, any>} */
  const axes = {};
  /** @type {any[]} */
  const annotations = [];
  /** @type {any[]} */
  const shapes = [];
  const data = panels.map(({ title, y }, at) => {
    const n = at ? String(at + 1) : "";
    const domain = placed(at, narrow);
    const log = wide(y);
    axes[`xaxis${n}`] = {
      ...base.xaxis,
      domain: domain.x,
      anchor: `y${n}`,
      range: [-0.4, Math.max(0.4, shown.length - 0.6)],
      tickvals: named,
      ticktext: names.map((its) => its.map(escaped).join("<br>")),
      tickangle: 0,
      showgrid: false,
    };
    axes[`yaxis${n}`] = {
      ...base.yaxis,
      domain: domain.y,
      anchor: `x${n}`,
      ...(log ? { type: "log", ...logTicks(y, narrow) } : { rangemode: "tozero", nticks: 5 }),
    };
    annotations.push({
      text: title,
      showarrow: false,
      xref: "paper",
      yref: "paper",
      x: domain.x[0],
      y: domain.y[1],
      xanchor: "left",
      yanchor: "bottom",
      yshift: 3,
      font: { size: 11, color: colour("ink-2") },
    });
    if (at === 2 && capacity > 0 && Math.max(...y) > 0.6 * capacity)
      shapes.push({
        type: "line",
        xref: `x${n} domain`,
        yref: `y${n}`,
        x0: 0,
        x1: 1,
        y0: capacity,
        y1: capacity,
        line: { color: colour("bad"), width: 1.5, dash: "dash" },
      });
    return {
      type: "scatter",
      mode: numbers ? "lines+markers" : "markers",
      name: title,
      x: places,
      y,
      xaxis: `x${n}`,
      yaxis: `y${n}`,
      text: shown.map(told),
      hovertemplate: "%{text}<extra></extra>",
      line: { color: colour("ink-3"), width: 1.4 },
      marker: {
        // hollow: predicted
        symbol: shown.map(({ now, fits }) => (now ? "circle" : fits ? "circle-open" : "x-thin-open")),
        color: shown.map(({ now, fits }) => colour(fits ? (now ? "accent" : "ink-2") : "bad")),
        size: shown.map(({ now }) => (now ? 10 : 8)),
        line: { width: 1.8 },
        opacity: 1,
      },
    };
  });
  const best = shown.filter(({ fits }) => fits).sort((a, b) => (b.tokens_per_s ?? 0) - (a.tokens_per_s ?? 0))[0];
  return {
    shown,
    data,
    layout: { ...base, ...axes, annotations, shapes },
    legend: [
      ["accent", "the plan in the panel"],
      ...(shown.every(({ fits }) => fits) ? [] : [/** @type {[string, string]} */ (["bad", "× does not fit"])]),
    ],
    summary: `${label} at ${shown.length} of ${rows.length} values. ${best ? `Most tokens a second that fit: at ${best.words}, ${short(best.tokens_per_s ?? 0)}, ${seconds(best.step_s)} a step.` : "None fits."}`,
    table: sweptTable(rows, label),
  };
}
