// @ts-check
/** Tables of any columns: one unit per column, three significant digits, the whole value on hover. */
import { count, scaleFor, significant } from "../format.js";
import { h } from "./dom.js";

const SHOWN_ROWS = 200;

/** Units that are scaled with their column. @type {Record<string, string>} */
const KINDS = { s: "s", bytes: "bytes", B: "bytes", flops: "flops", "bytes/s": "bytes_per_s", "B/s": "bytes_per_s", "FLOP/s": "flops_per_s", FLOP: "flops" };

/** Suffixes of field names and the unit that each stands for; longer ones first. @type {[string, string][]} */
const SUFFIXES = [["_bytes_per_s", "B/s"], ["_flops_per_s", "FLOP/s"], ["_tokens_per_s", "tokens/s"], ["_bytes", "bytes"], ["_flops", "FLOP"], ["_frac", "frac"], ["_pct", "%"], ["_s", "s"]];

/** A column's title and unit from a field name with its unit suffix. @param {string} name @returns {import("../types.js").Column} */
export function columnOf(name) {
  const [suffix, unit] = SUFFIXES.find(([end]) => name.endsWith(end) && name !== end.slice(1)) ?? ["", ""];
  return { title: name.slice(0, name.length - suffix.length).replaceAll("_", " "), unit: unit || undefined };
}

/** How to write the cells of one column. @param {import("../types.js").Column} column @param {any[]} values */
function writer(column, values) {
  const numbers = values.filter((value) => typeof value === "number");
  if (column.unit === "frac") return { unit: "%", write: (/** @type {number} */ value) => significant(100 * value) };
  const kind = column.unit && KINDS[column.unit];
  if (kind) {
    const { factor, unit } = scaleFor(Math.max(0, ...numbers.map(Math.abs)), kind);
    return { unit, write: (/** @type {number} */ value) => significant(value / factor) };
  }
  const whole = numbers.every(Number.isInteger);
  return { unit: column.unit ?? "", write: (/** @type {number} */ value) => (whole ? count(value) : significant(value)) };
}

/** A table of ready rows under plain headings. @param {string[]} heads @param {HTMLElement[]} rows @param {number[]} [texts]  columns of words */
export const grid = (heads, rows, texts = []) =>
  h("table", {}, h("thead", {}, h("tr", {}, heads.map((text, at) => h("th", { scope: "col", text, class: texts.includes(at) && "text" })))), h("tbody", {}, rows));

/** @param {import("../types.js").Table} table @param {{total?: boolean}} [options]  `total`: the last row is a sum @returns {HTMLElement} */
export function tableView({ columns, rows }, { total = false } = {}) {
  const writers = columns.map((column, at) => writer(column, rows.map((row) => row[at])));
  const isText = columns.map((column, at) => column.text ?? rows.every((row) => typeof row[at] !== "number"));
  const body = h("tbody");
  const fill = (/** @type {any[][]} */ some) => body.append(...some.map((row) => h("tr", {}, row.map((value, at) => cell(value, writers[at].write, isText[at])))));
  fill(rows.slice(0, SHOWN_ROWS));
  if (total) body.lastElementChild?.classList.add("total");
  const table = h("table", {}, h("thead", {}, h("tr", {}, columns.map(({ title }, at) =>
    h("th", { scope: "col", class: isText[at] && "text" }, title, writers[at].unit && h("span", { class: "unit", text: `${title ? ", " : ""}${writers[at].unit}` }))))), body);
  if (rows.length <= SHOWN_ROWS) return table;
  const more = h("button", { type: "button", class: "ghost", text: `Show all ${count(rows.length)} rows`, onclick: () => { fill(rows.slice(SHOWN_ROWS)); more.remove(); } });
  return h("div", {}, table, more);
}

/** @param {any} value @param {(value: number) => string} write @param {boolean} text */
function cell(value, write, text) {
  if (value === null || value === undefined || value === "") return h("td", { class: text && "text quiet", text: "–" });
  if (typeof value === "number") return h("td", { title: String(value), text: write(value) });
  const words = typeof value === "object" ? JSON.stringify(value) : String(value);
  return h("td", { class: text && "text", text: words });
}

/**
 * Rows of dicts as tables: rows with the same columns share one.
 * @param {Record<string, any>[]} rows @returns {{name: string, table: import("../types.js").Table}[]}
 */
export function tablesOf(rows) {
  /** @type {Map<string, {name: string, keys: string[], rows: Record<string, any>[]}>} */
  const found = new Map();
  for (const row of rows) {
    const keys = Object.keys(row).filter((key) => key !== "table");
    const name = String(row.table ?? "");
    const id = `${name}\n${row.table === undefined ? keys.join() : ""}`;
    const group = found.get(id) ?? { name, keys: [], rows: [] };
    for (const key of keys) if (!group.keys.includes(key)) group.keys.push(key);
    group.rows.push(row);
    found.set(id, group);
  }
  return [...found.values()].map(({ name, keys, rows: some }) => ({
    name, table: { columns: keys.map(columnOf), rows: some.map((row) => keys.map((key) => row[key] ?? null)) },
  }));
}
