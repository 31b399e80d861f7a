/** Plans of a search in any two of time, price, chip-hours, memory and chips, coloured by chips; and the present plan. */
import { plural, quantity, scaleFor, significant } from "../format.js";
import { hoverText, layout, logTicks, SERIES } from "./base.js";

/** @typedef {import("../answers.js").Answer} Answer */
/** @typedef {Answer & {words: string}} Shown */
/**
 * What an axis can be of. `kind` takes a prefix; `unit` does not.
 * @typedef {{key: string, text: string, of: (one: Answer) => number | null, kind?: string, unit?: string}} Measure
 */

const DAY_S = 86400;

/** @param {boolean} run  whether figures are of a whole run @param {string} hours  what chip-hours are called @returns {Measure[]} */
export const measures = (run, hours) => [
  run
    ? { key: "time", text: "time", of: ({ time_s }) => time_s / DAY_S, unit: "days" }
    : { key: "time", text: "step time", of: ({ time_s }) => time_s, kind: "s" },
  { key: "price", text: run ? "price" : "price of 10⁶ tokens", of: ({ price_usd }) => price_usd, unit: "$" },
  { key: "hours", text: run ? hours : `${hours} of 10⁶ tokens`, of: ({ chip_hours }) => chip_hours, unit: "h" },
  { key: "memory", text: "peak memory", of: ({ peak_bytes }) => peak_bytes, kind: "bytes" },
  { key: "chips", text: "chips", of: ({ chips }) => chips, unit: "" },
];

const OVER = 1.08;
/** Axes whose ends differ by more are logarithmic. */
const WIDE = 6;

/** @param {Measure} measure @param {number[]} values  of the plans */
function axisOf({ text, kind, unit }, values) {
  const most = Math.max(0, ...values);
  const least = Math.min(most, ...values);
  const scale = kind ? scaleFor(most, kind) : { factor: 1, unit: unit ?? "" };
  const log = most > WIDE * least && least > 0;
  return {
    log,
    factor: scale.factor,
    least: least / scale.factor,
    most: most / scale.factor,
    title: [text, scale.unit].filter(Boolean).join(", "),
  };
}

/** A value of a measure in words. @param {Measure} measure @param {Answer} one */
export function said({ of, kind, unit }, one) {
  const value = of(one);
  if (value === null) return "–";
  if (kind) return quantity(value, kind);
  return unit === "$" ? `$${significant(value)}` : [significant(value), unit].filter(Boolean).join(" ");
}

/**
 * Points of the trace at `at` stand in the order of the plans with the number of chips there.
 * @param {{plans: Shown[], best: Shown | null, present: Shown | null, x: Measure, y: Measure, limits: {days: number,
 *   capacity_bytes: number}, colour: import("../types.js").Colour, narrow: boolean}} input
 * @returns {import("../types.js").Figure & {order: Shown[][], legend: [token: string, text: string][]}}
 */
