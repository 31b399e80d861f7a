/** The picture of a table whose kind nobody knows: what of it was set, what was swept, and what was measured. Pure. */

import {
  bars,
  distinct,
  isNumber,
  labelled,
  LEAST_PLACES,
  lines,
  MOST_ROWS,
  ofRepeats,
  said,
  telling,
  valuesOf,
  wide,
} from "./tableSeries.js";
import { kindOf, unitless } from "./tables.js";

/** @typedef {import("./tableSeries.js").Row} Row */
/** @typedef {import("./tableSeries.js").Entry} Entry */

/** Figures of one unit in one chart. */
const MOST_COLUMNS = 4;
/** What tables call the length of a sequence, as the importers read it, but "t", which is as often a time. */
const LENGTHS = [
  "seq_len",
  "seq",
  "seqlen",
  "seq_length",
  "sequence",
  "sequence_length",
  "sequence_len",
  "seq_len_t",
  "seqlen_t",
  "max_seq_len",
  "max_seq_length",
  "max_length",
  "max_sequence_length",
  "context",
  "context_length",
  "ctx",
  "ctx_len",
  "n_ctx",
  "s",
];
export const lengths = () => LENGTHS;
/** Settings that a table is likely to sweep, the likeliest first. */
const ACROSS = [...LENGTHS, "size_bytes", "bytes", "world_size", "ranks", "batch", "micro_batch", "time_s", "step"];

/**
 * Whether a column is what another one is called, as a size's label in round numbers: of its unit, and one value at each place.
 * @param {Entry[]} entries @param {string} name @param {string} swept
 */
function isOtherName(entries, name, swept) {
  if (!kindOf(swept) || kindOf(name) !== kindOf(swept)) return false;
  const values = new Map(entries.map(({ row }) => [row[swept], row[name]]));
  return values.size < entries.length && entries.every(({ row }) => values.get(row[swept]) === row[name]);
}

/** How many rows have another one before them with the same values of these columns. @param {Entry[]} entries @param {string[]} names */
const clashes = (entries, names) =>
  entries.length - distinct(entries.map(({ row }) => JSON.stringify(names.map((name) => row[name] ?? null)))).length;

/**
 * Settings that tell lines apart: the first two, and of the others each without which more rows fall on one place of a line.
 * @param {Entry[]} entries @param {string} swept @param {string[]} names
 */
function apartAt(entries, swept, names) {
  const found = names.slice(0, 2);
  for (const name of names.slice(2))
    if (clashes(entries, [swept, ...found, name]) < clashes(entries, [swept, ...found])) found.push(name);
  return found;
}

/** What tables call a model: points of two are on no line. */
const MODEL = /^(?:model|net|network|arch|architecture)(?:_name)?$/;

/**
 * Settings that too many values tell to be lines of a sweep, and that rows of one line differ by all the same: models, and
 * what tells rows at one place apart but not every row, as that is a remark. Rows that differ by them are no repeats.
 * @param {Entry[]} entries @param {string} swept @param {string[]} by @param {string[]} names
 */
function furtherApart(entries, swept, by, names) {
  const found = [...by];
  const differ = (/** @type {string} */ name) =>
    clashes(entries, [...found, name]) < clashes(entries, found) && !found.includes(name);
  for (const name of names.filter((one) => MODEL.test(one) && differ(one))) found.push(name);
  const at = () => clashes(entries, [swept, ...found]);
  const whole = names.filter((name) => entries.every(({ row }) => !isNumber(row[name]) || Number.isInteger(row[name])));
  for (const name of whole.filter((one) => valuesOf(entries, one).length < entries.length))
    if (!found.includes(name) && clashes(entries, [swept, ...found, name]) < at()) found.push(name);
  return found;
}

