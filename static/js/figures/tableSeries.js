/** Rows of a table as lines, bars or stacks, measured and predicted. Pure; what each looks like is for `tableChart.js`. */

import { bytes } from "../format.js";
import { isOom, kindOf, SILENT, unitless } from "./tables.js";

/**
 * @typedef {import("../types.js").Part} Row
 * @typedef {{row: Row, should: Row}} Entry  a row and what it should have been
 * @typedef {{name: string, hue: number, symbol?: number, x: (number | string)[], y: (number | null)[],
 *   spread?: Spread[], predicted?: boolean, out?: (number | string)[], lacks?: string[]}} Drawn  `out`: places without
 *   memory; `lacks`: why a place has no bar
 * @typedef {number | [below: number, above: number] | null} Spread  of a value, to both sides or to each
 * @typedef {{title: string, form: "lines" | "bars" | "stack", x: {label: string, kind?: string, log?: boolean},
 *   y: {label: string, kind: string, log?: boolean, base?: number}, series: Drawn[]}} Chart
 */

export const OUT_OF_MEMORY = "out of memory";
const WIDE_RATIO = 30;
const MOST_SERIES = 16;
/** Rows of a table that are drawn as bars. */
export const MOST_ROWS = 40;
export const LEAST_PLACES = 2;
const MOST_OF_FEW_HUES = 6;
const HUES = 6;

/** Columns that are called by a unit alone, as people write it. @type {Record<string, string>} */
const UNITS = { kb: "KB", mb: "MB", gb: "GB", tb: "TB", kib: "KiB", mib: "MiB", gib: "GiB" };
/** @param {string} name */
export const said = (name) => UNITS[name] ?? name.replaceAll("_", " ");
/** @param {any} value @returns {value is number} */
export const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
/** @template T @param {T[]} values */
export const distinct = (values) => [...new Set(values)];
/** @param {Entry[]} entries @param {string} name */
export const valuesOf = (entries, name) =>
  distinct(entries.map(({ row }) => row[name]).filter((value) => value !== undefined));
/** Columns of `names` that tell rows apart; a version says whether it was compiled. @param {Entry[]} entries @param {string[]} names */
export const telling = (entries, names) => {
  const found = names.filter((name) => valuesOf(entries, name).length > 1);
  return found.filter((name) => name !== "compile" || !found.includes("version"));
};
/** @param {Row} row @param {string[]} names */
export const labelled = (row, names) =>
  names
    .map((name) => worded(name, row[name]))
    .filter(Boolean)
    .join(", ");

/** Both ends of a name, as one of them tells it from its neighbours. @param {string} name @param {number} most */
export const shortened = (name, most) =>
  name.length > most ? `${name.slice(0, Math.floor(most / 2))}…${name.slice(1 - Math.ceil(most / 2))}` : name;

/** Parts of a name behind each of which a line may be broken. @param {string} name */
export const partsOf = (name) => name.split(/(?<=[\s,;_/-])/);

/**
 * A name in lines, broken between words; what none has room for ends in dots.
 * @param {string} name @param {number} letters  of a line @param {number} most  lines
 */
export function inLines(name, letters, most) {
  /** @type {string[]} */
  const lines = [];
  for (const word of partsOf(name)) {
    const last = lines.at(-1);
    if (last !== undefined && (last + word).trimEnd().length <= letters) lines[lines.length - 1] = last + word;
    else lines.push(word);
  }
  const fit = lines.slice(0, most).map((line) => shortened(line.trimEnd(), letters));
  return lines.length > most ? [...fit.slice(0, -1), `${fit[most - 1].slice(0, letters - 1)}…`] : fit;
}

/** How many letters two names begin with alike. @param {string} one @param {string} other */
function alikeFor(one, other) {
  let at = 0;
  while (at < one.length && one[at] === other[at]) at += 1;
  return at;
}

/**
 * Names that have room: by both ends, by the beginning, by the end, or by what stands where another name goes on otherwise,
 * whichever fewest others share.
 * @param {string[]} names @param {number} most  letters
 */
export function cutApart(names, most) {
  const each = distinct(names);
  const begin = Math.floor(most / 3);
  const window_ = (/** @type {string} */ name) => {
    const at = Math.max(0, ...each.filter((other) => other !== name).map((other) => alikeFor(name, other)));
    const room = most - begin - 2;
    const from = Math.max(begin, Math.min(at - Math.floor(room / 3), name.length - room));
    const until = from + room;
    return `${name.slice(0, begin)}…${name.slice(from, until)}${until < name.length ? "…" : ""}`;
  };
  const ways = [
    (/** @type {string} */ name) => shortened(name, most),
    (/** @type {string} */ name) => `${name.slice(0, most - 1)}…`,
    (/** @type {string} */ name) => `…${name.slice(1 - most)}`,
    window_,
  ].map((way) => each.map((name) => (name.length <= most ? name : way(name))));
  const alike = (/** @type {string[]} */ way, /** @type {number} */ at) => way.filter((one) => one === way[at]).length;
  const cut = each.map((_, at) => ways.reduce((best, way) => (alike(way, at) < alike(best, at) ? way : best))[at]);
  return names.map((name) => cut[each.indexOf(name)]);
}

