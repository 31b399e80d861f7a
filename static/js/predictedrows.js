// @ts-check
/** A measured table beside its predictions: columns after the measured ones, and errors in words. Pure. */
import { change, count, percent } from "./format.js";

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
              [name.replace(/(_bytes|_s)$/, "") + ERROR, name in should ? should[name] / value - 1 : null],
            ]
          : [[name, value]],
      ),
    );
  });
}

/**
 * How far predictions are off, column by column, the columns with most rows first; else why nothing is predicted.
 * @param {PredictedRows | null} predicted
 */
export function errorWords(predicted) {
  const all = Object.entries(predicted?.errors ?? {}).sort(([, a], [, b]) => b.n - a.n);
  if (!predicted) return "";
  if (!all.length) return `Not predicted: ${predicted.unpredicted}`;
  const parts = all.map(([name, { n, median_ape, bias }]) => {
    const what = name.replace(/(_bytes|_s)$/, "").replaceAll("_", " ");
    return `${what} off by ${percent(median_ape / 100, 2)} in the median, ${change(bias / 100)} on average (${count(n)} rows)`;
  });
  const assumed = predicted.assumptions.length ? ` Assumed: ${predicted.assumptions.join("; ")}.` : "";
  return `Predicted on ${predicted.chip}: ${parts.join("; ")}.${assumed}`;
}
