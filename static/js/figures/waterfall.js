/** Where the difference goes: both steps at their true length, and below, on their ends alone, cause by cause from A to B. */
import { change, measured, quantity, scaleFor } from "../format.js";
import { about, barMarker, escaped, faded, layout, tokenOf, UNNAMED } from "./base.js";

/** @typedef {import("../types.js").Colour} Colour */
/** @typedef {import("../types.js").Named} Named */
/** @typedef {import("./waterRows.js").WaterRow} WaterRow */
/** @typedef {import("../sides.js").Side} Side */

export const ROW_PX = 18;
export const TALL_ROW_PX = 32;
export const HEAD_PX = 72;
const BAR_PX = 13;
/** What a number takes of a figure's width, and of a narrow one's. */
const LABEL = { frac: 0.02, letter_frac: 0.0115 };
const TIGHT_LABEL = { frac: 0.045, letter_frac: 0.037 };
/** What a number takes beside its letters, and each letter. */
const [LABEL_PX, LETTER_PX] = [8, 7];
/** Between the end of a bar and its number. */
const GAP = "\u00a0\u00a0";

/**
 * @param {{a: Side | null, b: Side | null, rows: WaterRow[], names: Named[], selected: string, colour: Colour,
 *   narrow: boolean, tight: boolean, muted: boolean, largest_s?: number, width?: number}} input  `tight`: little room along
 *   the bars, which are so many px wide, 0 where nobody knows it yet; `muted`: B is impossible
 * @returns {import("../types.js").Figure & {scale: {factor: number, unit: string}, height: number, keys: string[]}}
 *   `keys`: the category of each segment of A and B
 */
