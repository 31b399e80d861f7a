/** What a search asks the server: the scenario without its plan, the objective, limits and locked fields. Pure. */

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
 * The value of a locked field as the server wants it; what is no number is left for the server to refuse.
 * @param {string} value @param {string | undefined} type
 */
function typed(value, type) {
  if (type === "boolean") return value === "true";
  return type === "integer" && Number.isFinite(Number(value)) ? Number(value) : value;
}
