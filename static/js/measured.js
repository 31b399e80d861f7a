// @ts-check
/** What a measurement says about one step, without guessing what it does not say. Pure. */
import { same } from "./scenario.js";

/** @typedef {import("./types.js").Measurement} Measurement */

/** @param {number[] | undefined} values */
export function median(values) {
  if (!values?.length) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** @param {Record<string, number> | undefined} amounts */
export const total = (amounts) => Object.values(amounts ?? {}).reduce((sum, value) => sum + value, 0);

/**
 * Seconds of one step: the median of the measured steps, else what its parts add to.
 * @param {Measurement | null} measurement
 */
export function stepTime(measurement) {
  if (!measurement) return null;
  return median(measurement.steps_s) ?? (total(measurement.phases_s) || total(measurement.breakdown_s) || null);
}

/**
 * The measurement that stands beside a prediction: none where it is known to be of another model.
 * @param {{measurement: Measurement | null, measuredScenario: import("./types.js").Scenario | null}} chosen
 * @param {import("./types.js").Scenario} scenario
 */
export const beside = ({ measurement, measuredScenario }, scenario) =>
  measuredScenario && !same(measuredScenario.model, scenario.model) ? null : measurement;

/** A name for the device that was measured. @param {Measurement} measurement */
export const deviceName = (measurement) => String(measurement.device.name ?? measurement.device.type ?? "");

/**
 * Whether a measurement is a table or list only: nothing of it stands beside a step.
 * @param {import("./types.js").Summary} summary
 */
export const isTable = ({ step_time_s, kernels, peak_bytes, rows }) =>
  !step_time_s && !kernels && !peak_bytes && rows > 0;

/** The upload that a measurement came with; all its parts share it. @param {string} id */
export const uploadOf = (id) => /^(.+)-\d+$/.exec(id)?.[1] ?? id;

/**
 * The catalogue's chip that was measured on, by any of its names.
 * @param {Measurement} measurement
 * @param {import("./types.js").Entry[]} chips
 */
export function measuredChip(measurement, chips) {
  const name = deviceName(measurement).toLowerCase();
  const kind = String(measurement.device.kind ?? "").toLowerCase();
  return (
    chips.find(({ key, label, aliases }) => [key, label, ...aliases].some((one) => one.toLowerCase() === name)) ??
    chips.find(({ key }) => key === "cpu" && (kind === "cpu" || name === "cpu"))
  );
}