export function planFigure({ plans: all, best, present, x, y, limits, colour, narrow }) {
  const has = (/** @type {Answer} */ one) => x.of(one) !== null && y.of(one) !== null;
  const plans = all.filter(has);
  const value = (/** @type {Measure} */ measure, /** @type {Answer} */ one) => measure.of(one) ?? 0;
  const range = (/** @type {Measure} */ measure) => {
    const values = plans.map((one) => value(measure, one));
    if (measure.key === "memory") values.push(limits.capacity_bytes);
    if (!plans.length && present) values.push(value(measure, present));
    return axisOf(measure, values.filter(Number.isFinite));
  };
  const [across, up] = [range(x), range(y)];
  const counts = [...new Set(plans.map(({ chips }) => chips))].sort((a, b) => a - b);
  const token = (/** @type {number} */ chips) => SERIES[counts.indexOf(chips) % SERIES.length];
  /** @type {Shown[][]} */
  const order = [];
  const trace = (/** @type {string} */ name, /** @type {Shown[]} */ some, /** @type {any} */ marker) => {
    order.push(some);
    return {
      type: "scatter",
      mode: "markers",
      name,
      x: some.map((one) => value(x, one) / across.factor),
      y: some.map((one) => value(y, one) / up.factor),
      marker,
      cliponaxis: false,
      customdata: some.map(
        (one) =>
          `${hoverText(one.words)}<br>${plural(one.chips, "chip")}<br>${x.text} ${said(x, one)}, ${y.text} ${said(y, one)}`,
      ),
      hovertemplate: `%{customdata}<extra></extra>`,
    };
  };
  const data = counts.map((chips) => {
    const some = plans.filter((one) => one.chips === chips);
    const marker = {
      size: 9,
      color: colour(token(chips)),
      opacity: some.map(({ late }) => (late ? 0.35 : 1)),
      line: { width: 1, color: colour("card") },
    };
    return { ...trace(`${chips}`, some, marker), ...intervals(some, x, across.factor, colour("line-strong"), narrow) };
  });
  data.push(
    trace("best", best && has(best) ? [best] : [], {
      size: 16,
      symbol: "circle-open",
      color: colour("ink"),
      line: { width: 2 },
    }),
  );
  // the present plan may be far from all others: it stands at the edge, and presses nothing into a line
  const there = present && has(present) ? present : null;
  const end = (/** @type {{most: number, factor: number}} */ axis, /** @type {number} */ at) =>
    Math.min(at / axis.factor, axis.most * OVER);
  const at = there && [end(across, value(x, there)), end(up, value(y, there))];
  const beyond =
    there && at && (value(x, there) / across.factor > at[0] || value(y, there) / up.factor > at[1]) ? there : null;
  const fits = !there || there.found.reserved_bytes <= limits.capacity_bytes;
  const ink = colour(fits ? "hue-orange" : "ink-3");
  const marker = { size: 11, symbol: "diamond-open", color: ink, line: { width: 2 } };
  data.push({
    ...trace("present plan", there ? [there] : [], marker),
    ...(at && { x: [at[0]], y: [at[1]] }),
  });
  const lines = [
    ...(x.key === "memory" || y.key === "memory"
      ? [limit(x.key === "memory" ? "x" : "y", limits.capacity_bytes / (x.key === "memory" ? across : up).factor)]
      : []),
    ...(limits.days && (x.key === "time" || y.key === "time") && (x.key === "time" ? x : y).unit === "days"
      ? [limit(x.key === "time" ? "x" : "y", limits.days)]
      : []),
  ];
  const log = (/** @type {{log: boolean}} */ axis, /** @type {number} */ number) =>
    axis.log ? Math.log10(number) : number;
  const ends = (/** @type {{log: boolean, least: number, most: number}} */ axis, /** @type {string} */ way) => {
    const own = lines.filter((one) => one.way === way).map((one) => one.at);
    const most = Math.max(axis.most * OVER, ...own.map((one) => one * 1.04)) || 1;
    const least = Math.min(axis.least, ...own);
    return axis.log ? [Math.log10(least / 1.25), Math.log10(most)] : [0, most];
  };
  // on the side of its line where there is more room
  const besideLine = (/** @type {number} */ place) => {
    const [least, most] = ends(across, "x");
    return log(across, place) > (least + most) / 2 ? { xanchor: "right", xshift: -3 } : { xanchor: "left", xshift: 3 };
  };
  const axis = (/** @type {ReturnType<typeof axisOf>} */ one, /** @type {string} */ way) => {
    const range = ends(one, way);
    const shown = range.map((number) => (one.log ? 10 ** number : number));
    return {
      type: one.log ? "log" : "linear",
      range,
      title: { text: one.title },
      nticks: narrow ? 4 : 7,
      tickangle: 0,
      // also where nothing lies: a limit may be far from all plans
      ...(one.log && logTicks(shown, way === "x" && narrow)),
    };
  };
  return {
    data,
    order,
    legend: counts.map((chips) => [token(chips), plural(chips, "chip")]),
    layout: layout(colour, {
      height: narrow ? 280 : 320,
      margin: { l: 56, r: 18, t: 12, b: 42 },
      xaxis: axis(across, "x"),
      yaxis: axis(up, "y"),
      shapes: lines.map(({ way, at: place }) => ({
        type: "line",
        ...(way === "x"
          ? { yref: "paper", y0: 0, y1: 1, x0: place, x1: place }
          : { xref: "paper", x0: 0, x1: 1, y0: place, y1: place }),
        line: { color: colour("bad"), width: 1.4, dash: "dash" },
      })),
      annotations: [
        ...lines.map(({ way, at: place }) => ({
          ...(way === "x"
            ? { yref: "paper", y: 0, x: log(across, place), yanchor: "bottom", ...besideLine(place) }
            : // above its line a plan beyond it has its name
              { xref: "paper", x: 1, y: log(up, place), xanchor: "right", yanchor: at && beyond ? "top" : "bottom" }),
          showarrow: false,
          text: `limit ${significant(place)}`,
          font: { size: 11, color: colour("bad") },
        })),
        ...(there && at && (beyond || !fits)
          ? [
              {
                x: log(across, at[0]),
                y: log(up, at[1]),
                xanchor: at[0] > across.most / 2 ? "right" : "left",
                xshift: at[0] > across.most / 2 ? -10 : 10,
                showarrow: false,
                text: [
                  "present plan",
                  beyond && (value(y, there) / up.factor > at[1] ? `↑ ${said(y, there)}` : `→ ${said(x, there)}`),
                  !fits && "does not fit",
                ]
                  .filter(Boolean)
                  .join(" "),
                font: { size: 11, color: ink },
                bgcolor: colour("card"),
              },
            ]
          : []),
      ],
    }),
    said: "ring: the best; ◇ present plan; pale: takes too long",
    summary: `${plural(plans.length, "plan")} by ${x.text} and ${y.text}.`,
    table: {
      columns: [
        { title: "plan", text: true },
        { title: "chips" },
        ...[x, y].map(({ text, kind, unit }) => ({ title: text, unit: kind ?? unit })),
      ],
      rows: plans.map((one) => [one.words, one.chips, x.of(one), y.of(one)]),
    },
  };
}

/** A line that plans should stay below. @param {"x" | "y"} way @param {number} at */
const limit = (way, at) => ({ way, at });

/**
 * How far the time of each plan may be off, where time is across.
 * @param {Shown[]} some @param {Measure} x @param {number} factor @param {string} ink @param {boolean} narrow
 */
function intervals(some, x, factor, ink, narrow) {
  if (x.key !== "time" || narrow) return {};
  const off = (/** @type {0 | 1} */ end) =>
    some.map((one) => (Math.abs(one.range_s[end] - one.time_s) / one.time_s) * ((x.of(one) ?? 0) / factor));
  return {
    error_x: { type: "data", array: off(1), arrayminus: off(0), color: ink, thickness: 1, width: 0 },
  };
}
