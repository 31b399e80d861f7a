/** Models and chips of a person's own: made from one of the catalogue, kept by this browser under a name. */
import { count, significant } from "./format.js";
import { complete } from "./scenario.js";

/** @typedef {import("./types.js").Part} Part */
/** @typedef {"model" | "chip"} Kind */
/** @typedef {{name: string, label: string, factor: number, unit: string, yes?: boolean}} OwnField  shown = value / factor */

const number = (/** @type {string} */ name, /** @type {string} */ label, unit = "", factor = 1) => ({
  name,
  label,
  unit,
  factor,
});
const yes = (/** @type {string} */ name, /** @type {string} */ label) => ({
  name,
  label,
  unit: "",
  factor: 1,
  yes: true,
});

/** What of a model can be changed, in the words and units of people. @type {OwnField[]} */
const OF_MODEL = [
  number("layers", "Layers"),
  number("hidden", "Hidden"),
  number("heads", "Heads"),
  number("kv_heads", "Key-value heads"),
  number("head_dim", "Head width"),
  number("ffn", "Feed-forward"),
  number("vocab", "Vocabulary"),
  number("experts", "Experts"),
  number("top_k", "Experts per token"),
  number("moe_ffn", "Expert width"),
  number("shared_experts", "Shared experts"),
  number("sliding_window", "Sliding window"),
  number("full_attention_every", "Full attention every"),
  number("kv_lora_rank", "Latent KV rank (MLA)"),
  number("q_lora_rank", "Latent query rank"),
  yes("gated_ffn", "Gated feed-forward"),
  yes("tied_embedding", "Tied embedding"),
  yes("qkv_bias", "Bias of q, k, v"),
];
/** What of a chip beside its peaks. @type {OwnField[]} */
const OF_CHIP = [
  number("memory_bytes", "Memory", "GB", 1e9),
  number("memory_bytes_per_s", "Bandwidth", "TB/s", 1e12),
  number("compute_units", "Multiprocessors"),
  number("clock_hz", "Clock", "GHz", 1e9),
  number("power_limit_frac", "Power limit", "% of its own", 0.01),
  number("l2_bytes", "L2", "MB", 1e6),
  number("chips_per_node", "Chips per node"),
  number("usd_per_hour", "Price", "$/h"),
];
const PEAK = /_flops_per_s$/;

/**
 * What of a model or a chip can be changed: of a chip every peak that those of the catalogue may have.
 * @param {Kind} kind @param {import("./types.js").Catalog} catalog @returns {OwnField[]}
 */
export function ownFields(kind, { chips }) {
  if (kind === "model") return OF_MODEL;
  const peaks = Object.keys(chips[0]?.value ?? {}).filter((name) => PEAK.test(name));
  const said = (/** @type {string} */ name) => `${name.replace(PEAK, "").replaceAll("_", " ")} dense`;
  return [...peaks.map((name) => number(name, said(name), "TFLOP/s", 1e12)), ...OF_CHIP];
}

/** From here on an end of a range bounds nothing that anybody would write. */
const ENDLESS = 1e12;

/**
 * Why a number cannot be a field's, by name, range and unit; "" where it can.
 * @param {OwnField} field @param {number} value  in the field's unit
 * @param {{type: string, minimum: number | null, maximum: number | null} | undefined} limits  in SI, as the catalogue has them
 */
export function outOfRange({ label, factor, unit }, value, limits) {
  const whole = limits?.type === "integer";
  const [low, high] = [(limits?.minimum ?? 0) / factor, (limits?.maximum ?? Infinity) / factor];
  if (value >= low && value <= high && (!whole || Number.isInteger(value * factor))) return "";
  const tiny = low > 0 && low < 1e-3;
  const from = tiny ? "above 0" : `from ${significant(low)}`;
  const to = high < ENDLESS ? `${tiny ? " and up" : ""} to ${count(high)}` : "";
  return `${label} takes a ${whole ? "whole " : ""}number ${from}${to || " on"}${unit && ` ${unit}`}.`;
}

/**
 * A problem of the server that says which field of a model or chip it is of.
 * @param {import("./types.js").Problem} problem @param {import("./types.js").Catalog} catalog
 */
export function fieldNamed(problem, catalog) {
  const [, part, name] = /^(model|cluster\.chip)\.(\w+)$/.exec(problem.field) ?? [];
  const field = part && ownFields(part === "model" ? "model" : "chip", catalog).find((one) => one.name === name);
  return field ? { ...problem, message: `${field.label}: ${problem.message}` } : problem;
}

const KEY = "headroom-own";

/** @returns {Record<Kind, Record<string, Part>>} */
export function savedParts() {
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return { model: found.model ?? {}, chip: found.chip ?? {} };
  } catch {
    return { model: {}, chip: {} };
  }
}

/** Keep a part under its name, or forget it. @param {Kind} kind @param {string} name @param {Part | null} part */
export function savePart(kind, name, part) {
  const all = savedParts();
  if (part) all[kind][name] = part;
  else delete all[kind][name];
  try {
    localStorage.setItem(KEY, JSON.stringify(all));
  } catch {
    return false;
  }
  return true;
}

/**
 * A part with one field changed, under a name that says that it is no longer the catalogue's.
 * @param {Part} part @param {string} field @param {any} value @param {string} name
 */
export const edited = (part, field, value, name) => ({
  ...part,
  [field]: value,
  name,
  ...(part.label && { label: name }),
});

/** @param {import("./types.js").Scenario} scenario @param {Kind} kind @param {Part} part @param {import("./types.js").Catalog} catalog */
export const withPart = (scenario, kind, part, catalog) =>
  complete(
    kind === "model" ? { ...scenario, model: part } : { ...scenario, cluster: { ...scenario.cluster, chip: part } },
    catalog,
  );
