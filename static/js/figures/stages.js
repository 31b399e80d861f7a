/** Memory of every pipeline stage at its peak, by kind; and memory of both sides over the step. */
import { bytes, scaleFor, seconds } from "../format.js";
import { barMarker, layout, level, tokenOf } from "./base.js";

/** @typedef {import("../types.js").Colour} Colour */
/** @typedef {import("../types.js").Named} Named */

const HEIGHT_PX = 284;
/** A capacity farther above than this would press what is drawn flat; then it is only said. */
const NEAR = 0.6;

/** @param {number} capacity @param {Colour} colour @param {string} text @returns {{shapes: any[], annotations: any[]}} */
const line = (capacity, colour, text) => ({
  shapes: [level(capacity, colour("bad"))],
  annotations: [
    {
      xref: "paper",
      x: 1,
      y: capacity,
      xanchor: "right",
      yanchor: "bottom",
      text,
      showarrow: false,
      font: { size: 11, color: colour("bad") },
    },
  ],
});

/**
 * @param {{memory: import("../types.js").Memory, kinds: Named[], colour: Colour}} input
 * @returns {import("../types.js").Figure}
 */
export function stageMemory({ memory: { stages, capacity_bytes }, kinds, colour }) {
  const largest = Math.max(...stages.map(({ peak_bytes }) => peak_bytes), 0);
  const near = largest > NEAR * capacity_bytes;
  const scale = scaleFor(near ? Math.max(capacity_bytes, largest) : largest, "bytes");
  const used = kinds.filter(({ key }) => stages.some(({ by_kind }) => (by_kind[key] ?? 0) > 0));
  const names = stages.map(({ stage }) => `stage ${stage + 1}`);
  return {
    data: used.map((kind) => ({
      type: "bar",
      name: kind.label,
      x: names,
      y: stages.map(({ by_kind }) => (by_kind[kind.key] ?? 0) / scale.factor),
      customdata: stages.map(
        ({ by_kind, layers, in_flight }) =>
          `${bytes(by_kind[kind.key] ?? 0)}<br>${layers} layers, ${in_flight} micro-batches in flight`,
      ),
      hovertemplate: "%{x}, %{fullData.name}: %{customdata}<extra></extra>",
      marker: barMarker(colour(tokenOf(kind)), colour, true),
    })),
    layout: layout(colour, {
      barmode: "stack",
      height: HEIGHT_PX,
      bargap: 0.3,
      margin: { l: 38, r: 8, t: 14, b: 24 },
      xaxis: { tickfont: { color: colour("ink"), size: 11.5 } },
      yaxis: { nticks: 7, range: [0, ((near ? Math.max(capacity_bytes, largest) : largest) / scale.factor) * 1.1] },
      ...(near ? line(capacity_bytes / scale.factor, colour, `capacity ${bytes(capacity_bytes)}`) : {}),
    }),
    legend: used.map((kind) => [tokenOf(kind), kind.label]),
    said: `one chip of each stage at its peak, ${scale.unit}`,
    axes: { y: scale.unit },
    summary: stages.map(({ stage, peak_bytes }) => `Stage ${stage + 1}: ${bytes(peak_bytes)}`).join(". "),
    table: {
      columns: [
        { title: "stage", text: true },
        { title: "layers" },
        { title: "micro-batches in flight" },
        { title: "peak", unit: "bytes" },
        ...used.map(({ label }) => ({ title: label, unit: "bytes" })),
      ],
      rows: stages.map((one) => [
        String(one.stage + 1),
        one.layers,
        one.in_flight,
        one.peak_bytes,
        ...used.map(({ key }) => one.by_kind[key] ?? 0),
      ]),
    },
  };
}

/**
 * @param {{runs: import("./timeline.js").Run[], colour: Colour}} input
 * @returns {import("../types.js").Figure}
 */
export function memoryOverTime({ runs, colour }) {
  const known = runs.filter(({ drawn }) => drawn.memory.length);
  const largest = Math.max(...known.flatMap(({ drawn }) => drawn.memory.map(([, held]) => held)), 0);
  const capacity = Math.max(...known.map(({ drawn }) => drawn.capacity_bytes), 0);
  const near = largest > NEAR * capacity;
  const held = scaleFor(near ? Math.max(capacity, largest) : largest, "bytes");
  const time = scaleFor(Math.max(...known.map(({ drawn }) => drawn.total_s), 0), "s");
  return {
    data: known.map(({ letter, predicted, drawn, fits }) => ({
      type: "scatter",
      mode: "lines",
      name: letter,
      x: drawn.memory.map(([at]) => at / time.factor),
      y: drawn.memory.map(([, value]) => value / held.factor),
      customdata: drawn.memory.map(
        ([at, value]) => `${letter}, ${predicted ? "predicted" : "measured"}, at ${seconds(at)}: ${bytes(value)}`,
      ),
      hovertemplate: "%{customdata}<extra></extra>",
      line: {
        width: 2,
        color: colour(fits ? (letter === "A" ? "ink-3" : "ink") : "bad"),
        dash: letter === "A" ? "dot" : "solid",
      },
    })),
    layout: layout(colour, {
      height: HEIGHT_PX,
      margin: { l: 42, r: 8, t: 14, b: 38 },
      xaxis: { title: { text: `time, ${time.unit}` }, nticks: 6, rangemode: "tozero" },
      yaxis: { nticks: 7, range: [0, ((near ? Math.max(capacity, largest) : largest) / held.factor) * 1.1] },
      ...(near ? line(capacity / held.factor, colour, `capacity ${bytes(capacity)}`) : {}),
    }),
    said: `a chip of the fullest stage, ${held.unit}; dotted A, solid B`,
    axes: { y: held.unit },
    summary: known
      .map(({ letter, drawn }) => `${letter}: ${bytes(Math.max(...drawn.memory.map(([, value]) => value)))} at most`)
      .join(". "),
    table: {
      columns: [
        { title: "side", text: true },
        { title: "at", unit: "s" },
        { title: "held", unit: "bytes" },
      ],
      rows: known.flatMap(({ letter, drawn }) => drawn.memory.map(([at, value]) => [letter, at, value])),
    },
  };
}
