/** A scenario as a file or a pasted text: what *Copy JSON* gives, what the command line reads, or what a search asks. Pure. */

import { clusterChips, completeCluster } from "./scenario.js";

/** Keys of a scenario, the ones that it cannot do without first; then those of a search. */
const NEEDED = ["model", "cluster", "training"];
const OF_SEARCH = ["limits", "objective", "locked", "search", "grid"];
const KEYS = [...NEEDED, "plan", ...OF_SEARCH];

const isObject = (/** @type {any} */ value) => typeof value === "object" && value !== null && !Array.isArray(value);
const isNamed = (/** @type {any} */ value) => typeof value === "string" || isObject(value);

/**
 * @typedef {{scenario: any, search: Partial<import("./url.js").Wanted> | null}} ScenarioFound  `search`: what is looked for,
 *   where it is a search that is asked for
 */

/**
 * The scenario in a text, null where it is anything else. Without a plan, all chips are data parallel.
 * @param {string} text @param {import("./types.js").Catalog} catalog @returns {ScenarioFound | null}
 */
export function scenarioIn(text, catalog) {
  if (!text.trimStart().startsWith("{")) return null;
  /** @type {any} */
  let found;
  try {
    found = JSON.parse(text);
  } catch {
    return null;
  }
  const names = Object.keys(found);
  if (!NEEDED.every((name) => name in found) || !names.every((name) => KEYS.includes(name))) return null;
  const cluster = typeof found.cluster === "string" ? { chip: found.cluster } : found.cluster;
  const good = isNamed(found.model) && isObject(cluster) && isNamed(cluster.chip) && isObject(found.training);
  if (!good || !isObject(found.plan ?? {})) return null;
  const { model, training } = found;
  const plan = found.plan ?? { dp: clusterChips(completeCluster(cluster, catalog)) };
  const scenario = { model, cluster, plan, training };
  return { scenario, search: OF_SEARCH.some((name) => name in found) ? wantedOf(found) : null };
}

/** @param {any} found @returns {Partial<import("./url.js").Wanted>} */
function wantedOf({ limits, objective, locked }) {
  const { memory_bytes, max_step_time_s } = isObject(limits) ? limits : {};
  return {
    ...(typeof objective === "string" && { objective }),
    memory_gb: typeof memory_bytes === "number" ? memory_bytes / 1e9 : 0,
    slowest_s: typeof max_step_time_s === "number" ? max_step_time_s : 0,
    locked: Object.fromEntries(
      Object.entries(isObject(locked) ? locked : {}).map(([name, its]) => [name, String(its)]),
    ),
  };
}
