/** Laying a plan anew: on another number of chips, or beside a batch that is kept; as little as possible changes. Pure. */
import { following } from "./coupledFields.js";

/** @typedef {import("./types.js").Part} Part */

/** @param {number} a @param {number} b @returns {number} */
const common = (a, b) => (b ? common(b, a % b) : a);

/**
 * What of a plan changes so that its degrees multiply to `chips`: dp takes what the others leave, and a degree that does
 * not divide them shrinks, with what belongs to it.
 * @param {Part} plan @param {number} chips @returns {Part}
 */
export function relayout(plan, chips) {
  /** @type {Part} */
  const next = {};
  let rest = chips;
  for (const name of ["tp", "cp", "pp"]) {
    next[name] = common(plan[name] ?? 1, rest);
    rest /= next[name];
  }
  next.dp = rest;
  const { ep = 1, expert_tp = 1, shard_ranks = 0, virtual_stages = 1 } = plan;
  if (next.tp !== plan.tp && plan.tp_kind && plan.tp_kind !== "1d") Object.assign(next, { tp_kind: "1d", tp_depth: 1 });
  if (next.pp === 1 && virtual_stages > 1)
    Object.assign(next, { virtual_stages: 1, ...following(plan, "virtual_stages", 1) });
  const [data, ranks] = [next.dp * next.cp, next.dp * next.cp * next.tp];
  if (ranks % (ep * expert_tp)) Object.assign(next, { ep: common(ep, ranks), expert_tp: 1 });
  if (shard_ranks && data % shard_ranks) next.shard_ranks = 0;
  return next;
}
