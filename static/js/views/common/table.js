/** Tables of any columns: one unit per column, three significant digits, the whole value on hover. */
import { said } from "../../figures/tableSeries.js";
import { isOom, OOM_CELLS } from "../../figures/tables.js";
import { change, count, quantity, scaleFor, significant } from "../../format.js";
import { median } from "../../measured.js";
import { h } from "./dom.js";

const SHOWN_ROWS = 200;
const LONG_TEXT = 40;

/** A column whose largest is below this share of the shared unit has its own; times read badly earlier. */
const SMALL = 0.01;
const SMALL_TIME = 0.1;

/** Units that are scaled with their column. @type {Record<string, string>} */
const KINDS = {
  s: "s",
  bytes: "bytes",
  B: "bytes",
  flops: "flops",
  "bytes/s": "bytes_per_s",
  "B/s": "bytes_per_s",
  "FLOP/s": "flops_per_s",
  FLOP: "flops",
};

/** Suffixes of field names and the unit that each stands for; longer ones first. @type {[string, string][]} */
const SUFFIXES = [
  ["_bytes", "bytes"],
  ["_flops", "FLOP"],
  ["_frac", "frac"],
  ["_pct", "%"],
  ["_change", "change"],
  ["_s", "s"],
];

/** A field name of something per second: of what, after what else it says. */
const RATE = /^(?:(.*)_)?([a-z]+)_per_s(_per_gpu)?$/;
/** @type {Record<string, string>} */
const PER_SECOND = { bytes: "B/s", flops: "FLOP/s" };

/** Field names that are nothing but a unit. @type {Record<string, string>} */
const AMOUNTS = { bytes: "bytes", flops: "FLOP", seconds: "s" };

/** A rate whose name says no more has one. @param {string | undefined} name */
const titleOfRate = (name) => (!name ? "rate" : name === "predicted" ? "predicted rate" : name.replaceAll("_", " "));

/**
 * A column's title and unit from a field name with its unit suffix.
 * @param {string} name
 * @returns {import("../../types.js").Column}
 */
export function columnOf(name) {
  const rate = RATE.exec(name);
  if (AMOUNTS[name]) return { title: name, unit: AMOUNTS[name] };
  if (rate) {
    const each = rate[3] ? " per GPU" : "";
    return { title: titleOfRate(rate[1]) + each, unit: PER_SECOND[rate[2]] ?? `${rate[2]}/s` };
  }
  const [suffix, unit] = SUFFIXES.find(([end]) => name.endsWith(end) && name !== end.slice(1)) ?? ["", ""];
  return { title: said(name.slice(0, name.length - suffix.length)), unit: unit || undefined };
}

/** Largest size in a column. @param {any[]} values */
const largestOf = (values) =>
  values.reduce((largest, value) => (typeof value === "number" ? Math.max(largest, Math.abs(value)) : largest), 0);

/** By how much the largest of a column may be more than what is usual in it, and still choose its unit. */
const OUTLIER = 10;
/** How small a part of the largest may choose the unit, so that the largest stays below a million of it. */
const PARTS = 1000;

/**
 * The value that chooses a column's unit: its largest, unless that would make the usual ones read badly.
 * @param {any[]} values
 */
export function leadOf(values) {
  const sizes = values.filter((value) => typeof value === "number" && value).map(Math.abs);
  const [largest, usual] = [largestOf(values), median(sizes) ?? 0];
  return OUTLIER * usual < largest ? Math.max(usual, largest / PARTS) : largest;
}

/** Columns of how samples are spread, by what stands before; their value is the median there, or the step. */
const SPREAD = /^(.*?)(minimum|mean|maximum|interquartile range)$/;

/** Titles of the columns whose value this one may be the spread or the prediction of. @param {string} title */
function valuesOf(title) {
  const spread = SPREAD.exec(title);
  if (spread) return [`${spread[1]}median`, `${spread[1]}step`];
  const value = title.replace(/^predicted /, "").replace(/ std$/, "");
  return value === title ? [] : [value];
}

/**
 * The unit that each column of a kind is written in, null for others. Columns of a kind share it, so that they can be
 * compared, unless one is too small for it; spread and prediction have that of their value.
 * @param {import("../../types.js").Table} table @returns {({factor: number, unit: string} | null)[]}
 */
export function scalesOf({ columns, rows }) {
  const kinds = columns.map(({ unit }) => (unit && KINDS[unit]) || "");
  const leads = columns.map((_, at) => (kinds[at] === "s" ? leadOf : largestOf)(rows.flatMap((row) => row[at])));
  const scales = columns.map((_, at) => {
    const kind = kinds[at];
    if (!kind) return null;
    const shared = scaleFor(Math.max(...leads.filter((_, of) => kinds[of] === kind)), kind);
    const small = kind === "s" ? SMALL_TIME : SMALL;
    return leads[at] < small * shared.factor ? scaleFor(leads[at], kind) : shared;
  });
  return columns.map(({ title, unit }, at) => {
    const values = valuesOf(title);
    const of = columns.findIndex((one) => values.includes(one.title) && one.unit === unit);
    return scales[at] && of >= 0 ? scales[of] : scales[at];
  });
}

/**
 * How to write the cells of each column.
 * @param {import("../../types.js").Table} table
 */
function writers({ columns, rows }) {
  const scales = scalesOf({ columns, rows });
  return columns.map((column, at) => {
    if (column.unit === "change") return { unit: "", write: change };
    if (column.unit === "frac") return { unit: "%", write: (/** @type {number} */ value) => significant(100 * value) };
    const scale = scales[at];
    if (scale) return { unit: scale.unit, write: (/** @type {number} */ value) => significant(value / scale.factor) };
    const whole = rows.every((row) =>
      [row[at]].flat().every((one) => typeof one !== "number" || Number.isInteger(one)),
    );
    return {
      unit: column.unit ?? "",
      write: (/** @type {number} */ value) => (whole ? count(value) : significant(value)),
    };
  });
}

