/** A study's curves: one figure for each group of series; bars lie, so that the names of many layers can be read. */
import { count, plural, significant } from "../format.js";
import { barMarker, doubled, escaped, layout, level, logTicks, roundUp, SERIES } from "./base.js";
import { doublings } from "./tableSeries.js";

/** @typedef {import("../types.js").StudySeries} Series */

const NAMED = { forward: "hue-blue", backward: "hue-violet" };
const BAR_PX = 21;
const FEW = 9;
const CUT = { wide: 24, narrow: 16 };

const PREDICTED = " predicted";

/** What a series is of, measured and predicted alike. @param {Series} series */
const stemOf = ({ name }) => name.replace(/ (measured|predicted)$/, "");

/**
 * The token that colours a series of a group: one for what was measured and what is predicted of it.
 * @param {Series[]} series @param {number} at
 */
function tokenOfSeries(series, at) {
  const stems = [...new Set(series.map(stemOf))];
  const { name } = series[at];
  return (
    /** @type {Record<string, string>} */ (NAMED)[name] ?? SERIES[stems.indexOf(stemOf(series[at])) % SERIES.length]
  );
}

/** Whether a series is predicted beside one that was measured. @param {Series} series */
export const isPredicted = ({ name }) => name.endsWith(PREDICTED);

/** What colours of a group stand for; where some of it is predicted, one name for both. @param {Series[]} series @returns {[string, string][]} */
export function legendOf(series) {
  const both = series.some(isPredicted);
  const found = series.map(
    (one, at) =>
      /** @type {[string, string]} */ ([
        one.kind === "points" ? "ink" : tokenOfSeries(series, at),
        both ? stemOf(one) : one.name,
      ]),
  );
  return [...new Map(found.map((pair) => [pair.join(), pair])).values()];
}

/** @param {number | string} value */
const shown = (value) =>
  typeof value !== "number" ? value : Number.isInteger(value) ? count(value) : significant(value, 6);

/** Groups of series in the order of the study. @param {Series[]} series @returns {Map<string, Series[]>} */
export function groupsOf(series) {
  /** @type {Map<string, Series[]>} */
  const found = new Map();
  for (const one of series) found.set(one.group, [...(found.get(one.group) ?? []), one]);
  return found;
}

/**
 * @param {{series: Series[], colour: import("../types.js").Colour, narrow: boolean,
 *   capacity?: {capacity: number, words: string}}} input  one group; `capacity`: a line that it must stay below
 * @returns {import("../types.js").Figure}
 */
export function studyFigure({ series, colour, narrow, capacity }) {
  const [first] = series;
  const bars = first.kind === "bar";
  const places = [...new Set(series.flatMap(({ x }) => x))];
  const words = places.some((place) => typeof place === "string");
  const drawing = { places, colour, narrow };
  const parts = bars ? barParts(series, drawing) : lineParts(series, drawing, words);
  const top = Math.max(...series.flatMap(({ y }) => y.map((value) => value ?? 0)));
  const unit = first.y_label;
  if (capacity) drawCapacity(parts.layout, capacity, colour);
  return {
    ...parts,
    summary: `${first.group}: ${plural(places.length, "point")}, at most ${significant(top)} ${unit}.`,
    table: {
      columns: [
        { title: first.x_label, text: words },
        ...series.map(({ name }) => ({ title: `${name}${unit ? `, ${unit}` : ""}` })),
      ],
      rows: places.map((place) => [place, ...series.map(({ x, y }) => y[x.indexOf(place)] ?? null)]),
    },
  };
}

/**
 * A dashed line with its name.
 * @param {any} plot @param {{capacity: number, words: string}} line @param {import("../types.js").Colour} colour
 */
function drawCapacity(plot, { capacity, words }, colour) {
  const y = plot.yaxis.type === "log" ? Math.log10(capacity) : capacity;
  plot.shapes = [level(capacity, colour("bad"), 1.4)];
  plot.annotations = [
    {
      xref: "paper",
      x: 0,
      y,
      xanchor: "left",
      yanchor: "bottom",
      text: words,
      showarrow: false,
      font: { size: 11, color: colour("bad") },
    },
  ];
}

/** @typedef {{places: (number | string)[], colour: import("../types.js").Colour, narrow: boolean}} Drawing */

