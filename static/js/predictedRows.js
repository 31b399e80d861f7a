/** A measured table beside its predictions: columns after the measured ones, and errors in words. Pure. */
import { bare, unitless } from "./figures/tables.js";
import { change, count, percent, plural } from "./format.js";

/** @typedef {import("./types.js").PredictedRows} PredictedRows */

/** The end of the name of a column of signed errors; tables write them with their sign. */
const ERROR = "_error_change";

/**
 * Rows with two columns more behind each that is predicted: what it should be, and by how much that is off.
 * @param {Record<string, any>[]} rows @param {PredictedRows | null} predicted
 * @returns {Record<string, any>[]}
 */
export function besideRows(rows, predicted) {
  if (!predicted) return rows;
  const columns = new Set(Object.keys(predicted.errors));
  return rows.map((row, at) => {
    const should = predicted.rows[at] ?? {};
    return Object.fromEntries(
      Object.entries(row).flatMap(([name, value]) =>
        columns.has(name)
          ? [
              [name, value],
              [`predicted_${name}`, should[name] ?? null],
              [unitless(name) + ERROR, name in should ? should[name] / value - 1 : null],
            ]
          : [[name, value]],
      ),
    );
  });
}

/**
 * How far the predictions of one column are off: half of them by less, and all together in which direction.
 * @param {string} name @param {{n: number, median_ape: number, bias: number}} errors  in percent
 * @param {boolean} again  whether what was said before is of as many
 */
function spread(name, { n, median_ape, bias }, again) {
  const what = bare(name);
  const side =
    Math.abs(bias) < 0.05 ? "neither too low nor too high" : `${size(bias)} too ${bias < 0 ? "low" : "high"}`;
  if (n === 1) return again ? `that of ${what} is ${side}` : `the one prediction of ${what} is ${side}`;
  const half = again ? `of ${what}` : `half of the ${count(n)} predictions of ${what} are`;
  return `${half} within ${percent(median_ape / 100, 2)}, on average ${side}`;
}

/** @param {number} bias */
const size = (bias) => change(Math.abs(bias) / 100).slice(1);

const NOT_MEASURED = /^it (was not measured|ran out of memory|has no number)/;
const MOST_REASONS = 3;

/** Why rows that were measured have no prediction, where others have one. @param {PredictedRows} predicted */
function refusals({ reasons }) {
  /** @type {Map<string, number>} */
  const rows = new Map();
  for (const why of reasons) if (why && !NOT_MEASURED.test(why)) rows.set(why, (rows.get(why) ?? 0) + 1);
  if (!rows.size) return "";
  const said = [...rows].slice(0, MOST_REASONS).map(([why, n]) => `${plural(n, "row")} (${why})`);
  return ` Not predicted: ${said.join("; ")}${rows.size > MOST_REASONS ? " and others" : ""}.`;
}

/**
 * Whether what ran out of memory is predicted to, and what ran not.
 * @param {PredictedRows} predicted
 */
function memoryWords({ fits }) {
  const { oom = 0, oom_known: known = 0, oom_unfit: unfit = 0, ran = 0, ran_unfit: wrong = 0 } = fits ?? {};
  const parts = [
    known && `${count(unfit)} of ${plural(known, "row")} that ran out of memory`,
    wrong && `${count(wrong)} of ${plural(ran, "row")} that ran`,
  ].filter(Boolean);
  if (parts.length) return ` Predicted not to fit: ${parts.join(", ")}.`;
  return oom ? ` ${plural(oom, "row")} ran out of memory.` : "";
}

/** The columns with most rows first. @param {PredictedRows["errors"]} errors */
const byRows = (errors) => Object.entries(errors).sort(([, a], [, b]) => b.n - a.n);

/** @param {ReturnType<typeof byRows>} all */
const spreads = (all) =>
  all.map(([name, errors], at) => spread(name, errors, all[at - 1]?.[1].n === errors.n)).join("; ");

/**
 * How far predictions are off, column by column, the columns with most rows first; else why nothing is predicted.
 * @param {PredictedRows | null} predicted
 */
export function errorWords(predicted) {
  if (!predicted) return "";
  const all = byRows(predicted.errors);
  const memory = memoryWords(predicted);
  if (!all.length) return `Not predicted: ${predicted.unpredicted}${memory && `.${memory}`}`;
  const taken = byRows(predicted.taken_errors);
  const apart = taken.length
    ? ` Rows that name no GPU of the catalogue, for which ${predicted.taken} is taken: ${spreads(taken)}.`
    : "";
  const assumed = predicted.assumptions.length ? ` Assumed: ${predicted.assumptions.join("; ")}.` : "";
  const doubt = predicted.doubt ? ` ${predicted.doubt[0].toUpperCase()}${predicted.doubt.slice(1)}.` : "";
  return `Predicted on ${predicted.chip}: ${spreads(all)}.${apart}${memory}${assumed}${doubt}${refusals(predicted)}`;
}
