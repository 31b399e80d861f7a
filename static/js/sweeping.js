/** What a search asks the server: scenarios without a plan, the objective, limits, locked fields and cells. Pure. */
import { chipCounts } from "./answers.js";
import { clusterChips, resized } from "./scenario.js";

/** What the axes of cells can be: the number of chips, and fields of a plan. */
export const CELL_AXES = [
  "chips",
  "tp",
  "pp",
  "dp",
  "cp",
  "ep",
  "micro_batch",
  "sharding",
  "recompute",
  "schedule",
  "sequence_parallel",
  "tp_kind",
  "placement",
];

/**
 * Cells of all searches by the values of both axes, the number of chips among them, the best of each.
 * @param {{spec: any, answer: import("./types.js").Sweep}[]} found @param {string[]} cells @param {string} objective
 */
export function cellsOf(found, cells, objective) {
  /** @type {Map<string, {values: any[], found: import("./types.js").Found}>} */
  const best = new Map();
  const key = (/** @type {import("./types.js").Found} */ one) =>
    objective === "memory"
      ? one.peak_bytes
      : objective === "cost"
        ? one.cost_chip_s / (one.step_time_s * one.tokens_per_s)
        : 1 / one.tokens_per_s;
  for (const { spec, answer } of found) {
    const chips = clusterChips(spec.cluster);
    for (const cell of answer.grid) {
      const own = new Map(
        spec.grid.map((/** @type {string} */ name, /** @type {number} */ at) => [name, cell.values[at]]),
      );
      const values = cells.map((name) => (name === "chips" ? chips : own.get(name)));
      const before = best.get(values.join());
      if (!before || key(cell.found) < key(before.found)) best.set(values.join(), { values, found: cell.found });
    }
  }
  return [...best.values()];
}

/**
 * @param {import("./types.js").Scenario} scenario @param {import("./url.js").Wanted} wanted
 * @param {import("./types.js").Catalog["fields"]} fields
 */
export function specification({ model, cluster, training }, { objective, memory_gb, slowest_s, locked }, fields) {
  const limits = {
    ...(memory_gb && { memory_bytes: memory_gb * 1e9 }),
    ...(slowest_s && { max_step_time_s: slowest_s }),
  };
  const values = Object.entries(locked).map(([name, value]) => [name, typed(value, fields[`plan.${name}`]?.type)]);
  return { model, cluster, training, objective, limits, locked: Object.fromEntries(values) };
}

/**
 * A specification for each number of chips, the most first. The cheapest plan may be one of fewer chips: where nobody
 * said how few, down to one.
 * @param {import("./types.js").Scenario} scenario @param {import("./url.js").Wanted} wanted
 * @param {import("./types.js").Catalog["fields"]} fields @param {number} node  chips in a usual node
 */
export function specifications(scenario, wanted, fields, node) {
  const { chips_per_node } = scenario.cluster;
  const grid = wanted.cells.filter((name) => name !== "chips");
  const most = wanted.most_chips || clusterChips(scenario.cluster);
  const least = wanted.least_chips || (wanted.objective === "cost" ? 1 : 0);
  return chipCounts(least, most, Math.max(node, chips_per_node)).map((chips) => {
    const cluster = resized(scenario.cluster, chips, Math.max(node, chips_per_node));
    return { ...specification({ ...scenario, cluster }, wanted, fields), grid };
  });
}

/**
 * The value of a locked field as the server wants it; what is no number is left for the server to refuse.
 * @param {string} value @param {string | undefined} type
 */
function typed(value, type) {
  if (type === "boolean") return value === "true";
  return type === "integer" && Number.isFinite(Number(value)) ? Number(value) : value;
}
