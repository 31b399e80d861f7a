/**
 * The small curve over a slider: how speed and memory move along the slider's whole axis, and where memory does not
 * suffice.
 */

/**
 * @param {(import("../types.js").Estimate | null)[]} estimates  one per legal value, in order
 * @returns {{points: [number, number][], memory: [number, number][], no_fit: [number, number][]}}  in a box of
 *   100 × 100, y down; `memory`: peaks, over the largest of them
 */
export function curve(estimates) {
  const values = estimates.map((estimate) => estimate?.tokens_per_s_per_chip ?? 0);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const step = 100 / Math.max(1, values.length - 1);
  const flat = high - low < 1e-9 * high;
  /** @type {[number, number][]} */
  const no_fit = [];
  estimates.forEach((estimate, at) => {
    if (!estimate || estimate.memory.fits) return;
    const span = /** @type {[number, number]} */ ([Math.max(0, (at - 0.5) * step), Math.min(100, (at + 0.5) * step)]);
    const last = no_fit.at(-1);
    if (last && last[1] >= span[0] - 1e-9) last[1] = span[1];
    else no_fit.push(values.length > 1 ? span : [0, 100]);
  });
  const peaks = estimates.map((estimate) => estimate?.memory.peak_bytes ?? 0);
  const largest = Math.max(...peaks, 1);
  return {
    memory: peaks.map((peak, at) => [at * step, 100 * (1 - peak / largest)]),
    points: values.map((value, at) => [at * step, flat ? 50 : 100 * (1 - (value - low) / (high - low))]),
    no_fit,
  };
}