/**
 * A table of ready rows under plain headings.
 * @param {(string | HTMLElement)[]} heads
 * @param {HTMLElement[]} rows
 * @param {{texts?: number[], wide?: number[], titles?: string[]}} [options]  `texts`: columns of words; `wide`: left out
 *   where narrow; `titles`: what headings say at more length
 */
export const grid = (heads, rows, { texts = [], wide = [], titles = [] } = {}) =>
  h(
    "table",
    {},
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        heads.map((text, at) => {
          const kind = [wide.includes(at) && "wide", texts.includes(at) && "text"].filter(Boolean).join(" ");
          return text === ""
            ? h("td", { class: kind })
            : h("th", { scope: "col", class: kind, title: titles[at] || null }, text);
        }),
      ),
    ),
    h("tbody", {}, rows),
  );

/**
 * @param {import("../../types.js").Table} table
 * @param {{total?: boolean}} [options]  `total`: the last row is a sum
 * @returns {HTMLElement}
 */
export function tableView({ columns, rows }, { total = false } = {}) {
  const units = writers({ columns, rows });
  const isText = columns.map((column, at) => column.text ?? rows.every((row) => typeof row[at] !== "number"));
  const body = h("tbody");
  const fill = (/** @type {any[][]} */ some) =>
    body.append(
      ...some.map((row) =>
        h(
          "tr",
          {},
          // a column of marks without a title is empty where there is none
          row.map((value, at) =>
            columns[at].title || value ? cell(value, units[at].write, isText[at]) : h("td", { class: "text" }),
          ),
        ),
      ),
    );
  fill(rows.slice(0, SHOWN_ROWS));
  if (total) body.lastElementChild?.classList.add("total");
  const table = h(
    "table",
    {},
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        columns.map(({ title }, at) =>
          h(
            title || units[at].unit ? "th" : "td",
            { scope: title || units[at].unit ? "col" : null, class: isText[at] && "text" },
            title,
            units[at].unit && h("span", { class: "unit", text: `${title ? ", " : ""}${units[at].unit}` }),
          ),
        ),
      ),
    ),
    body,
  );
  if (rows.length <= SHOWN_ROWS) return table;
  const more = h("button", {
    type: "button",
    class: "ghost",
    text: `Show all ${count(rows.length)} rows`,
    onclick: () => {
      fill(rows.slice(SHOWN_ROWS));
      more.remove();
    },
  });
  return h("div", {}, table, more);
}

/** @param {any} value @param {(value: number) => string} write @param {boolean} text */
function cell(value, write, text) {
  if (value === null || value === undefined || value === "") return h("td", { class: text && "text quiet", text: "–" });
  if (typeof value === "number") return h("td", { title: String(value), text: write(value) });
  const numbers = Array.isArray(value) && value.every((one) => typeof one === "number");
  const words = numbers
    ? value.map(write).join(", ")
    : typeof value === "object"
      ? JSON.stringify(value)
      : String(value);
  if (words.length <= LONG_TEXT) return h("td", { class: text && "text", text: words });
  return h("td", { class: text && "text", title: words }, h("span", { class: "clamp", text: words }));
}

/**
 * Rows of dicts as tables: a row joins the first table of its name that has most of its columns.
 * @param {Record<string, any>[]} rows
 * @returns {{name: string, rows: Record<string, any>[], table: import("../../types.js").Table}[]}
 */
export function tablesOf(rows) {
  /** @type {{name: string, keys: Set<string>, rows: Record<string, any>[]}[]} */
  const found = [];
  for (const row of rows) {
    const keys = Object.keys(row).filter((key) => key !== "table" && key !== OOM_CELLS);
    const name = String(row.table ?? "");
    let home = found.find(
      (one) => one.name === name && 2 * keys.filter((key) => one.keys.has(key)).length > keys.length,
    );
    if (!home) found.push((home = { name, keys: new Set(), rows: [] }));
    for (const key of keys) home.keys.add(key);
    home.rows.push(row);
  }
  return found.map(({ name, keys, rows: some }) => ({
    name,
    rows: some,
    table: {
      columns: [...keys].map(columnOf),
      rows: some.map((row) => [...keys].map((key) => (isOom(row, key) ? "OOM" : (row[key] ?? null)))),
    },
  }));
}

/** Columns from which a table is wide. */
const COMMON_FROM = 8;

/**
 * A wide table without the columns that say the same in every row, and those in words, so that what differs is seen.
 * @param {import("../../types.js").Table} table @returns {{table: import("../../types.js").Table, words: string}}
 */
export function withoutCommon({ columns, rows }) {
  // a prediction stays beside what it predicts, though it may be the same for all
  const common = columns.map(
    ({ title }, at) => !title.startsWith("predicted ") && rows.every((row) => row[at] === rows[0][at]),
  );
  if (columns.length < COMMON_FROM || rows.length < 2 || common.every(Boolean))
    return { table: { columns, rows }, words: "" };
  const words = columns.flatMap(({ title, unit }, at) => {
    const value = rows[0][at];
    if (!common[at] || value === null || value === "") return [];
    const kind = unit && KINDS[unit];
    const written = typeof value !== "number" ? value : kind ? quantity(value, kind) : significant(value, 15);
    return [`${title} ${typeof written === "object" ? JSON.stringify(written) : written}`];
  });
  const kept = (/** @type {any[]} */ all) => all.filter((_, at) => !common[at]);
  return { table: { columns: kept(columns), rows: rows.map(kept) }, words: words.join(", ") };
}
