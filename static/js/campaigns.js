/** Campaigns: one job over a grid of values, run after run; how far they are, and what is left. Pure. */
import { isFinal } from "./api.js";
import { get } from "./scenario.js";

/** @typedef {import("./types.js").Run} Run */
/** @typedef {{path: string, values: (number | string | boolean)[]}} Varied */
/** @typedef {{name: string, runs: Run[], done: number, left_s: number | null}} Campaign */

const MOST_RUNS = 64;
const SEPARATOR = ": ";

/** @param {string} text */
const valueOf = (text) =>
  text === "true" || text === "false"
    ? text === "true"
    : text !== "" && Number.isFinite(Number(text))
      ? Number(text)
      : text;

/**
 * Fields of a scenario or a job with their values, one a line, as in "micro_batch 1, 2, 4".
 * @param {string} text @param {Record<string, any>} job @returns {{grid: Varied[], wrong: string}}
 */
export function gridIn(text, job) {
  /** @type {Varied[]} */
  const grid = [];
  for (const line of text
    .split(/[\n;]/)
    .map((one) => one.trim())
    .filter(Boolean)) {
    const [, name = "", rest = ""] = /^([\w.]+)\s*[:= ]\s*(.+)$/.exec(line) ?? [];
    const values = rest
      .split(/[,\s]+/)
      .filter(Boolean)
      .map(valueOf);
    const path = ["", "plan.", "training.", "cluster."]
      .map((part) => `${part}${name}`)
      .map((one) => (one.includes(".") ? `scenario.${one}` : one))
      .find((one) => get(job, one) !== undefined);
    if (!path || !values.length) return { grid: [], wrong: `${line}: no field of this run, as in micro_batch 1, 2, 4` };
    grid.push({ path, values });
  }
  const runs = grid.reduce((product, { values }) => product * values.length, 1);
  return runs > MOST_RUNS ? { grid: [], wrong: `${runs} runs are more than ${MOST_RUNS}` } : { grid, wrong: "" };
}

/** @param {any} value @param {string[]} path @param {any} its @returns {any} */
const withAt = (value, [key, ...rest], its) => ({ ...value, [key]: rest.length ? withAt(value[key], rest, its) : its });

/**
 * A job for each point of the grid, named after the campaign and its values.
 * @param {Record<string, any>} job @param {Varied[]} grid @param {string} name @returns {Record<string, any>[]}
 */
export function jobsOf(job, grid, name) {
  /** @type {{job: Record<string, any>, words: string[]}[]} */
  let all = [{ job, words: [] }];
  for (const { path, values } of grid)
    all = all.flatMap((one) =>
      values.map((value) => ({
        job: withAt(one.job, path.split("."), value),
        words: [...one.words, `${path.split(".").pop()} ${value}`],
      })),
    );
  return all.map(({ job: one, words }) => ({ ...one, label: `${name}${SEPARATOR}${words.join(", ")}` }));
}

/** What of a run's label names its point. @param {Run} run @param {string} campaign */
export const pointOf = ({ label }, campaign) => label.slice(campaign.length + SEPARATOR.length);

/**
 * Campaigns among runs: several whose labels begin alike. Time left: what its finished runs took on average, for those
 * that are not.
 * @param {Run[]} runs  newest first @returns {Campaign[]}
 */
export function campaignsOf(runs) {
  /** @type {Map<string, Run[]>} */
  const found = new Map();
  for (const run of runs) {
    const at = run.label.indexOf(SEPARATOR);
    if (at > 0) found.set(run.label.slice(0, at), [run, ...(found.get(run.label.slice(0, at)) ?? [])]);
  }
  return [...found]
    .filter(([, some]) => some.length > 1)
    .map(([name, some]) => {
      const done = some.filter(({ state }) => isFinal(state));
      const spent = done.flatMap(({ started_s, finished_s }) =>
        started_s !== null && finished_s !== null ? [finished_s - started_s] : [],
      );
      const mean = spent.length ? spent.reduce((sum, one) => sum + one, 0) / spent.length : null;
      const left = some.length - done.length;
      return { name, runs: some, done: done.length, left_s: left ? mean && mean * left : 0 };
    });
}