/** A value as a legend says it. @param {string} name @param {any} value */
function worded(name, value) {
  if (value === undefined || value === null) return "";
  if (typeof value === "boolean") return value ? said(name) : `no ${said(name)}`;
  if (name.endsWith("_bytes") && isNumber(value)) return `${said(name.slice(0, -6))} ${bytes(value)}`;
  return typeof value === "number" ? `${said(name)} ${value}` : String(value);
}

/** @param {number[]} values */
export const wide = (values) => {
  const positive = values.filter((value) => value > 0);
  return positive.length === values.length && Math.max(...positive) > WIDE_RATIO * Math.min(...positive);
};

/**
 * One line for each kind of row, and a second one where it is predicted.
 * @param {Entry[]} entries
 * @param {{title: string, x: string, y: string, by: string[], hue?: string, log?: boolean, out?: boolean}} what
 *   `hue`: the column that is told by colour, all others by the points' shape; where lines are many, the one that tells
 *   most of them apart
 * @returns {Chart[]}
 */
export function lines(entries, { title, x, y, by, hue: wished = by[0], log = true, out = false }) {
  const without = (/** @type {Row} */ row) => row[y] === null || (!(y in row) && row.status === "oom");
  const some = entries.filter(
    ({ row }) => isNumber(row[x]) && (row[x] > 0 || !log) && (y in row || (out && without(row))),
  );
  if (!some.some(({ row }) => isNumber(row[y])) || valuesOf(some, x).length < LEAST_PLACES) return [];
  const names = telling(some, by);
  const hue = hueOf(some, names, wished);
  const hues = valuesOf(some, hue);
  const shapes = distinct(
    some.map(({ row }) =>
      labelled(
        row,
        names.filter((name) => name !== hue),
      ),
    ),
  );
  /** @type {Drawn[]} */
  const series = [];
  for (const name of distinct(some.map(({ row }) => labelled(row, names)))) {
    const own = some.filter(({ row }) => labelled(row, names) === name).sort((a, b) => a.row[x] - b.row[x]);
    const [{ row: first }] = own;
    const told = {
      hue: Math.max(0, hues.indexOf(first[hue])),
      symbol: shapes.indexOf(
        labelled(
          first,
          names.filter((one) => one !== hue),
        ),
      ),
      x: own.map(({ row }) => row[x]),
    };
    const lacking = out ? own.filter(({ row }) => without(row)).map(({ row }) => row[x]) : [];
    const spread = own.map(({ row }) => row[stdOf(y)] ?? null);
    series.push({ ...told, name: name || "measured", y: own.map(({ row }) => row[y] ?? null), out: lacking, spread });
    const should = own.map((one) => one.should[y] ?? null);
    if (should.some(isNumber)) series.push({ ...told, name: `${name} predicted`.trim(), y: should, predicted: true });
  }
  if (!series.some((one) => new Set(one.x).size >= LEAST_PLACES)) return [];
  const all = some.flatMap(({ row, should }) => [row[y], should[y]]).filter(isNumber);
  const kind = kindOf(y);
  return [
    {
      title,
      form: "lines",
      x: {
        // bytes are written with their prefixes, as MB
        label: kindOf(x) === "bytes" ? said(unitless(x)) : said(x.replace(/_s$/, ", s")),
        kind: kindOf(x),
        log: wide(valuesOf(some, x)) || log || doublings(valuesOf(some, x).map(Number)).length > 0,
      },
      y: { label: said(unitless(y)), kind, log: log || wide(all) },
      series: series.slice(0, 2 * MOST_SERIES),
    },
  ];
}

/** The column that colour tells. @param {Entry[]} entries @param {string[]} names @param {string} wished */
function hueOf(entries, names, wished) {
  if (distinct(entries.map(({ row }) => labelled(row, names))).length <= MOST_OF_FEW_HUES) return wished;
  const told = (/** @type {string} */ name) => valuesOf(entries, name).length;
  return names
    .filter((name) => told(name) <= HUES)
    .reduce((best, name) => (told(name) > told(best) ? name : best), wished);
}

const LEAST_DOUBLINGS = 3;

/**
 * The values themselves where all are powers of two, as lengths and batches are swept, so that an axis has its ticks
 * there; none else. Of many every second, or fewer.
 * @param {number[]} values @param {number} [most]
 */
export function doublings(values, most = 10) {
  const places = [...new Set(values)].sort((a, b) => a - b);
  const doubled = places.every((value) => value > 0 && Number.isInteger(Math.log2(value)));
  if (!doubled || places.length < LEAST_DOUBLINGS) return [];
  const step = Math.ceil(places.length / most);
  return places.filter((_, at) => at % step === 0);
}

