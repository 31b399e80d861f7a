/** Columns and rows of any table in words: which are settings, which were measured, and of what kind. Pure. */
import { quantity } from "../format.js";
import { words } from "./base.js";

/** @typedef {Record<string, any>} Row */

/** Of a row: the columns whose cells say out of memory, where others have a figure. */
export const OOM_CELLS = "oom_cells";
/** @param {Row} row @param {string} name */
export const isOom = (row, name) => Boolean(row[OOM_CELLS]?.includes(name));

/** How large what was sent is, which is a setting. */
const SIZE = "size_bytes";
/** What a row says of itself, and does not name it. */
export const SILENT =
  /^(table|oom_cells|status|warnings?|iterations|warmup|catalogue_model|problem|message|.*_std_s|.*_min_s|.*_max_s|min_s|max_s|std_s|rank_.*)$/;
const MEASURED = /_(s|bytes|per_s|per_s_per_gpu|frac|speedup|change|pct)$|^(mfu|speedup)$/;
/** Behind the unit of a rate: of how many it is. */
const EACH = /_per_gpu$/;

/** Units that names of columns end in, the longer ones first. */
const KINDS = ["bytes_per_s", "flops_per_s", "bytes", "flops", "frac", "s"];

/** The kind of quantity that a column is of, by the unit at the end of its name; "" without one. @param {string} name */
export function kindOf(name) {
  if (name === "s") return ""; // a sequence's length, as tables call it
  const whole = name.replace(EACH, "");
  const found = KINDS.find((kind) => whole === kind || whole.endsWith(`_${kind}`)) ?? "";
  return found === "s" && whole.endsWith("_per_s") ? "" : found;
}

/** A column's name without the unit at its end, unless that is all. @param {string} name */
export function unitless(name) {
  const [kind, each] = [kindOf(name), EACH.test(name) ? "_per_gpu" : ""];
  const rest = kind && name.replace(EACH, "").slice(0, -kind.length - 1);
  return rest ? rest + each : each && kind ? `rate${each}` : name;
}

/** A column's name without its unit, in words. @param {string} name */
export const bare = (name) => words(unitless(name));

/** Columns that rows differ in. @param {Row[]} rows */
function varying(rows) {
  const names = [...new Set(rows.flatMap(Object.keys))].filter((name) => !SILENT.test(name));
  return names.filter((name) => new Set(rows.map((row) => JSON.stringify(row[name] ?? null))).size > 1);
}

/** Of settings those that tell more rows apart than those before them do. @param {Row[]} rows @param {string[]} names */
function telling(rows, names) {
  /** @type {string[]} */
  const kept = [];
  let apart = 1;
  for (const name of names) {
    const now = new Set(rows.map((row) => JSON.stringify([...kept, name].map((one) => row[one] ?? null)))).size;
    if (now > apart) kept.push(name);
    apart = Math.max(apart, now);
  }
  return kept;
}

/** Settings of a row in words, those in which rows differ. @param {Row[]} rows @param {string[]} [without] */
export function rowWords(rows, without = []) {
  const names = telling(
    rows,
    varying(rows).filter((name) => !isNumberOf(rows, name) && !without.includes(name) && plain(rows, name)),
  );
  return rows.map((row) =>
    names
      .map((name) => settingWords(name, row[name]))
      .filter(Boolean)
      .join(", "),
  );
}

/** @param {string} name @param {any} value */
function settingWords(name, value) {
  if (value === null || value === undefined || value === "") return "";
  if (typeof value === "string") return value;
  if (typeof value === "boolean") return value ? words(name) : "";
  return `${words(unitless(name))} ${kindOf(name) ? quantity(value, kindOf(name)) : value}`;
}

/** Whether a column holds what was measured. @param {Row[]} rows @param {string} name */
const isNumberOf = (rows, name) =>
  MEASURED.test(name) && name !== SIZE && rows.some((row) => typeof row[name] === "number");
/** @param {Row[]} rows @param {string} name */
const plain = (rows, name) => rows.every((row) => row[name] === null || typeof row[name] !== "object");
