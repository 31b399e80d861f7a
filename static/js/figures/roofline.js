/** Roofline: FLOP/s against FLOP per byte; roofs per chip and precision, predicted ops hollow, measured kernels solid. */
import { percent, quantity, scaleFor, significant } from "../format.js";
import { about, escaped, faded, hoverText, layout, tokenOf, tokenOfKey } from "./base.js";
import { boundsOf, pointsOf, unitOf } from "./points.js";
import { shortened } from "./tableSeries.js";

/** @typedef {import("../types.js").Colour} Colour */
/** @typedef {import("./points.js").Point} Point */
/** @typedef {import("./points.js").Roofed} Roofed */
const LARGEST_PX = 34;
const SMALLEST_PX = 6;
export const HEIGHT_PX = 290;
/** What the name of a roof takes of the height. */
const LABEL_FRAC = 0.06;
const MOST_RUG = 90;
/** What the longest strokes of the rug take of the height. */
const RUG_PX = 13;
/** Letters of a name in a hover. */
const LONGEST = 88;
/** Every GPU of the catalogue has more. */
const SMALL_CHIP_FLOPS_PER_S = 1e13;
/** Overlapping solid points show. */
const SOLID = 0.82;

/** @param {number} number */
const callsOf = (number) => `${significant(number)} ${number === 1 ? "call" : "calls"}`;

/** @param {Point[]} points @param {string} kind */
function cards(points, kind) {
  return points.map((point) => [
    hoverText(shortened(point.name, LONGEST)),
    kind,
    quantity(point.flops_per_s, "flops_per_s"),
    significant(point.intensity),
    percent(point.roof_frac),
    percent(point.share_frac),
    quantity(point.seconds, "s"),
    callsOf(point.count),
  ]);
}
const CARD = [
  "<b>%{customdata[0]}</b>",
  "%{customdata[1]} · %{customdata[2]} at %{customdata[3]} FLOP/byte",
  "%{customdata[4]} of the roof",
  "%{customdata[5]} of the step: %{customdata[6]}, %{customdata[7]}<extra></extra>",
].join("<br>");

/**
 * One side's work. `letter`: A is drawn round, B as a diamond; hollow is predicted, solid measured.
 * @typedef {{letter: string, predicted: boolean, works: import("./points.js").Work[], step_s: number}} Series
 */

/**
 * @param {{series: Series[], roofed: Roofed[],
 *   categories: import("../types.js").Named[], selected?: string, colour: Colour,
 *   range?: {x: number[], y: number[]} | null, narrow: boolean, level?: string, joined?: [string, string][]}} input
 *   `roofed`: one for each side, or one for both; `level`: of memory, whose bytes and bandwidth these are; `joined`:
 *   names in A and B that are one thing
 * @returns {import("../types.js").Figure & {range: {x: number[], y: number[]}, left_out: number, left_out_s: number,
 *   measured: number}}
 */
