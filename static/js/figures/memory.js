/** Memory: what the fullest rank holds at the peak, against the chip's capacity. */
import { bytes, scaleFor, significant } from "../format.js";
import { total } from "../measured.js";
import { barMarker, layout, level, roundUp, tokenOf, UNNAMED } from "./base.js";

/** @typedef {import("../types.js").Colour} Colour */
/** @typedef {import("../types.js").Named} Named */

const SMALL = 0.1; // of the unit

/**
 * @param {{memory: import("../types.js").Memory, measured: import("../types.js").Measurement["memory"] | null,
 *   kinds: Named[], largest_bytes: number, colour: Colour}} input  `kinds`: those of the catalogue
 * @returns {import("../types.js").Figure & {scale: {factor: number, unit: string},
 *   kinds: [kind: Named, predicted: string, measured: string][]}}  `kinds` in the unit of the scale
 */
export function memory({ memory: predicted, measured, kinds, largest_bytes, colour }) {
  const peak = measured?.peak_bytes ?? null;
  const split = measured && total(measured.by_kind) > 0 ? measured.by_kind : null;
  const largest = Math.max(largest_bytes, predicted.peak_bytes, peak ?? 0);
  // a capacity far above would press the bars flat: then it is only named
  const near = predicted.capacity_bytes < 4 * largest;
  const top = near ? Math.max(predicted.capacity_bytes * 1.08, largest * 1.1) : largest * 1.3;
  const scale = scaleFor(near ? Math.max(predicted.capacity_bytes, largest) : largest, "bytes");
  const range = [0, near ? top / scale.factor : roundUp(top / scale.factor)];
  const bars = peak === null ? ["predicted"] : ["predicted", "measured"];
  const data = kinds.map((kind) => {
    const values = [predicted.by_kind[kind.key] ?? 0, split?.[kind.key] ?? 0].slice(0, bars.length);
    return {
      type: "bar",
      name: kind.label,
      x: bars,
      y: values.map((value) => value / scale.factor),
      customdata: values.map((value) => bytes(value)),
      hovertemplate: "%{fullData.name}: %{customdata}<extra></extra>",
      marker: barMarker(colour(tokenOf(kind)), colour, [true, false]),
    };
  });
  if (peak !== null && !split) {
    data.push({
      type: "bar",
      name: "not split",
      x: bars,
      y: [0, peak / scale.factor],
      customdata: ["", bytes(peak)],
      hovertemplate: "%{fullData.name}: %{customdata}<extra></extra>",
      marker: barMarker(colour(UNNAMED), colour, false),
    });
  }
  const capacity = predicted.capacity_bytes / scale.factor;
  // what is little has a unit of its own
  const amount = (/** @type {number} */ value) =>
    value > 0 && value < SMALL * scale.factor ? bytes(value) : significant(value / scale.factor);
  const label = (/** @type {string} */ x, /** @type {number} */ y) => ({
    x,
    y: y / scale.factor,
    text: amount(y),
    showarrow: false,
    yanchor: "bottom",
    font: { size: 13, color: colour("ink") },
  });
  const beside = peak === null ? "" : `, measured ${bytes(peak)}`;
  const verdict = predicted.fits ? "it fits" : "it does not fit";
  return {
    data,
    scale,
    said: peak === null ? "hatched: predicted" : "hatched: predicted, solid: measured",
    axes: { y: `memory of one chip, ${scale.unit}` },
    kinds: kinds
      .filter(({ key }) => predicted.by_kind[key] > 0 || (split?.[key] ?? 0) > 0)
      .map((kind) => [kind, amount(predicted.by_kind[kind.key] ?? 0), split ? amount(split[kind.key] ?? 0) : ""]),
    layout: layout(colour, {
      barmode: "stack",
      height: 284,
      bargap: peak === null ? 0.62 : 0.45,
      margin: { l: 38, r: 8, t: 14, b: 24 },
      xaxis: { tickfont: { color: colour("ink"), size: 12 } },
      yaxis: { range, nticks: 7 },
      shapes: near ? [level(capacity, colour("bad"))] : [],
      annotations: [
        near
          ? {
              xref: "paper",
              x: 1,
              y: capacity,
              xanchor: "right",
              yanchor: "bottom",
              text: `capacity ${amount(predicted.capacity_bytes)}`,
              showarrow: false,
              font: { color: colour("bad"), size: 11 },
            }
          : {
              xref: "paper",
              yref: "paper",
              x: 1,
              y: 1,
              xanchor: "right",
              yanchor: "top",
              text: `capacity ${bytes(predicted.capacity_bytes)}, above this axis`,
              showarrow: false,
              font: { color: colour("ink-3"), size: 11 },
            },
        label("predicted", predicted.peak_bytes),
        ...(peak === null ? [] : [label("measured", peak)]),
      ],
    }),
    summary: `Predicted peak memory ${bytes(predicted.peak_bytes)} of ${bytes(predicted.capacity_bytes)}${beside}; ${verdict}.`,
    table: {
      columns: [
        { title: "kind", text: true },
        { title: "predicted", unit: "bytes" },
        { title: "measured", unit: "bytes" },
      ],
      rows: [
        ...kinds.map(({ key, label }) => [label, predicted.by_kind[key] ?? 0, split ? (split[key] ?? 0) : null]),
        ["peak", predicted.peak_bytes, peak],
        ["reserved", predicted.reserved_bytes, measured?.reserved_bytes ?? null],
        ["capacity", predicted.capacity_bytes, null],
      ],
    },
  };
}