/** A table of no kind: its numbers over the first setting that it sweeps, else as bars. @param {Entry[]} entries */
export function generic(entries) {
  const names = distinct(entries.flatMap(({ row }) => Object.keys(row)));
  const numeric = names.filter((name) => entries.some(({ row }) => isNumber(row[name])));
  const settings = numeric.filter(
    (name) => !kindOf(name) && valuesOf(entries, name).filter(isNumber).length > LEAST_PLACES,
  );
  // a time is what was measured, unless it is when something else was
  const when = numeric.some((name) => !["", "s"].includes(kindOf(name)));
  const usual = ACROSS.find(
    (name) =>
      numeric.includes(name) && numeric.length > 1 && valuesOf(entries, name).length > 1 && (name !== "time_s" || when),
  );
  const texts = names.filter(
    (name) => !numeric.includes(name) && entries.some(({ row }) => typeof row[name] === "string"),
  );
  const named = texts.some((name) => valuesOf(entries, name).length === entries.length);
  const counted = !named && numeric.some(kindOf) ? settings[0] : undefined;
  const swept = usual ?? counted;
  const measured = numeric.filter(
    (name) =>
      kindOf(name) &&
      name !== swept &&
      !/_(?:std|min|max)_|^m(?:in|ax)_s$/.test(name) &&
      !(swept && isOtherName(entries, name, swept)),
  );
  // a length or a batch is set, and no figure of its own, as long as there is any other
  const others = numeric.filter((name) => name !== swept && !kindOf(name));
  const told = others.filter((name) => !LENGTHS.includes(name));
  // beside what has a unit, a number with decimals that no unit tells was measured too, but for what a log counts by step
  const unnamed = told.filter(
    (name) => swept !== "step" && entries.some(({ row }) => isNumber(row[name]) && !Number.isInteger(row[name])),
  );
  const figures = measured.length ? [...measured, ...unnamed] : told.length ? told : others;
  const kinds = distinct(figures.map((name) => kindOf(name) || (measured.length ? name : "")));
  return kinds.flatMap((kind) => {
    const own = figures.filter((name) => (kindOf(name) || (measured.length ? name : "")) === kind);
    return ofOneKind(entries, own.slice(0, MOST_COLUMNS), { swept, texts, settings, measured });
  });
}

/**
 * Figures of one unit: over what is swept, else as bars.
 * @param {Entry[]} entries @param {string[]} columns
 * @param {{swept: string | undefined, texts: string[], settings: string[], measured: string[]}} table
 */
function ofOneKind(entries, columns, { swept, texts, settings, measured }) {
  if (swept) {
    // what differs from row to row is a remark, what repeats tells lines apart
    const repeats = [...texts, ...settings].filter(
      (name) =>
        name !== swept && !columns.includes(name) && valuesOf(entries, name).length <= entries.length / LEAST_PLACES,
    );
    const names = [...texts, ...settings].filter((name) => name !== swept && !columns.includes(name));
    const by = furtherApart(entries, swept, apartAt(entries, swept, telling(entries, repeats)), names);
    const drawn = (/** @type {string} */ y) =>
      lines(
        kindOf(y) !== "bytes" && clashes(entries, [swept, ...by])
          ? ofRepeats(entries, [swept, ...by], y).entries
          : entries,
        {
          title: `${said(unitless(y) === unitless(swept) ? y : unitless(y))} by ${said(unitless(swept))}`,
          x: swept,
          y,
          by,
          log: false,
          out: kindOf(y) === "bytes",
        },
      );
    if (by.length || columns.length < 2 || !measured.length) {
      const found = columns.flatMap(drawn);
      if (found.length || !by.some((name) => !repeats.includes(name))) return found;
      return asBars(entries, columns, texts);
    }
    const y = `value_${kindOf(columns[0])}`;
    const long = columns.flatMap((name) =>
      entries.map(({ row, should }) => ({
        row: { [swept]: row[swept], figure: said(name), [y]: row[name] },
        should: { [y]: should[name] },
      })),
    );
    return lines(long, { title: `by ${said(swept)}`, x: swept, y, by: ["figure"], log: false });
  }
  return asBars(entries, columns, texts);
}

/** @param {Entry[]} entries @param {string[]} columns @param {string[]} texts */
function asBars(entries, columns, texts) {
  const own = entries.filter(({ row }) => columns.some((name) => isNumber(row[name]))).slice(0, MOST_ROWS);
  const words = telling(own, texts).slice(0, 2);
  const values = own.flatMap(({ row }) => columns.map((name) => row[name])).filter(isNumber);
  const title = columns.map((name) => said(unitless(name))).join(", ");
  const place = (/** @type {Row} */ row) => labelled(row, words) || "row";
  return bars(own, { title, place, columns, log: wide(values) });
}