/** The column of a mean's spread. @param {string} name */
const stdOf = (name) => {
  const kind = kindOf(name);
  return kind ? `${unitless(name)}_std_${kind}` : `${name}_std`;
};

/** @param {Row} row @param {string} name */
const deviation = (row, name) => row[stdOf(name)] ?? null;

/**
 * Rows that differ in nothing but their repeat as one, with the median of a column and how far the repeats reach.
 * @param {Entry[]} entries @param {string[]} names  what tells settings apart @param {string} column
 * @returns {{entries: Entry[], spread: (row: Row) => Spread, most: number}}  `most`: repeats of a setting
 */
export function ofRepeats(entries, names, column) {
  /** @type {Map<string, Entry[]>} */
  const groups = new Map();
  for (const one of entries.filter(({ row }) => isNumber(row[column]))) {
    const key = JSON.stringify(names.map((name) => one.row[name] ?? null));
    groups.set(key, [...(groups.get(key) ?? []), one]);
  }
  /** @type {Map<Row, Spread>} */
  const reach = new Map();
  const all = [...groups.values()].map((group) => {
    const values = group.map(({ row }) => row[column]).sort((a, b) => a - b);
    const middle = (values[(values.length - 1) >> 1] + values[values.length >> 1]) / 2;
    const row = { ...group[0].row, [column]: middle };
    if (values.length > 1) reach.set(row, [middle - values[0], values[values.length - 1] - middle]);
    return { row, should: group[0].should };
  });
  return {
    entries: all,
    spread: (row) => reach.get(row) ?? null,
    most: Math.max(0, ...[...groups.values()].map(({ length }) => length)),
  };
}

/**
 * Bars beside one another or on top of one another: a place for each row, a colour for each column.
 * @param {Entry[]} entries
 * @param {{title: string, place: (row: Row) => string, columns: string[], form?: "bars" | "stack", base?: number,
 *   label?: string, log?: boolean, spread?: (row: Row, name: string) => Spread}} what  `spread`: else the column's
 *   standard deviation
 * @returns {Chart[]}
 */
export function bars(
  entries,
  { title, place, columns, form = "bars", base, label = "", log = false, spread = deviation },
) {
  const shown = columns.filter((name) => entries.some(({ row }) => isNumber(row[name])));
  if (!shown.length || !entries.length) return [];
  const names = unique(toldApart(entries, place));
  /** @type {Drawn[]} */
  const series = [];
  shown.forEach((name, hue) => {
    const of = said(unitless(name));
    const y = entries.map(({ row }) => (isNumber(row[name]) ? row[name] : null));
    const lacks = entries.map(({ row }) => (isOom(row, name) && OUT_OF_MEMORY) || (hue ? "" : lackOf(row, shown)));
    const marks = lacks.some(Boolean) ? { lacks } : {};
    series.push({ name: of, hue, x: names, y, spread: entries.map(({ row }) => spread(row, name)), ...marks });
    const should = entries.map((one) => one.should[name] ?? null);
    if (should.some(isNumber)) series.push({ name: `${of} predicted`, hue, x: names, y: should, predicted: true });
  });
  const y = { label, kind: kindOf(shown[0]), log, ...(base !== undefined && { base }) };
  return [{ title, form, x: { label: "" }, y, series }];
}

/**
 * Why a row has no bar: it ran out of memory, has no number, or one that no step takes; "" where it has one.
 * @param {Row} row @param {string[]} columns
 */
function lackOf(row, columns) {
  const values = columns.map((name) => row[name]).filter(isNumber);
  if (values.some((value) => value > 0)) return "";
  if (row.status === "oom") return OUT_OF_MEMORY;
  return values.length ? `${values[0] < 0 ? "below zero" : "0"} in the file` : "no number";
}

/**
 * Names of rows; those that are alike say what else the rows are set to, as far as that tells them apart.
 * @param {Entry[]} entries @param {(row: Row) => string} place
 */
function toldApart(entries, place) {
  const names = entries.map(({ row }) => place(row));
  const settings = distinct(entries.flatMap(({ row }) => Object.keys(row))).filter(
    (name) => !kindOf(name) && !SILENT.test(name),
  );
  for (const setting of settings) {
    /** @type {Map<string, Set<any>>} */
    const values = new Map();
    names.forEach((name, at) => values.set(name, (values.get(name) ?? new Set()).add(entries[at].row[setting])));
    names.forEach((name, at) => {
      if ((values.get(name)?.size ?? 0) < 2) return;
      names[at] = [name, worded(setting, entries[at].row[setting])].filter(Boolean).join(", ");
    });
  }
  return names;
}

/** Each name once, so that no two rows fall on one another. @param {string[]} names */
function unique(names) {
  /** @type {Map<string, number>} */
  const seen = new Map();
  return names.map((name) => {
    const times = (seen.get(name) ?? 0) + 1;
    seen.set(name, times);
    return times > 1 ? `${name} (${times})` : name;
  });
}
