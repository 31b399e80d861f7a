/** Which fields of the plan say something beside the others: what has no use has no control and no axis. Pure. */
import { get, modelOf, same } from "./scenario.js";

/** @typedef {import("./types.js").Part} Part */

const experts = (/** @type {Part} */ _, /** @type {Part} */ model) => model.experts > 0;
const stages = (/** @type {Part} */ { pp }) => pp > 1;

/** @type {Record<string, (plan: Part, model: Part, training: Part) => boolean>} */
const USES = {
  "plan.virtual_stages": stages,
  "plan.schedule": stages,
  "plan.pp_overlap": stages,
  "plan.ep": experts,
  "plan.expert_tp": experts,
  "training.experts": experts,
  "plan.ep_overlap": ({ ep }, model) => ep > 1 && model.experts > 0,
  "plan.ep_dispatch": ({ ep }, model) => ep > 1 && model.experts > 0,
  "plan.tp_depth": ({ tp_kind }) => tp_kind === "2.5d",
  "plan.tp_overlap": ({ tp, sequence_parallel }) => tp > 1 && sequence_parallel,
  "training.optimizer_kernel": (_, __, { optimizer, framework }) =>
    ["adamw", "sgd"].includes(optimizer) &&
    /^(pytorch-(eager|compile)|torchtitan|trainer$|transformers)/.test(framework),
  "plan.bucket_bytes": ({ sharding, ddp_mode }) => sharding === "ddp" && ddp_mode === "bucketed",
};

/**
 * Whether a field says anything in a scenario; one that is not at its usual value does, as it may be what is wrong.
 * @param {string} field @param {import("./types.js").Scenario} scenario @param {import("./types.js").Catalog} catalog
 */
export function hasUse(field, scenario, catalog) {
  const use = USES[field];
  if (!use || use(scenario.plan, modelOf(scenario, catalog), scenario.training)) return true;
  return !same(get(scenario, field), catalog.fields[field]?.default);
}
