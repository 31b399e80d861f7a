/** What changed with a field that a person moved, and why, in words. Pure. */
import { count, plural } from "./format.js";
import { chips, chipWord, differences, get } from "./scenario.js";

/** @typedef {import("./types.js").Scenario} Scenario */
/** @typedef {{path: string, from: any, to: any, why: string, called?: string}} CoupledChange */

/** What asks for another number of chips by itself. */
const NUMBER_OF_CHIPS = ["plan.dp", "cluster.chips", "cluster.nodes", "cluster.chips_per_node"];
/** dp stands for the number of chips beside these, in sight of who moves them. */
const SHARE_CHIPS = ["plan.dp", "plan.tp", "plan.cp", "plan.pp", "cluster.chips"];

/**
 * Fields that followed a change of `path`, without dp beside the chips; and the chips, where the degrees took others.
 * @param {Scenario} scenario @param {Scenario} before @param {string} path @returns {CoupledChange[]}
 */
export function coupledChanges(scenario, before, path) {
  const found = differences(scenario, before)
    .filter(({ path: one }) => one !== path && /^(plan|training)\./.test(one))
    .filter(({ path: one }) => !(one === "plan.dp" && SHARE_CHIPS.includes(path)))
    .map(({ path: one, a, b }) => ({ path: one, from: b, to: a, why: reason(one, scenario, path) }));
  const [from, to] = [chips(before), chips(scenario)];
  if (from === to || NUMBER_OF_CHIPS.includes(path)) return found;
  const why = `${count(from)} is no multiple of ${degrees(scenario)}`;
  const { chip } = scenario.cluster;
  const called = `${chipWord(typeof chip === "string" ? { name: chip } : chip)}s`;
  return [{ path: "cluster.chips", called, from, to, why }, ...found];
}

/** @param {Scenario} scenario */
const degrees = ({ plan }) =>
  ["tp", "cp", "pp"]
    .filter((one) => plan[one] > 1)
    .map((one) => `${one} ${plan[one]}`)
    .join(" × ");

/** @param {string} path */
const name = (path) => path.split(".")[1].replaceAll("_", " ");

/** @param {string} path @param {Scenario} scenario @param {string} cause */
function reason(path, scenario, cause) {
  const { plan, training } = scenario;
  if (path === "plan.micro_batch")
    return `it has to divide the ${plural(training.global_batch / plan.dp, "sequence")} of each rank`;
  if (path === "training.global_batch")
    return `it has to be a multiple of dp × micro-batch = ${count(plan.dp)} × ${count(plan.micro_batch)}`;
  return `it goes with ${name(cause)} ${get(scenario, cause)}`;
}

/** @param {CoupledChange} change */
export const changeText = ({ path, called, from, to, why }) => `${called ?? name(path)} ${from} → ${to}, as ${why}.`;

/** What followed, in one line for a place that does not show the fields. @param {CoupledChange[]} changes */
export const alsoChanged = (changes) => (changes.length ? `Also changed: ${changes.map(changeText).join(" ")}` : "");
