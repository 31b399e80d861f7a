/** The rows of a waterfall: causes from A to B in order, in words, what is small in one; all add to the difference. Pure. */
import { quantity } from "../format.js";
import { tokenOf, UNNAMED } from "./base.js";

/** @typedef {import("../types.js").Named} Named */
/** @typedef {import("../types.js").Cause} Cause */
/**
 * One bar. `cause`: its category and axis, which other figures show when it is selected; `first`: the first bar of its
 * cause, which names it.
 * @typedef {{cause: string, name: string, token: string, words: string, first: boolean, seconds: number, from_s: number,
 *   a_s: number | null, b_s: number | null, title: string}} WaterRow
 */

const MOST_ROWS = 9;
/** A cause below this share of the step joins the others. */
const LEAST_FRAC = 0.0005;
/** Others that make less of the step together have no bar that could be seen, and no number that could be read. */
const SEEN_FRAC = 1e-6;

/** More of it, or less; slower, or faster. @type {Record<string, [string, string]>} */
const WORDS = {
  "amount FLOP": ["more FLOPs", "fewer FLOPs"],
  "amount bytes": ["more bytes", "fewer bytes"],
  again: ["more recomputed", "less recomputed"],
  rate: ["slower kernels", "faster kernels"],
  "rate communication": ["more time per byte", "less time per byte"],
  "rate communication of other links": ["slower link", "faster link"],
  overlap: ["less overlap", "more overlap"],
  work: ["longer exchanges", "shorter exchanges"],
  bubble: ["more waiting for stages", "less waiting for stages"],
  host: ["longer waits", "shorter waits"],
  "optimizer to the host": ["through host memory", "through host memory"],
  "optimizer from the host": ["on the chip", "on the chip"],
  untold: ["not told apart", "not told apart"],
  "": ["slower", "faster"],
  "FLOP untold": ["slower, not all FLOPs recorded", "faster, not all FLOPs recorded"],
};

/** @param {Cause} cause @param {boolean} newLinks @param {string} moved  where the optimizer's state goes @returns {string} */
function wordsOf({ name, factor, unit, seconds, a_s, b_s, a_amount, b_amount }, newLinks, moved) {
  if (name === "other" && (a_s === 0) !== (b_s === 0)) return a_s === 0 ? "only in B" : "only in A";
  const untold = !factor && (a_amount === null) !== (b_amount === null);
  const both =
    (untold ? WORDS[`${unit} untold`] : null) ??
    (moved ? WORDS[`${name} ${moved} the host`] : null) ??
    WORDS[`${factor} ${unit}`] ??
    (newLinks ? WORDS[`${factor} ${name} of other links`] : null) ??
    WORDS[`${factor} ${name}`] ??
    (factor ? WORDS[factor] : null) ??
    WORDS[name] ??
    WORDS[""];
  return both[seconds < 0 ? 1 : 0];
}

/** The name of a cause that is selected. @param {{name: string, axis: string}} cause */
export const causeKey = ({ name, axis }) => (axis ? `${name} ${axis}` : name);

/**
 * Bars in order; what is small joins one bar at the end, so that all still add to the difference.
 * @param {{causes: Cause[], step_s: number, from_s: number, names: Named[], degrees: Record<string, string>,
 *   newLinks?: boolean, offloaded?: boolean[]}} input  `degrees`: what an axis of the plan changes from and to; `newLinks`: whether A and B run on
 *   other links; where they do not, an exchange takes longer for what it is (an all-reduce for an all-gather); `offloaded`:
 *   whether A, and B, keep the optimizer's state in host memory
 * @returns {WaterRow[]}
 */
export function waterRows({ causes, step_s, from_s, names, degrees, newLinks = false, offloaded = [false, false] }) {
  const state = offloaded[0] === offloaded[1] ? "" : offloaded[1] ? "to" : "from";
  const least = Math.max(
    LEAST_FRAC * step_s,
    [...causes].map(({ seconds }) => Math.abs(seconds)).sort((a, b) => b - a)[MOST_ROWS - 1] ?? 0,
  );
  const large = causes.filter(({ seconds }) => Math.abs(seconds) >= least).slice(0, MOST_ROWS);
  const rest_s = causes.filter((one) => !large.includes(one)).reduce((sum, { seconds }) => sum + seconds, 0);
  let now = from_s;
  let last = "";
  const rows = large.map((cause) => {
    const key = causeKey(cause);
    const found = names.find((one) => one.key === cause.name);
    const label = found?.label ?? (cause.name === "untold" ? "the rest" : cause.name.replaceAll("_", " "));
    const moved = degrees[cause.axis];
    const row = {
      cause: key,
      name: cause.axis ? `${label}, ${cause.axis}` : label,
      token: found ? tokenOf(found) : UNNAMED,
      words: [key !== last && moved, wordsOf(cause, newLinks, state)].filter(Boolean).join(", "),
      first: key !== last,
      seconds: cause.seconds,
      from_s: now,
      a_s: cause.a_s,
      b_s: cause.b_s,
      title: titleOf(cause, label),
    };
    now += cause.seconds;
    last = key;
    return row;
  });
  if (Math.abs(rest_s) > SEEN_FRAC * step_s)
    rows.push({
      cause: "",
      name: "other causes",
      token: UNNAMED,
      words: `${causes.length - large.length} small ones`,
      first: true,
      seconds: rest_s,
      from_s: now,
      a_s: null,
      b_s: null,
      title: "",
    });
  return rows;
}

/** Full precision. @param {Cause} cause @param {string} label */
function titleOf({ axis, seconds, a_s, b_s, a_amount, b_amount, unit }, label) {
  const amounts =
    a_amount !== null && b_amount !== null && unit
      ? `; ${quantity(a_amount, unit === "FLOP" ? "flops" : "bytes", 4)} → ${quantity(b_amount, unit === "FLOP" ? "flops" : "bytes", 4)}`
      : "";
  return `${label}${axis ? `, ${axis}` : ""}: ${quantity(seconds, "s", 6)} of ${quantity(a_s, "s", 6)} → ${quantity(b_s, "s", 6)}${amounts}`;
}