export function waterfall({ a, b, rows, names, selected, colour, narrow, tight, muted, largest_s = 0, width = 0 }) {
  const sides = [a, b].filter((one) => one !== null);
  const steps = sides.map(({ step_s }) => step_s ?? 0);
  const full = Math.max(largest_s, ...steps, 1e-12) * 1.02;
  const scale = scaleFor(full, "s");
  const each = narrow ? TALL_ROW_PX : ROW_PX;
  const head = rows.length ? HEAD_PX : 2 * BAR_PX + 9;
  const height = head + rows.length * each + (rows.length ? 6 : 0);
  const y = (/** @type {number} */ px) => 1 - px / height;
  const used = names.filter(({ key }) => sides.some((one) => (one.breakdown_s?.[key] ?? 0) > 0));
  const isAbout = about(selected, names, []);
  const segments = sides.flatMap((one) => {
    const { letter, predicted, breakdown_s, step_s } = one;
    const split = used.map((name) => ({
      key: name.key,
      label: name.label,
      token: tokenOf(name),
      seconds: breakdown_s?.[name.key] ?? 0,
      faint: isAbout({ category: name.key }) ? 1 : 0.35,
    }));
    const rest_s = Math.max(0, (step_s ?? 0) - split.reduce((sum, { seconds }) => sum + seconds, 0));
    const unsplit = { key: "", label: "not split", token: UNNAMED, seconds: rest_s, faint: 1 };
    let from_s = 0;
    return [...split, ...(rest_s > 1e-6 * (step_s || 1) ? [unsplit] : [])].map((segment) => {
      from_s += segment.seconds;
      const opacity = segment.faint * (muted && letter === "B" ? 0.45 : 1);
      return { ...segment, letter, predicted, opacity, from_s: from_s - segment.seconds };
    });
  });
  // one trace for all: what Plotly does for a trace is most of what a redraw costs
  const bars = {
    type: "bar",
    orientation: "h",
    y: segments.map(({ letter }) => letter),
    base: segments.map(({ from_s }) => from_s / scale.factor),
    x: segments.map(({ seconds }) => seconds / scale.factor),
    customdata: segments.map(({ letter, label, seconds }) => `${letter}, ${label}: ${quantity(seconds, "s", 6)}`),
    hovertemplate: "%{customdata}<extra></extra>",
    marker: {
      ...barMarker(
        segments.map(({ token }) => colour(token)),
        colour,
        segments.map(({ predicted }) => predicted),
      ),
      opacity: segments.map(({ opacity }) => opacity),
    },
  };
  const causes = rows.length
    ? drawn({ rows, a, b, colour, scale, selected, full, height, head, each, tight, width })
    : null;
  const difference = (b?.step_s ?? 0) - (a?.step_s ?? 0);
  const words = sides.map(({ letter, kind, step_s }) => `${letter} ${kind} ${quantity(step_s, "s")}`);
  return {
    data: [bars, ...(causes?.data ?? [])],
    scale,
    height,
    keys: segments.map(({ key }) => key),
    layout: layout(colour, {
      barmode: "overlay",
      height,
      bargap: 0.12,
      margin: { l: 0, r: 0, t: 0, b: 0, pad: 0 },
      xaxis: { range: [0, full / scale.factor], visible: false, domain: [0, 1], anchor: "y" },
      yaxis: {
        range: sides.length > 1 ? [1.5, -0.5] : [0.5, -0.5],
        visible: false,
        domain: [y(2 * BAR_PX + 7), y(2)],
        type: "category",
        categoryarray: sides.map(({ letter }) => letter),
      },
      ...(causes && {
        xaxis2: {
          ...causes.axis,
          anchor: "y2",
          side: "top",
          domain: [0, 1],
          gridcolor: colour("line"),
          zeroline: false,
          fixedrange: true,
          tickfont: { size: 11, color: colour("ink-2") },
          ticklen: 0,
          tickangle: 0,
        },
        yaxis2: {
          range: [rows.length - 0.5, -0.5],
          domain: [y(height - 6), y(head)],
          visible: false,
          fixedrange: true,
        },
        shapes: causes.shapes,
        annotations: causes.annotations,
      }),
    }),
    legend: used.map((name) => [tokenOf(name), name.label]),
    // on a page of its own the names stand in the picture
    onPaper: {
      margin: { l: 250, r: 70, t: 0, b: 0 },
      annotations: [
        ...sides.map((one, at) => ({
          text: `<b>${one.letter}</b> ${one.kind} ${quantity(one.step_s, "s")}`,
          y: y(2 + (BAR_PX + 2) * (at + 0.5)),
        })),
        ...rows.map((row, at) => ({
          text: escaped(row.first ? `${row.name}: ${row.words}` : row.words),
          y: y(head + each * (at + 0.5)),
        })),
      ].map((one) => ({
        xref: "paper",
        yref: "paper",
        x: 0,
        xshift: -10,
        xanchor: "right",
        yanchor: "middle",
        showarrow: false,
        font: { size: 12, color: colour("ink") },
        ...one,
      })),
    },
    said: `hatched: predicted, solid: measured; ${scale.unit}`,
    summary: rows.length
      ? `${words.join(", ")}: ${change(difference / (a?.step_s || 1))}. ${rows.map((row) => `${row.name} ${row.words} ${quantity(row.seconds, "s")}`).join("; ")}.`
      : `${words.join(", ")}.`,
    table: {
      columns: [
        { title: "cause", text: true },
        { title: "how", text: true },
        { title: "A", unit: "s" },
        { title: "B", unit: "s" },
        { title: "B − A", unit: "s" },
      ],
      rows: rows.length
        ? [
            ...rows.map((row) => [row.name, row.words, row.a_s, row.b_s, row.seconds]),
            ["step", "", a?.step_s ?? null, b?.step_s ?? null, difference],
          ]
        : [
            ...used.map(({ key, label }) => [
              label,
              "",
              a?.breakdown_s?.[key] ?? null,
              b?.breakdown_s?.[key] ?? null,
              null,
            ]),
            ["step", "", a?.step_s ?? null, b?.step_s ?? null, null],
          ],
    },
  };
}

/** Room beside the bars where the page is tight, as shares of what they span. */
const ROOMS_FRAC = [0.26, 0.6, 1.5];

/** Whether a number is whole but for rounding. @param {number} value */
const isRound = (value) => Math.abs(value - Math.round(value)) < 1e-6;

/** A round step of about this size. @param {number} size */
function niceStep(size) {
  const power = 10 ** Math.floor(Math.log10(size));
  return ([1, 2, 2.5, 5, 10].find((times) => times * power >= size) ?? 10) * power;
}