export function roofline(input) {
  const { series, roofed, categories, selected = "", colour, range, narrow, level, joined = [] } = input;
  const drawn = series.map((one) => {
    const { roofs, precision } = roofed.find(({ letter }) => letter === one.letter) ?? roofed[0];
    return { ...one, points: pointsOf(one.works, roofs, one.step_s, precision) };
  });
  const every = drawn.flatMap(({ points }) => points);
  const predicted = drawn.filter((one) => one.predicted).flatMap(({ points }) => points);
  const measured = drawn.filter((one) => !one.predicted).flatMap(({ points }) => points);
  const unpriced = series
    .filter((one) => !one.predicted)
    .flatMap(({ works, step_s }) =>
      works
        .filter(({ flops, bytes }) => !(flops > 0 && bytes > 0))
        .map((work) => ({ ...work, share_frac: work.seconds / step_s })),
    )
    .sort((a, b) => b.seconds - a.seconds);
  const bounds = range ?? boundsOf(every, roofed);
  const isAbout = about(
    selected,
    categories,
    series.flatMap(({ works }) => works),
  );
  const [left, right] = bounds.x.map((end) => 10 ** end);
  const lines = roofed
    .flatMap((one) => roofLines(one, roofed.length > 1 ? drawn : null))
    .sort((a, b) => b.flops_per_s - a.flops_per_s);
  const highest = lines[0].flops_per_s;
  // on a small chip the middle of the axis tells the unit, and every point is read in it
  const middle = highest < SMALL_CHIP_FLOPS_PER_S ? 1e12 * 10 ** ((bounds.y[0] + bounds.y[1]) / 2) : 1e12;
  const scale = scaleFor(middle, "flops_per_s");
  const ys = bounds.y.map((end) => end + Math.log10(1e12 / scale.factor));
  const line = (/** @type {number[]} */ x, /** @type {number[]} */ y, /** @type {string} */ dash, width = 1.8) => ({
    type: "scatter",
    mode: "lines",
    x,
    y: y.map((value) => value / scale.factor),
    hoverinfo: "skip",
    line: { color: colour("ink-3"), width, dash },
  });
  // the bandwidth stands beside the diagonal, and inside the figure also where the ridge is far left
  const steepest = Math.max(...roofed.map(({ roofs }) => roofs.memory_bytes_per_s));
  const named = Math.max(Math.log10(highest / steepest) - 0.7, bounds.x[0] + 0.16 * (bounds.x[1] - bounds.x[0]));
  const diagonals = roofed.map(({ letter, roofs: { memory_bytes_per_s: slope } }) => {
    const top = Math.max(...lines.filter((one) => one.letter === letter).map((one) => one.flops_per_s));
    return line([left, top / slope], [left * slope, top], dashOf(letter));
  });
  const bandwidths = [...roofed]
    .sort((a, b) => b.roofs.memory_bytes_per_s - a.roofs.memory_bytes_per_s)
    .map(({ letter, roofs }) => ({ letter, text: quantity(roofs.memory_bytes_per_s, "bytes_per_s") }));
  const sameBandwidth = new Set(bandwidths.map(({ text }) => text)).size === 1;
  const marks = (/** @type {typeof drawn[number]} */ { letter, predicted: hollow, points }) => ({
    type: "scatter",
    mode: "markers",
    cliponaxis: false,
    name: hollow ? "predicted" : "measured",
    x: points.map(({ intensity }) => intensity),
    y: points.map(({ flops_per_s }) => flops_per_s / scale.factor),
    customdata: cards(points, `${letter}, ${hollow ? "predicted" : "measured"}`),
    hovertemplate: CARD,
    marker: {
      symbol: letter === "B" ? "diamond" : "circle",
      size: points.map(({ share_frac }) => Math.max(SMALLEST_PX, LARGEST_PX * Math.sqrt(Math.min(1, share_frac)))),
      opacity: points.map((one) => (isAbout(one) ? 1 : 0.2)),
      color: hollow
        ? "rgba(0,0,0,0)"
        : points.map(({ category }) => faded(colour(tokenOfKey(categories, category)), SOLID)),
      line: { width: hollow ? 1.8 : 1, color: points.map(({ category }) => colour(tokenOfKey(categories, category))) },
    },
  });
  // what both sides name alike, or is the same work, is one thing at two speeds
  const [first, second] = drawn;
  const partners = new Map(joined);
  const pairs = (first?.points ?? []).flatMap((one) => {
    const other = second?.points.find(({ name }) => name === (partners.get(one.name) ?? one.name));
    return other ? [[one, other]] : [];
  });
  const joins = {
    type: "scatter",
    mode: "lines",
    hoverinfo: "skip",
    x: pairs.flatMap(([one, other]) => [one.intensity, other.intensity, null]),
    y: pairs.flatMap(([one, other]) => [one.flops_per_s / scale.factor, other.flops_per_s / scale.factor, null]),
    line: { color: colour("ink-3"), width: 1 },
  };
  // kernels without FLOPs or bytes have no place; a rug at the foot counts them, the longest first
  const shown = unpriced.slice(0, MOST_RUG);
  const left_out_s = unpriced.reduce((sum, { seconds }) => sum + seconds, 0);
  const rug = {
    type: "scatter",
    mode: "markers",
    name: "unpriced",
    cliponaxis: false,
    x: shown.map((_, at) => left * (right / left) ** ((at + 1) / (MOST_RUG + 1))),
    y: shown.map(() => 10 ** (ys[0] + 0.022 * (ys[1] - ys[0]))),
    customdata: shown.map(({ name, seconds, count }) => [
      hoverText(shortened(name, LONGEST)),
      quantity(seconds, "s"),
      callsOf(count),
    ]),
    hovertemplate:
      "<b>%{customdata[0]}</b><br>no FLOPs or bytes known; %{customdata[1]}, %{customdata[2]}<extra></extra>",
    marker: {
      symbol: "line-ns-open",
      size: shown.map(({ share_frac }) => 4 + 45 * Math.sqrt(Math.min(0.04, share_frac))),
      color: shown.map(({ category }) => colour(tokenOfKey(categories, category))),
      opacity: shown.map((one) => (isAbout(one) ? 1 : 0.2)),
      line: { width: 1.3 },
    },
  };
  // a log axis of six decades and more is labelled at every second one
  const ticks = (/** @type {number[]} */ [low, high]) => ({
    dtick: high - low > 5.5 ? 2 : 1,
    // of a unit's thousandths a prefix would make millionths, as in 100µ
    exponentformat: low < -3 ? "power" : "B",
  });
  return {
    data: [
      ...diagonals,
      ...lines.map(({ flops_per_s, slope, own, letter }, index) =>
        line(
          [flops_per_s / slope, right],
          [flops_per_s, flops_per_s],
          own || letter ? dashOf(letter) : ["dot", "dash", "dashdot"][index % 3],
          own ? 1.8 : 1,
        ),
      ),
      ...(pairs.length ? [joins] : []),
      ...drawn.map(marks),
      ...(shown.length ? [rug] : []),
    ],
    layout: layout(colour, {
      height: HEIGHT_PX,
      margin: { l: 54, r: 72, t: 8, b: 38 },
      dragmode: narrow ? false : "zoom",
      uirevision: JSON.stringify(bounds),
      xaxis: {
        type: "log",
        range: bounds.x,
        ...ticks(bounds.x),
        fixedrange: narrow,
        title: { text: `FLOP per byte of ${level ?? "device memory"}` },
      },
      yaxis: {
        type: "log",
        range: ys,
        ...ticks(ys),
        fixedrange: narrow,
        title: { text: scale.unit },
      },
      annotations: [
        ...spread(
          lines.map(({ flops_per_s }) => Math.log10(flops_per_s / scale.factor)),
          LABEL_FRAC * (bounds.y[1] - bounds.y[0]),
        ).map((y, at) => ({
          xref: "paper",
          x: 1,
          xshift: 5,
          y,
          xanchor: "left",
          yanchor: "middle",
          text: escaped(lines[at].label),
          showarrow: false,
          font: { size: 11, color: colour(lines[at].own ? "ink" : "ink-3") },
        })),
        {
          // left of the diagonal nothing can be: no point is above its roof
          x: named,
          y: named + Math.log10(steepest / scale.factor),
          xanchor: "right",
          yanchor: "bottom",
          xshift: -4,
          align: "right",
          text: sameBandwidth
            ? bandwidths[0].text
            : bandwidths.map(({ letter, text }) => `${letter} ${text}`).join("<br>"),
          showarrow: false,
          font: { size: 11, color: colour("ink-3") },
        },
        // the rug says what it is where it is
        ...(shown.length
          ? [
              {
                xref: "paper",
                x: 1,
                yref: "paper",
                y: 0,
                yshift: RUG_PX,
                xanchor: "right",
                yanchor: "bottom",
                text: `${significant(unpriced.length)} unpriced, ${quantity(left_out_s, "s")}`,
                showarrow: false,
                font: { size: 11, color: colour("ink-3") },
              },
            ]
          : []),
      ],
    }),
    legend: categories
      .filter((name) =>
        [...predicted, ...measured].some(({ category }) => tokenOfKey(categories, category) === tokenOf(name)),
      )
      .map((name) => [tokenOf(name), name.label]),
    range: bounds,
    measured: measured.length,
    left_out: unpriced.length,
    left_out_s,
    summary: `Roofline with ${predicted.length} predicted and ${measured.length} measured points; attention counts what its kernel computes, half of the square where it is causal.`,
    table: {
      columns: [
        { title: "op or kernel", text: true },
        { title: "", text: true },
        { title: "achieved", unit: "FLOP/s" },
        { title: "intensity", unit: "FLOP/byte" },
        { title: "of roof", unit: "frac" },
        { title: "of step", unit: "frac" },
        { title: "time", unit: "s" },
        { title: "count" },
      ],
      rows: [...drawn].flatMap(({ letter, predicted: hollow, points }) =>
        points.map((point) => [
          point.name,
          `${letter}, ${hollow ? "predicted" : "measured"}`,
          point.flops_per_s,
          point.intensity,
          point.roof_frac,
          point.share_frac,
          point.seconds,
          point.count,
        ]),
      ),
    },
  };
}

