// @ts-check
/** What a measurement says about one step, without guessing what it does not say. Pure. */

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

/** Seconds of one step: the median of the measured steps, else what its parts add to. @param {Measurement | null} measurement */
export function stepTime(measurement) {
  if (!measurement) return null;
  return median(measurement.steps_s) ?? (total(measurement.phases_s) || total(measurement.breakdown_s) || null);
}

/** A name for the device that was measured. @param {Measurement} measurement */
export const deviceName = (measurement) => String(measurement.device.name ?? measurement.device.type ?? "");