/**
 * The bars of the causes, on an axis that shows the ends of both steps alone.
 * @param {{rows: WaterRow[], a: Side | null, b: Side | null, colour: Colour, scale: {factor: number, unit: string},
 *   selected: string, full: number, height: number, head: number, each: number, tight: boolean, width: number}} input
 */
function drawn({ rows, a, b, colour, scale, selected, full, height, head, each, tight, width }) {
  const at = (/** @type {number} */ seconds) => seconds / scale.factor;
  const ends = rows.flatMap(({ from_s, seconds }) => [from_s, from_s + seconds]);
  const [least, most] = [Math.min(...ends), Math.max(...ends)];
  const texts = rows.map(({ seconds }) => `${seconds < 0 ? "−" : "+"}${measured(Math.abs(at(seconds)))}`);
  /** Both ends of the axis, and how much of it is free beyond the end and before the start of each bar. */
  const laid = (/** @type {number} */ frac) => {
    const room = frac * (most - least) || 0.01 * most;
    const [low, high] = [Math.max(0, least - room), most + room];
    const free = rows.map(({ from_s, seconds }) => {
      const [left, right] = [Math.min(from_s, from_s + seconds) - low, high - Math.max(from_s, from_s + seconds)];
      return (seconds < 0 ? [left, right] : [right, left]).map((one) => one / (high - low));
    });
    return { low, high, free };
  };
  // letters stay as large where the bars are short
  const least_frac = (/** @type {number} */ px) => (width ? px / width : 0);
  const label = tight
    ? {
        frac: Math.max(TIGHT_LABEL.frac, least_frac(LABEL_PX)),
        letter_frac: Math.max(TIGHT_LABEL.letter_frac, least_frac(LETTER_PX)),
      }
    : LABEL;
  const needed = texts.map((text) => label.frac + label.letter_frac * text.length);
  // each number has room on one side of its bar, as long as bars are left to be seen
  const roomy = (/** @type {ReturnType<typeof laid>} */ { free }) =>
    free.every((both, index) => Math.max(...both) >= needed[index]);
  const layouts = (tight ? ROOMS_FRAC : [0.13]).map(laid);
  const { low, high, free } = layouts.find(roomy) ?? layouts[Math.min(1, layouts.length - 1)];
  const y = (/** @type {number} */ px) => 1 - px / height;
  const hatched = Boolean(a?.predicted && b?.predicted);
  const dim = (/** @type {WaterRow} */ { cause }) => (selected && cause !== selected ? 0.3 : 1);
  const bars = {
    type: "bar",
    orientation: "h",
    xaxis: "x2",
    yaxis: "y2",
    y: rows.map((_, index) => index),
    base: rows.map(({ from_s }) => at(from_s)),
    x: rows.map(({ seconds }) => at(seconds)),
    width: rows.map(() => Math.min(0.62, 11 / each)),
    hoverinfo: "skip",
    marker: {
      ...barMarker(
        rows.map(({ token }) => colour(token)),
        colour,
        rows.map(() => hatched),
      ),
      line: { width: 1, color: rows.map(({ token }) => colour(token)) },
      opacity: rows.map(dim),
    },
  };
  const b_end = rows[rows.length - 1].from_s + rows[rows.length - 1].seconds;
  // a label that would leave the figure stands on the inner side
  const labels = rows.map((row, index) => {
    const { from_s, seconds } = row;
    const end = from_s + seconds;
    const left = seconds < 0;
    const [beyond, before] = free[index];
    const needs = needed[index];
    // not across the line of B, where the other side of the bar has room
    const crosses = (/** @type {number} */ from, /** @type {boolean} */ toLeft) => {
      const beside = (toLeft ? from - b_end : b_end - from) / (high - low);
      return beside > 0 && beside < needs;
    };
    const better = before > needs && crosses(end, left) && !crosses(from_s, !left);
    const outside = beyond > Math.min(needs, before) && !better;
    const toLeft = left === outside;
    const text = texts[index];
    return {
      x: at(outside ? end : from_s),
      y: index,
      text: toLeft ? `${text}${GAP}` : `${GAP}${text}`,
      place: toLeft ? "middle left" : "middle right",
    };
  });
  const tips = {
    type: "scatter",
    mode: "markers+text",
    xaxis: "x2",
    yaxis: "y2",
    hoverinfo: "skip",
    cliponaxis: false,
    x: [...rows.map(({ from_s, seconds }) => at(from_s + seconds)), ...labels.map(({ x }) => x)],
    y: [...rows.map((_, index) => index), ...labels.map(({ y: index }) => index)],
    text: [...rows.map(() => ""), ...labels.map(({ text }) => text)],
    textposition: [...rows.map(() => "middle right"), ...labels.map(({ place }) => place)],
    textfont: { size: 11.5, color: [...rows, ...rows].map((row) => faded(colour("ink"), dim(row))) },
    marker: {
      symbol: rows.map(({ seconds }) => (seconds < 0 ? "triangle-left" : "triangle-right")),
      size: [...rows.map(() => 9), ...rows.map(() => 0)],
      color: rows.map(({ token }) => colour(token)),
      opacity: rows.map(dim),
    },
  };
  const steps = {
    type: "scatter",
    mode: "lines",
    xaxis: "x2",
    yaxis: "y2",
    hoverinfo: "skip",
    x: rows.slice(1).flatMap(({ from_s }) => [at(from_s), at(from_s), null]),
    y: rows.slice(1).flatMap((_, index) => [index + 0.31, index + 0.69, null]),
    line: { color: colour("ink-3"), width: 1 },
  };
  const line = (/** @type {Record<string, any>} */ parts) => ({ type: "line", xref: "x2", yref: "y2", ...parts });
  const sides = /** @type {[Side | null, number, string][]} */ ([
    [a, rows[0].from_s, "dot"],
    [b, b_end, "solid"],
  ]);
  const wedge = [low, high].map((value) => Math.min(1, value / full));
  const shapes = [
    {
      type: "path",
      xref: "paper",
      yref: "paper",
      path: `M${wedge[0]},${y(2 * BAR_PX + 9)}L${wedge[1]},${y(2 * BAR_PX + 9)}L1,${y(head - 20)}L0,${y(head - 20)}Z`,
      fillcolor: colour("line"),
      opacity: 0.55,
      line: { width: 0 },
      layer: "below",
    },
    ...sides.map(([, seconds, dash], index) =>
      line({
        x0: at(seconds),
        x1: at(seconds),
        y0: -0.5,
        y1: index ? rows.length - 0.5 : 0,
        line: { color: colour("ink"), width: 1.4, dash },
        layer: "below", // no line through a number
      }),
    ),
  ];
  const middle = (low + high) / 2;
  const annotations = [
    ...sides.flatMap(([side, seconds], index) =>
      side
        ? [
            {
              xref: "x2",
              yref: "paper",
              x: at(seconds),
              y: y(head - 1),
              yanchor: "bottom",
              xanchor:
                sides[0][1] === sides[1][1]
                  ? "center"
                  : seconds > middle === sides[1 - index][1] < seconds
                    ? "left"
                    : "right",
              text: `<b>${side.letter}</b>`,
              showarrow: false,
              bgcolor: colour(index ? "ink-2" : "card"),
              bordercolor: colour("ink-2"),
              borderwidth: 1,
              borderpad: 1,
              font: { size: 10.5, color: colour(index ? "card" : "ink") },
            },
          ]
        : [],
    ),
  ];
  // a tick under A or B would be behind its letter
  const step = niceStep((at(high) - at(low)) / (tight ? 4 : 8));
  const ticks = Array.from({ length: 40 }, (_, index) => (Math.ceil(at(low) / step) + index) * step)
    .filter((value) => value < at(high))
    .filter((value) =>
      sides.every(([, seconds]) => Math.abs(value - at(seconds)) > (tight ? 0.12 : 0.035) * (at(high) - at(low))),
    );
  // as many as the ticks have: 2.5 has one
  const decimals = [0, 1, 2, 3, 4, 5, 6].find((digits) => ticks.every((tick) => isRound(tick * 10 ** digits))) ?? 6;
  const axis = { range: [at(low), at(high)], tickvals: ticks, ticktext: ticks.map((value) => value.toFixed(decimals)) };
  return { data: [bars, steps, tips], shapes, annotations, axis };
}
