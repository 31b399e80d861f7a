/** The front of a search: step time against memory of the plans that none beats in both; and the present plan. */
import { plural, quantity, scaleFor, seconds, significant } from "../format.js";
import { escaped, layout, logTicks } from "./base.js";

/**
 * @typedef {{words: string, step_time_s: number, peak_bytes: number, reserved_bytes: number}} Shown
 */

/**
 * Points of the first trace stand in the order of `plans`.
 * @param {{plans: Shown[], best: Shown | null, present: Shown | null, capacity_bytes: number,
 *   colour: import("../types.js").Colour, narrow: boolean}} input
 * @returns {import("../types.js").Figure}
 */
export function front({ plans, best, present, capacity_bytes, colour, narrow }) {
  const all = [...plans, ...(present ? [present] : [])];
  const largest_s = Math.max(0, ...all.map(({ step_time_s }) => step_time_s));
  // the present plan may need many times what there is: it must not press the others into a line
  const top = Math.max(capacity_bytes, ...plans.map(({ peak_bytes }) => peak_bytes));
  const end = top * 1.08;
  const above = present && present.peak_bytes > end ? present : null;
  const time = scaleFor(largest_s, "s");
  const memory = scaleFor(top, "bytes");
  const least_s = Math.min(...all.map(({ step_time_s }) => step_time_s), largest_s);
  const wide = largest_s > 6 * least_s;
  const trace = (/** @type {string} */ name, /** @type {Shown[]} */ some, /** @type {any} */ marker) => ({
    type: "scatter",
    mode: "markers",
    name,
    x: some.map(({ step_time_s }) => step_time_s / time.factor),
    y: some.map(({ peak_bytes }) => peak_bytes / memory.factor),
    marker,
    customdata: some.map(
      ({ words, step_time_s, peak_bytes }) =>
        `${escaped(words)}<br>${seconds(step_time_s)}, ${quantity(peak_bytes, "bytes")}`,
    ),
    hovertemplate: `${name}: %{customdata}<extra></extra>`,
  });
  const capacity = capacity_bytes / memory.factor;
  const middle_s = wide ? Math.sqrt(largest_s * least_s) : (largest_s + least_s) / 2;
  /** The value of a point that stands above the axis, on the side where there is room. @param {Shown} one */
  const edge = ({ step_time_s, peak_bytes }) => ({
    x: wide ? Math.log10(step_time_s / time.factor) : step_time_s / time.factor,
    y: end / memory.factor,
    xanchor: step_time_s > middle_s ? "right" : "left",
    xshift: step_time_s > middle_s ? -10 : 10,
    yanchor: "middle",
    showarrow: false,
    text: `present plan ↑ ${quantity(peak_bytes, "bytes")}`,
    font: { size: 11, color: colour("hue-orange") },
    bgcolor: colour("card"),
  });
  return {
    data: [
      {
        ...trace("front", plans, { size: 9, color: colour("accent"), line: { width: 1, color: colour("card") } }),
        mode: "lines+markers",
        line: { color: colour("line-strong"), width: 1.5, shape: "hv" },
      },
      trace("best", best ? [best] : [], {
        size: 15,
        symbol: "circle-open",
        color: colour("accent"),
        line: { width: 2 },
      }),
      {
        ...trace("present plan", present ? [present] : [], {
          size: 11,
          symbol: "diamond-open",
          color: colour("hue-orange"),
          line: { width: 2 },
        }),
        ...(above && { y: [end / memory.factor], cliponaxis: false }),
      },
    ],
    layout: layout(colour, {
      height: narrow ? 280 : 330,
      margin: { l: 56, r: 16, t: 12, b: 42 },
      xaxis: {
        type: wide ? "log" : "linear",
        title: { text: `step time, ${time.unit}` },
        nticks: narrow ? 4 : 9,
        tickangle: 0,
        ...(wide &&
          logTicks(
            all.map(({ step_time_s }) => step_time_s / time.factor),
            narrow,
          )),
      },
      yaxis: {
        rangemode: "tozero",
        range: [0, end / memory.factor],
        title: { text: `peak memory, ${memory.unit}` },
      },
      shapes: [
        {
          type: "line",
          xref: "paper",
          x0: 0,
          x1: 1,
          y0: capacity,
          y1: capacity,
          line: { color: colour("bad"), width: 1.4, dash: "dash" },
        },
      ],
      annotations: [
        {
          xref: "paper",
          x: 1,
          y: capacity,
          xanchor: "right",
          yanchor: "bottom",
          showarrow: false,
          text: `limit ${significant(capacity)}`,
          font: { size: 11, color: colour("bad") },
        },
        ...(above ? [edge(above)] : []),
      ],
    }),
    said: "plans that none beats in both; ring: the best; ◇ present plan",
    summary: `${plural(plans.length, "plan")} on the front of step time and memory.`,
    table: {
      columns: [
        { title: "plan", text: true },
        { title: "step time", unit: "s" },
        { title: "peak memory", unit: "bytes" },
      ],
      rows: plans.map(({ words, step_time_s, peak_bytes }) => [words, step_time_s, peak_bytes]),
    },
  };
}
