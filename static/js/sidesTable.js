/** A and B as one table with full precision: figures, where the time goes, and the settings in which they differ. Pure. */
import { differences } from "./scenario.js";
import { priceOf } from "./sides.js";

/** @typedef {import("./sides.js").Side} Side */

/** @type {[title: string, unit: string, of: (side: Side) => any][]} */
const FIGURES = [
  ["step time", "s", ({ step_s }) => step_s],
  ["step time, from", "s", ({ range_s }) => range_s?.[0]],
  ["step time, to", "s", ({ range_s }) => range_s?.[1]],
  ["tokens of a step", "", ({ tokens }) => tokens],
  ["tokens/s", "", ({ tokens, step_s }) => (tokens && step_s ? tokens / step_s : null)],
  ["chips", "", ({ chips }) => chips],
  ["MFU", "frac", ({ mfu }) => mfu],
  ["peak memory", "bytes", ({ peak_bytes }) => peak_bytes],
  ["memory of a chip", "bytes", ({ capacity_bytes }) => capacity_bytes],
  ["risk of out of memory", "frac", ({ risk_frac }) => risk_frac],
];

/**
 * @param {import("./sides.js").Pair} pair @param {{usd: number[], causes: import("./types.js").Cause[],
 *   categories: import("./types.js").Named[]}} beside  `usd`: what an hour of each side's chip costs; `causes`: of the
 *   difference, as far as they are known
 * @returns {import("./types.js").Table}
 */
export function sidesTable({ a, b }, { usd, causes, categories }) {
  const sides = [a, b];
  const both = (/** @type {(side: Side, at: number) => any} */ of) =>
    sides.map((side, at) => (side ? (of(side, at) ?? null) : null));
  const row = (/** @type {string} */ title, /** @type {string} */ unit, /** @type {any[]} */ [x, y]) => {
    const numbers = typeof x === "number" && typeof y === "number";
    return x === null && y === null ? [] : [[title, unit, x, y, numbers ? y - x : null]];
  };
  const plain = (/** @type {any} */ value) => (value && typeof value === "object" ? JSON.stringify(value) : value);
  const moved = a?.scenario && b?.scenario ? differences(a.scenario, b.scenario) : [];
  return {
    columns: [
      { title: "what", text: true },
      { title: "unit", text: true },
      { title: "A" },
      { title: "B" },
      { title: "B − A" },
    ],
    rows: [
      ...row(
        "name",
        "",
        both(({ name, extra }) => [name, extra].filter(Boolean).join(" ")),
      ),
      ...row(
        "kind",
        "",
        both(({ kind }) => kind),
      ),
      ...FIGURES.flatMap(([title, unit, of]) => row(title, unit, both(of))),
      ...row(
        "price of a million tokens",
        "USD",
        both((side, at) => priceOf(side, usd[at])?.million_usd),
      ),
      ...categories.flatMap(({ key, label }) =>
        row(
          `step: ${label}`,
          "s",
          both(({ breakdown_s }) => breakdown_s?.[key]),
        ),
      ),
      ...causes.map(({ name, axis, factor, a_s, b_s, seconds }) => [
        `cause: ${[name, axis, factor].filter(Boolean).join(", ")}`,
        "s",
        a_s,
        b_s,
        seconds,
      ]),
      ...moved.map(({ path, a: x, b: y }) => [`setting: ${path}`, "", plain(x) ?? null, plain(y) ?? null, null]),
    ],
  };
}
