/** What would make the step faster: of each field the best value that keeps chips and work, as estimated. Pure. */
import { get, same } from "./scenario.js";

/** @typedef {import("./types.js").Scenario} Scenario */
/** @typedef {{field: string, value: any, gain_frac: number, step_time_s: number}} Remedy */

/** Fields whose values change how fast the same work is on the same chips. */
export const REMEDY_FIELDS = [
  "plan.tp",
  "plan.cp",
  "plan.pp",
  "plan.virtual_stages",
  "plan.ep",
  "plan.micro_batch",
  "plan.sharding",
  "plan.recompute",
  "plan.schedule",
  "plan.sequence_parallel",
  "training.precision",
  "training.attention",
  "training.framework",
];
/** Changes less than this are no remedy. */
const LEAST_FRAC = 0.02;

/** Values of fields that not everything may be changed to: other numerics, other software. @type {Record<string, Record<string, string[]>>} */
const ALLOWED = {
  "training.precision": { fp32: ["tf32", "fp16-amp", "bf16-amp"], tf32: ["fp16-amp", "bf16-amp"] },
  "training.framework": { "pytorch-eager": ["pytorch-compile"] },
};

/** Whether a scenario does the same work on as many chips. @param {Scenario} a @param {Scenario} b */
const sameWork = (a, b) =>
  ["cluster.chips", "training.seq_len", "training.global_batch"].every((path) => same(get(a, path), get(b, path)));

/**
 * @param {{scenario: Scenario, step_time_s: number,
 *   axes: {field: string, points: import("./types.js").Point[]}[]}} input  axes of this scenario
 * @returns {Remedy[]} best first
 */
export function remedies({ scenario, step_time_s, axes }) {
  return axes
    .flatMap(({ field, points }) => {
      const now = get(scenario, field);
      const allowed = ALLOWED[field] && (ALLOWED[field][now] ?? []);
      const found = points
        .filter(({ value, estimate }) => estimate?.memory.fits && !same(value, now))
        .filter(({ value }) => !allowed || allowed.includes(value))
        .filter((point) => sameWork(point.scenario, scenario))
        .map(({ value, estimate }) => ({ field, value, step_time_s: estimate?.step_time_s ?? Infinity }))
        .sort((a, b) => a.step_time_s - b.step_time_s);
      return found.slice(0, 1);
    })
    .map((one) => ({ ...one, gain_frac: 1 - one.step_time_s / step_time_s }))
    .filter(({ gain_frac }) => gain_frac >= LEAST_FRAC)
    .sort((a, b) => b.gain_frac - a.gain_frac);
}
