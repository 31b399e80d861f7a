/** What the machine from technology answers, as series that the figures of studies draw. Pure. */

/** @typedef {import("../types.js").StudySeries} Series */
/** @typedef {{part: string, weights_bytes: number, activations_bytes: number, pointwise_bytes: number}} PartMemory */

const BAR = { kind: "bar", x_log: false, y_log: false };
const KINDS = /** @type {const} */ (["weights", "activations", "pointwise"]);

/** Seconds of every component of the step. @param {{name: string, seconds: number}[]} composition @returns {Series[]} */
export const timeSeries = (composition) => [
  {
    ...BAR,
    group: "time composition",
    name: "seconds of the step",
    x_label: "component",
    y_label: "s",
    stacked: false,
    x: composition.map(({ name }) => name),
    y: composition.map(({ seconds }) => seconds),
  },
];

/** What each part of the model holds on one chip, by kind. @param {PartMemory[]} memory @returns {Series[]} */
export const memorySeries = (memory) =>
  KINDS.map((kind) => ({
    ...BAR,
    group: "memory of one chip",
    name: kind,
    x_label: "part",
    y_label: "GB",
    stacked: true,
    x: memory.map(({ part }) => part),
    y: memory.map((one) => one[`${kind}_bytes`] / 1e9),
  }));
