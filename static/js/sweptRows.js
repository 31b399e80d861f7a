/** The points of a sweep as rows: what each value takes, or why it cannot be; and as a table with full precision. Pure. */
import { bytes, count, saidTogether } from "./format.js";
import { timesWords } from "./hardware.js";
import { chips, differences, same } from "./scenario.js";
import { labelsOf, word, wordOf } from "./words.js";

/** @typedef {import("./types.js").Point} Point */
/** @typedef {import("./types.js").Scenario} Scenario */
/**
 * `words`: the value as it is said; `follows`: what else changes with it; `why`: what keeps it from running, "" where
 * nothing does; `now`: the value of the present plan.
 * @typedef {{value: any, words: string, follows: string, now: boolean, scenario: Scenario, fits: boolean, why: string,
 *   step_s: number | null, tokens_per_s: number | null, each_tokens_per_s: number | null, mfu: number | null,
 *   peak_bytes: number | null, reserved_bytes: number | null, capacity_bytes: number | null}} Swept
 */

/** Axes that everybody calls by two letters. */
const SHORT = ["dp", "tp", "cp", "pp", "ep"];

/** @param {string} path @param {any} value @param {import("./types.js").Catalog} catalog */
function valueWords(path, value, { fields }) {
  if (path.startsWith("hardware.")) return timesWords(value);
  if (typeof value === "boolean") return value ? "on" : "off";
  if (typeof value === "number") return path.endsWith("_bytes") ? bytes(value) : count(value);
  return word(String(value), labelsOf(path.split(".")[1], fields));
}

/** @param {string} path @param {Scenario} its @param {Scenario} now @param {import("./types.js").Catalog} catalog */
function followWords(path, its, now, { fields }) {
  const moved = differences(its, now).filter(({ path: one }) => one !== path && /^(plan|training)\./.test(one));
  const words = moved.map(({ path: one, a }) => {
    const name = one.split(".")[1];
    return SHORT.includes(name) ? `${name} ${a}` : wordOf(name, a, fields);
  });
  const [from, to] = [chips(now), chips(its)];
  return [...(from === to ? [] : [`${count(to)} chips`]), ...words].join(", ");
}

/**
 * @param {Point[]} points @param {{path: string, value: any, scenario: Scenario,
 *   catalog: import("./types.js").Catalog}} now  the field, its present value and the plan that has it
 * @returns {Swept[]}
 */
export function sweptRows(points, { path, value: present, scenario, catalog }) {
  return points.map(({ value, scenario: its, estimate, problems }) => {
    const memory = estimate?.memory ?? null;
    const over = memory && !memory.fits;
    return {
      value,
      words: valueWords(path, value, catalog),
      follows: estimate ? followWords(path, its, scenario, catalog) : "",
      now: same(value, present),
      scenario: its,
      fits: Boolean(memory?.fits),
      why: over
        ? `does not fit: needs ${bytes(memory.reserved_bytes)} of ${bytes(memory.capacity_bytes)}`
        : saidTogether(problems),
      step_s: estimate?.step_time_s ?? null,
      tokens_per_s: estimate?.tokens_per_s ?? null,
      each_tokens_per_s: estimate?.tokens_per_s_per_chip ?? null,
      mfu: estimate?.mfu ?? null,
      peak_bytes: memory?.peak_bytes ?? null,
      reserved_bytes: memory?.reserved_bytes ?? null,
      capacity_bytes: memory?.capacity_bytes ?? null,
    };
  });
}

/** @param {Swept[]} rows @param {string} label  of the field @returns {import("./types.js").Table} */
export const sweptTable = (rows, label) => ({
  columns: [
    { title: label },
    { title: "step time", unit: "s" },
    { title: "tokens/s" },
    { title: "tokens/s per chip" },
    { title: "MFU", unit: "frac" },
    { title: "peak memory", unit: "bytes" },
    { title: "reserved memory", unit: "bytes" },
    { title: "fits", text: true },
    { title: "changes with it", text: true },
    { title: "why not", text: true },
    { title: "now", text: true },
  ],
  rows: rows.map((row) => [
    row.value,
    row.step_s,
    row.tokens_per_s,
    row.each_tokens_per_s,
    row.mfu,
    row.peak_bytes,
    row.reserved_bytes,
    row.step_s === null ? "" : row.fits ? "yes" : "no",
    row.follows,
    row.why,
    row.now ? "now" : "",
  ]),
});
