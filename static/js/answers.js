/**
 * What a search over a range of chip counts answers: plans in time, price, GPU-hours and memory of a run, those that
 * cannot be told apart in one group, the best, and what would be needed where nothing is quick enough. Pure.
 */
import { percent } from "./format.js";
import { canonical } from "./scenario.js";

/** @typedef {import("./types.js").Found} Found */
/**
 * A plan with its figures of the whole run, or without `run_tokens` of a step (time) and 10⁶ tokens (price, hours).
 * `range_s`: the interval of `time_s`. `late`: it takes longer than allowed.
 * @typedef {{found: Found, chips: number, time_s: number, range_s: [number, number], price_usd: number | null,
 *   chip_hours: number, peak_bytes: number, late: boolean}} Answer
 * @typedef {{run_tokens: number, usd_per_hour: number, days: number}} Asked
 */

const DAY_S = 86400;
const MOST_COUNTS = 8;

/**
 * Numbers of chips to try, the most first: halves and three quarters of the most in whole nodes, within a node halves;
 * of more than eight the halves first, so that a wide range is tried down to few. None where the least is above the most.
 * @param {number} least @param {number} most @param {number} node  chips in a usual node @returns {number[]}
 */
export function chipCounts(least, most, node) {
  if (least > most) return [];
  if (!least) return [most];
  const halves = [];
  for (let half = most; half >= least; half /= 2) halves.push(half);
  const whole = (/** @type {number} */ one) => (one <= node ? Number.isInteger(Math.log2(one)) : one % node === 0);
  const found = [...halves, ...halves.map((half) => (half * 3) / 4)].filter((one) => one >= least && whole(one));
  return [...new Set([most, ...found])].slice(0, MOST_COUNTS).sort((a, b) => b - a);
}

/** @param {Found} found @param {Asked} asked @returns {Answer} */
export function answerOf(found, { run_tokens, usd_per_hour, days }) {
  const chips = Math.round(found.cost_chip_s / found.step_time_s);
  const steps = run_tokens ? run_tokens / (found.tokens_per_s * found.step_time_s) : 1;
  const time_s = found.step_time_s * steps;
  const tokens = run_tokens || 1e6;
  const chip_hours = (chips * tokens) / found.tokens_per_s / 3600;
  const [low, high] = found.interval_s.map((end) => end * steps);
  return {
    found,
    chips,
    time_s,
    range_s: [low, high],
    price_usd: usd_per_hour ? chip_hours * usd_per_hour : null,
    chip_hours,
    peak_bytes: found.peak_bytes,
    late: Boolean(days && run_tokens && time_s > days * DAY_S),
  };
}

/** What plans are ordered by, less first. @param {Answer} one @param {string} objective */
export const keyOf = (one, objective) =>
  objective === "memory" ? one.peak_bytes : objective === "cost" ? one.chip_hours : one.time_s;

/**
 * Plans of all searches, each once, the best first; those that take too long come after all that do not, and where all
 * do, the quickest comes first.
 * @param {Found[]} all @param {Asked} asked @param {string} objective
 */
export function answers(all, asked, objective) {
  const each = new Map(all.map((found) => [canonical(found.scenario), found]));
  const found = [...each.values()].map((one) => answerOf(one, asked));
  const by = found.every(({ late }) => late) ? "step_time" : objective;
  return found.sort((a, b) => Number(a.late) - Number(b.late) || keyOf(a, by) - keyOf(b, by));
}

/** By how much memory of plans that count as alike differs. */
const ALIKE_FRAC = 0.01;

/**
 * Groups of plans that cannot be told apart: any whose interval overlaps that of the surest, whose own ends soonest.
 * @param {Answer[]} sorted  as `answers` gives them @param {string} objective
 * @returns {{surest: Answer, plans: Answer[]}[]}
 */
export function groups(sorted, objective) {
  /** @param {Answer} one @returns {[number, number]} */
  const range = (one) => {
    if (objective === "memory") return [one.peak_bytes, one.peak_bytes * (1 + ALIKE_FRAC)];
    const per = keyOf(one, objective) / one.time_s;
    return [one.range_s[0] * per, one.range_s[1] * per];
  };
  const found = [];
  for (let rest = sorted; rest.length;) {
    const { late } = rest[0];
    const some = rest.filter((one) => one.late === late);
    const surest = some.reduce((best, one) => (range(one)[1] < range(best)[1] ? one : best));
    const plans = some.filter((one) => range(one)[0] <= range(surest)[1]);
    found.push({ surest, plans });
    rest = rest.filter((one) => !plans.includes(one));
  }
  return found;
}

/**
 * About how many chips would be quick enough, were each as busy: a double or half as many again of those there are;
 * 0 where the quickest plan is.
 * @param {Answer[]} sorted @param {Asked} asked
 */
export function chipsNeeded(sorted, { days }) {
  const quickest = quickestOf(sorted);
  if (!quickest?.late) return 0;
  const times = quickest.time_s / (days * DAY_S);
  const doubled = 2 ** Math.ceil(Math.log2(times));
  return quickest.chips * (0.75 * doubled >= times && doubled > 2 ? 0.75 * doubled : doubled);
}

/**
 * Whether an answer that is quick enough may still take longer than allowed: its interval ends beyond that.
 * @param {Answer} one @param {Asked} asked
 */
export const mayBeLate = ({ late, range_s }, { days, run_tokens }) =>
  Boolean(!late && days && run_tokens && range_s[1] > days * DAY_S);

/** The best plan whose whole interval is within the days that are allowed. @param {Answer[]} sorted @param {Asked} asked */
export const surelyWithin = (sorted, asked) => sorted.find((one) => !one.late && !mayBeLate(one, asked)) ?? null;

/**
 * How far a search over several numbers of chips is: what the numbers before took, and the present one so far.
 * @param {{plans_tried: number, plans_fitting: number, seconds: number}[]} before
 * @param {{tried: number, fitting: number, seconds: number}} now
 */
export function soFar(before, now) {
  const sum = (/** @type {"plans_tried" | "plans_fitting" | "seconds"} */ key) =>
    before.reduce((total, one) => total + one[key], 0);
  return {
    tried: sum("plans_tried") + now.tried,
    fitting: sum("plans_fitting") + now.fitting,
    seconds: sum("seconds") + now.seconds,
  };
}

/** @param {Answer[]} some */
export const quickestOf = (some) => some.reduce((best, one) => (one.time_s < best.time_s ? one : best), some[0]);

/** The risk that a plan which fits runs out of memory, where it is worth a word; "" else. @param {Pick<Found, "out_of_memory_frac">} found */
export const riskWords = ({ out_of_memory_frac }) =>
  out_of_memory_frac && out_of_memory_frac >= 0.05 ? `OOM risk ${percent(out_of_memory_frac, 2)}` : "";
