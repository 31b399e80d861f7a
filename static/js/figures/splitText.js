/** What the curves of the ways to split one block say, in words: who leads from where, and what changes places. Pure. */
import { count, short } from "../format.js";

/** @typedef {import("../types.js").Comparison} Comparison */
/** @typedef {{name: string, from: number, to: number}} Run  where one way leads */

const SHORTEST_RUN = 4; // points; below that products filling the chip in waves decide, not the way
const APART = 1.05;

/** @param {Comparison} comparison @param {string} name */
export const labelOf = ({ ways }, name) => ways.find((way) => way.name === name)?.label ?? name;

/**
 * Which way has least of a metric, from where to where; short turns between two are left out.
 * @param {Comparison} comparison @param {string} metric @returns {Run[]}
 */
function leaders({ x, curves, crossovers }, metric) {
  const names = x.map(
    (_, at) => curves.reduce((best, one) => (one[metric][at] < best[metric][at] * (1 - 1e-9) ? one : best)).name,
  );
  /** @type {Run[]} */
  const runs = [];
  names.forEach((name, at) => {
    const last = runs.at(-1);
    if (last?.name === name) last.to = at;
    else runs.push({ name, from: at, to: at });
  });
  /** @type {Run[]} */
  const kept = [];
  for (const run of runs) {
    const last = kept.at(-1);
    if (last && (last.name === run.name || (run.to - run.from < SHORTEST_RUN && run.to < x.length - 1)))
      last.to = run.to;
    else kept.push({ ...run });
  }
  // where two ways were found to change places for good is more exact than the point at which that shows
  const exact = (/** @type {string | undefined} */ before, /** @type {string} */ then, /** @type {number} */ at) =>
    crossovers.find((one) => one.metric === metric && one.before === before && one.then === then)?.at ?? at;
  return kept.map(({ name, from, to }, at) => ({ name, from: exact(kept[at - 1]?.name, name, x[from]), to: x[to] }));
}

const WORDS = /** @type {Record<string, [string, string]>} */ ({
  block_s: ["fastest", "is faster than"],
  communication_bytes: ["least volume", "moves less than"],
  communication_s: ["shortest sends", "sends for less time than"],
  activations_bytes: ["fewest activations", "keeps less than"],
});

/**
 * What the curves say, in sentences: who leads where, and every point at which two change places.
 * @param {Comparison} comparison @param {string} metric @returns {string[]}
 */
export function sentences(comparison, metric) {
  const { crossovers, curves, axis } = comparison;
  const unit = axis === "sequence length" ? "tokens a sequence" : "tokens";
  const [best, beats] = WORDS[metric];
  const found = [];
  if (curves.length > 1) {
    const runs = leaders(comparison, metric);
    const parts = runs.map(({ name, from }, at) => {
      const end = runs[at + 1]
        ? ` below ${short(runs[at + 1].from)}`
        : runs.length > 1
          ? ` from ${short(from)}`
          : " everywhere";
      return labelOf(comparison, name) + (at && runs[at + 1] ? `${end}` : end);
    });
    found.push(
      `${best[0].toUpperCase()}${best.slice(1)}: ${parts.join(", then ")}${runs.length > 1 ? ` ${unit}` : ""}.`,
    );
  }
  const own = crossovers.filter(({ metric: its }) => its === metric).sort((a, b) => a.at - b.at);
  for (const one of own) {
    const pair = `${labelOf(comparison, one.then)} ${beats} ${labelOf(comparison, one.before)}`;
    const turns = one.at / one.first > APART ? ` (they take turns from ${short(one.first)})` : "";
    found.push(`From ${short(one.at)} ${unit} on ${pair}${turns}.`);
  }
  if (metric === "communication_bytes")
    for (const one of crossovers.filter(({ metric: its }) => its === "linears")) {
      const pair = `${labelOf(comparison, one.then)} moves less than ${labelOf(comparison, one.before)}`;
      found.push(
        one.at === null
          ? `By the linears alone ${pair} nowhere.`
          : `By the linears alone, in closed form: ${pair} from ${count(one.at)} ${unit}.`,
      );
    }
  return found;
}
