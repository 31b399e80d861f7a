/**
 * Fields of a plan that are impossible without one another, and how they move together: the rules of
 * estimator/search/coupled_fields.py, for the moment before an axis is there. Pure.
 */

/** @typedef {import("./types.js").Part} Part */

/**
 * What changes with a field of the plan, by field.
 * @param {Part} plan @param {string} name @param {any} value @returns {Part}
 */
export function following(plan, name, value) {
  if (plan[name] === value) return {};
  return Object.fromEntries(Object.entries(coupled(plan, name, value)).filter(([one, its]) => plan[one] !== its));
}

/**
 * Fields that a field of the plan goes with, with their values, changed or not.
 * @param {Part} plan @param {string} name @param {any} value @returns {Part}
 */
function coupled(plan, name, value) {
  if (name === "schedule") return { virtual_stages: value === "interleaved" ? Math.max(plan.virtual_stages, 2) : 1 };
  if (name === "virtual_stages") {
    const unchunked = plan.schedule === "interleaved" ? "1f1b" : plan.schedule;
    return { schedule: value > (plan.schedule === "zero-bubble-v" ? 2 : 1) ? "interleaved" : unchunked };
  }
  if (name === "tp_kind")
    return { tp_depth: depth(plan, value, plan.tp), ...(value !== "1d" && { sequence_parallel: false }) };
  if (name === "tp") return { tp_depth: depth(plan, plan.tp_kind, value) };
  if (name === "recompute" && value !== "full") return { recompute_every: 1 };
  if (name === "recompute_every" && value > 1) return { recompute: "full" };
  return {};
}

/**
 * The one field of the batch that changes, by its path, so that the batch divides over dp.
 * @param {Part} plan @param {Part} training @returns {[path: string, value: number][]}
 */
export function batchFollowing({ dp, micro_batch }, { global_batch }) {
  const each = global_batch / dp;
  if (!Number.isInteger(each)) {
    const every = dp * micro_batch;
    return [["training.global_batch", Math.ceil(global_batch / every) * every]];
  }
  let fits = Math.min(micro_batch, each);
  while (each % fits) fits -= 1;
  return fits === micro_batch ? [] : [["plan.micro_batch", fits]];
}

/** Depth that makes a grid: 1 but in 2.5D. @param {Part} plan @param {string} kind @param {number} tp */
function depth(plan, kind, tp) {
  if (kind !== "2.5d") return 1;
  /** @type {number[]} */
  const fits = [];
  for (let at = 1; at <= tp; at += 1) if (tp % at === 0 && Number.isInteger(Math.sqrt(tp / at))) fits.push(at);
  if (plan.tp_kind === "2.5d" && fits.includes(plan.tp_depth)) return plan.tp_depth;
  return fits.find((at) => at > 1 && at < tp) ?? fits[0] ?? plan.tp_depth;
}