/** @param {Series[]} series @param {Drawing} drawing */
function barParts(series, { places, colour, narrow }) {
  const [{ stacked, y_label }] = series;
  const beside = stacked ? 1 : series.length;
  const sums = places.map((_, at) => {
    const values = series.map(({ y }) => y[at] ?? 0);
    return stacked ? values.reduce((sum, value) => sum + value, 0) : Math.max(...values);
  });
  const cut = narrow ? CUT.narrow : CUT.wide;
  const names = places.map((place) => String(place));
  const longest = Math.min(cut, Math.max(...names.map(({ length }) => length)));
  return {
    data: series.map(({ name, x, y }, at) => ({
      type: "bar",
      orientation: "h",
      name,
      y: x.map((place) => places.indexOf(place)),
      x: y,
      customdata: y.map((value, of) => `${escaped(x[of])}: ${value === null ? "–" : significant(value, 6)} ${y_label}`),
      hovertemplate: "%{fullData.name}<br>%{customdata}<extra></extra>",
      marker: barMarker(colour(tokenOfSeries(series, at)), colour, isPredicted(series[at])),
    })),
    layout: layout(colour, {
      barmode: stacked ? "stack" : "group",
      bargap: 0.28,
      height: 52 + places.length * Math.max(BAR_PX, 13 * beside + 8),
      margin: { l: 14 + 6.6 * longest, r: 14, t: 4, b: 40 },
      xaxis: {
        range: [0, roundUp(Math.max(...sums) * 1.02)],
        nticks: narrow ? 4 : 7,
        tickangle: 0,
        title: { text: y_label },
      },
      yaxis: {
        tickvals: places.map((_, at) => at),
        ticktext: names.map((name) => escaped(name.length > cut ? `${name.slice(0, cut - 1)}…` : name)),
        range: [places.length - 0.5, -0.5],
        showgrid: false,
        tickfont: { size: 11.5, color: colour("ink") },
      },
    }),
  };
}

/** @param {Series[]} series @param {Drawing} drawing @param {boolean} words */
function lineParts(series, { places, colour, narrow }, words) {
  const [{ kind, x_label, y_label, x_log, y_log }] = series;
  const at = (/** @type {number | string} */ place) => (words ? places.indexOf(place) : place);
  const steps = kind === "step";
  return {
    data: series.map(({ name, x, y }, of) => ({
      type: "scatter",
      mode: series[of].kind === "points" ? "markers" : places.length > 30 ? "lines" : "lines+markers",
      name,
      x: x.map(at),
      y,
      connectgaps: false,
      line: {
        color: colour(tokenOfSeries(series, of)),
        width: isPredicted(series[of]) ? 1.5 : 2,
        shape: steps ? "hvh" : "linear",
        dash: isPredicted(series[of]) ? "dash" : of && !series.some(isPredicted) ? "dot" : "solid",
      },
      marker:
        series[of].kind === "points"
          ? { size: 11, symbol: "circle-open", color: colour("ink"), line: { width: 1.6 } }
          : {
              size: 6,
              symbol: isPredicted(series[of]) ? "circle-open" : "circle",
              color: colour(tokenOfSeries(series, of)),
            },
      customdata: y.map((value, point) => `${escaped(shown(x[point]))}: ${value === null ? "–" : shown(value)}`),
      hovertemplate: "%{fullData.name}<br>%{customdata}<extra></extra>",
    })),
    layout: layout(colour, {
      height: narrow ? 240 : 290,
      margin: { l: 56, r: 14, t: 8, b: 42 },
      xaxis: words
        ? {
            // names of steps begin with their number, which is all that fits
            tickvals: places.map((_, of) => of),
            ticktext: places.map((place, of) => /^\d+/.exec(String(place))?.[0] ?? String(of + 1)),
            range: [-0.5, places.length - 0.5],
            title: { text: x_label },
          }
        : {
            type: x_log ? "log" : "linear",
            title: { text: x_label },
            nticks: narrow ? 5 : 10,
            tickangle: 0,
            // doublings, of many every second, and a few other places are better read than decades
            ...(x_log && placesAlong(places, narrow ? 5 : FEW)),
          },
      yaxis: {
        type: y_log ? "log" : "linear",
        rangemode: "tozero",
        title: { text: y_label },
        ...(y_log && logTicks(series.flatMap(({ y }) => y.map((value) => value ?? 0)))),
      },
    }),
  };
}

/** Ticks at the places themselves; nothing where these are too many. @param {any[]} places @param {number} most */
function placesAlong(places, most) {
  const lengths = doublings(places.map(Number), most);
  if (lengths.length) return { tickvals: lengths, ticktext: lengths.map(doubled) };
  return places.length <= most ? { tickvals: places, ticktext: places.map(shown) } : {};
}