/** As elsewhere A is dotted where both sides are drawn. @param {string} letter */
const dashOf = (letter) => (letter === "A" ? "dot" : "solid");

/**
 * Roofs of a chip; equal peaks share a line and a label; `own` is the one of the scenario's precision. Of two chips those
 * alone that something of their side is held against: `drawn`.
 * @param {Roofed} roofed @param {(Series & {points: Point[]})[] | null} drawn
 */
function roofLines({ letter, roofs: { flops_per_s, memory_bytes_per_s: slope }, precision }, drawn) {
  /** @type {Map<number, string[]>} */
  const found = new Map();
  for (const [name, peak] of Object.entries(flops_per_s))
    if (peak > 0) found.set(peak, [...(found.get(peak) ?? []), unitOf(name)]);
  const used = drawn
    ?.filter((one) => one.letter === letter)
    .flatMap(({ points }) => points.map((one) => unitOf(one.precision)));
  const all = [...found.entries()].map(([peak, names]) => {
    const own = names.includes(unitOf(precision));
    const label = own ? unitOf(precision) : [...new Set(names)].join(", ");
    return { letter, slope, flops_per_s: peak, own, names, label: [letter, label].filter(Boolean).join(" ") };
  });
  const needed = all.filter(({ own, names }) => own || !used || names.some((name) => used.includes(name)));
  return needed.length ? needed : all;
}

/** Move labels apart that would lie on each other, from high to low. @param {number[]} places @param {number} least */
function spread(places, least) {
  /** @type {number[]} */
  const found = [];
  for (const place of places) found.push(Math.min(place, (found.at(-1) ?? Infinity) - least));
  return found;
}
