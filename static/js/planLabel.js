/** A plan in a few words: degrees first, then what is not the usual; and what of its training is no plan's. Pure. */
import { labelsOf, word, wordOf } from "./words.js";

const DEGREES = ["dp", "tp", "cp", "pp", "ep"];
/** Fields that are said by another's word. */
const SILENT = [...DEGREES, "virtual_stages", "tp_depth", "placement"];

/**
 * How a field is said where it is not the usual.
 * @type {Record<string, (plan: import("./types.js").Part) => string>}
 */
const SAID = {
  tp_kind: ({ tp_kind, tp_depth }) =>
    `${tp_kind.toUpperCase()} tensor${tp_kind === "2.5d" && tp_depth > 1 ? `, depth ${tp_depth}` : ""}`,
  sequence_parallel: () => "SP",
  cp_kind: ({ cp_kind }) => `cp by ${cp_kind}`,
  schedule: ({ schedule, virtual_stages }) =>
    virtual_stages > 1 ? `${schedule} of ${virtual_stages} chunks` : schedule.replace("zero-bubble", "zero bubble"),
  sharding: ({ sharding }) => word(sharding),
  shard_ranks: ({ shard_ranks }) => `sharded over ${shard_ranks}`,
  micro_batch: ({ micro_batch }) => `micro-batch ${micro_batch}`,
  recompute: ({ recompute }) => `${recompute} recomputation`,
  recompute_every: ({ recompute_every }) => `every ${recompute_every} blocks`,
  offload: ({ offload }) => `${offload === "both" ? "optimizer and activations" : offload} offloaded`,
  overlap: () => "no overlap",
};

/** Axes that have ranks, nearest neighbours first. @param {import("./types.js").Part} plan @param {string} [placement] */
const order = (plan, placement = "") =>
  placement
    .split("-")
    .filter((axis) => plan[axis] > 1)
    .join(", ");

/**
 * @param {import("./types.js").Part} plan
 * @param {Record<string, {default: any}>} fields  of the catalogue
 * @returns {{degrees: string, rest: string}}
 */
export function planLabel(plan, fields) {
  const degrees = DEGREES.filter((name) => (plan[name] ?? 1) > 1).map((name) => `${name} ${plan[name]}`);
  const alone = !((plan.dp ?? 1) > 1 || (plan.cp ?? 1) > 1);
  const usual = fields["plan.placement"]?.default;
  const placed = order(plan, plan.placement ?? usual);
  const rest = Object.keys(plan)
    .filter((name) => !SILENT.includes(name) && plan[name] !== fields[`plan.${name}`]?.default)
    .filter((name) => !(alone && name === "sharding"))
    .map((name) => SAID[name]?.(plan) ?? `${name.replaceAll("_", " ")} ${plan[name]}`);
  if (placed !== order(plan, usual)) rest.push(`neighbours ${placed}`);
  return { degrees: degrees.join(" · ") || "one chip", rest: rest.join(", ") };
}

/** Fields of a training that a heading has already. */
const ASKED = ["seq_len", "global_batch"];
/** Fields of a training that are always said, and what behind their value. */
const ALWAYS = { precision: "", attention: " attention", framework: "" };

/**
 * What all plans of a search take for granted: precision, attention and framework, and what else is not the usual.
 * @param {import("./types.js").Part} training @param {Record<string, {default: any, labels?: Record<string, string>}>} fields
 *   of the catalogue
 */
export function trainingWords(training, fields) {
  const others = Object.keys(training).filter(
    (name) => !ASKED.includes(name) && !(name in ALWAYS) && training[name] !== fields[`training.${name}`]?.default,
  );
  const always = Object.entries(ALWAYS).map(([name, behind]) => {
    const value = String(training[name] ?? fields[`training.${name}`]?.default);
    return word(value, labelsOf(name, fields)) + behind;
  });
  const said = others.map((name) => (name === "compile" ? "compiled" : wordOf(name, training[name], fields)));
  return [...always, ...said].join(", ");
}

/** The same in one text. @param {import("./types.js").Part} plan @param {Record<string, {default: any}>} fields */
export const planWords = (plan, fields) =>
  (({ degrees, rest }) => [degrees, rest].filter(Boolean).join(", "))(planLabel(plan, fields));
