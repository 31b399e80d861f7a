/**
 * The chart of a table of a kind that has none of its own (tableCharts.js): its first number over the setting that its rows
 * vary most, a line for each of the others. Pure.
 */
import { plural, quantity, scaleFor } from "../format.js";
import { barMarker, escaped, layout, logTicks, SERIES, words } from "./base.js";

/** @typedef {Record<string, any>} Row */
/** @typedef {{rows: Row[], predicted: Row[], colour: import("../types.js").Colour, narrow: boolean}} TableInput  `predicted`: of each row, by column */
/** @typedef {import("../types.js").Figure & {title: string, legend: [token: string, text: string][]}} TableFigure */

/** Settings that rows are likely to be drawn over, the likeliest first. */
const ACROSS = [
  "seq_len",
  "sequence",
  "size_bytes",
  "bytes",
  "elements",
  "world_size",
  "ranks",
  "batch",
  "micro_batch",
  "global_batch",
  "d_model",
  "hidden",
  "m",
  "n",
  "layers",
  "parameters",
];
/** What a row says of itself, and no chart is about. */
const SILENT =
  /^(table|status|warnings?|iterations|warmup|catalogue_model|problem|message|.*_std_s|.*_min_s|.*_max_s|min_s|max_s|std_s|rank_.*)$/;
const MOST_SERIES = 8;
const MEASURED = /_(s|bytes|per_s|frac|speedup|change|pct)$|^(mfu|speedup)$/;

/** The kind of quantity that a column is of. @param {string} name */
export const kindOf = (name) =>
  name.endsWith("bytes_per_s")
    ? "bytes_per_s"
    : name.endsWith("flops_per_s")
      ? "flops_per_s"
      : name.endsWith("_bytes") || name === "bytes"
        ? "bytes"
        : name.endsWith("_s") && !name.endsWith("_per_s")
          ? "s"
          : "";

/** A column's name without its unit. @param {string} name */
export const bare = (name) => words(name.replace(/_(bytes_per_s|flops_per_s|bytes|s)$/, ""));

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
  return `${words(name)} ${kindOf(name) ? quantity(value, kindOf(name)) : value}`;
}

/** Whether a column holds what was measured. @param {Row[]} rows @param {string} name */
const isNumberOf = (rows, name) =>
  MEASURED.test(name) && !ACROSS.includes(name) && rows.some((row) => typeof row[name] === "number");
/** @param {Row[]} rows @param {string} name */
const plain = (rows, name) => rows.every((row) => row[name] === null || typeof row[name] !== "object");

/** @param {TableInput} input @returns {TableFigure | null} */
export function usualChart({ rows, predicted, colour, narrow }) {
  const usable = rows.flatMap((row, at) =>
    (row.status ?? "ok") === "ok" ? [{ row, should: predicted[at] ?? {} }] : [],
  );
  const own = usable.map(({ row }) => row);
  const numbers = [...new Set(own.flatMap(Object.keys))].filter((name) => !SILENT.test(name) && isNumberOf(own, name));
  const has = (/** @type {string} */ name) => usable.filter(({ should }) => name in should).length;
  const y = [...numbers].sort((a, b) => has(b) - has(a))[0];
  if (!y) return null;
  const settings = varying(own).filter((name) => !isNumberOf(own, name) && plain(own, name));
  const numeric = settings.filter((name) => own.every((row) => typeof row[name] === "number"));
  const x = ACROSS.find((name) => numeric.includes(name)) ?? numeric[0];
  const kind = kindOf(y);
  const values = usable.flatMap(({ row, should }) => [row[y], should[y]]).filter((value) => value > 0);
  const scale = kind ? scaleFor(Math.max(...values, 0), kind) : { factor: 1, unit: "" };
  const title = `${bare(y)}${scale.unit ? `, ${scale.unit}` : ""}`;
  const shown = x ? lines() : bars();
  return {
    ...shown,
    title: x ? `${bare(y)} over ${words(x)}` : bare(y),
    said: "◆ measured, ○ predicted",
    summary: `${plural(usable.length, "row")}: ${bare(y)}${x ? ` over ${words(x)}` : ""}.`,
    table: {
      columns: [
        { title: "row", text: true },
        { title: bare(y), unit: kind || undefined },
        { title: "predicted", unit: kind || undefined },
      ],
      rows: rowWords(own).map((name, at) => [name, own[at][y] ?? null, usable[at].should[y] ?? null]),
    },
  };

  function lines() {
    const others = telling(
      own,
      settings.filter((name) => name !== x),
    );
    /** @type {Map<string, typeof usable>} */
    const series = new Map();
    for (const one of usable) {
      const name = others
        .map((other) => settingWords(other, one.row[other]))
        .filter(Boolean)
        .join(", ");
      series.set(name, [...(series.get(name) ?? []), one]);
    }
    const kept = [...series].filter(([, some]) => some.some(({ row }) => row[y] > 0)).slice(0, MOST_SERIES);
    const across = own.map((row) => row[x]);
    const wide = Math.max(...across) > 6 * Math.max(Math.min(...across), 1e-12);
    const tall = values.length > 0 && Math.max(...values) > 30 * Math.min(...values);
    const trace = (
      /** @type {typeof usable} */ some,
      /** @type {string} */ name,
      /** @type {number} */ at,
      /** @type {boolean} */ should,
    ) => {
      const points = [...some]
        .filter((one) => (should ? one.should : one.row)[y] > 0)
        .sort((a, b) => a.row[x] - b.row[x]);
      return {
        type: "scatter",
        mode: "lines+markers",
        name: `${name}${should ? ", predicted" : ""}`,
        x: points.map(({ row }) => row[x]),
        y: points.map((one) => (should ? one.should : one.row)[y] / scale.factor),
        line: { color: colour(SERIES[at]), width: 1.5, dash: should ? "dot" : "solid" },
        marker: { size: 8, symbol: should ? "circle-open" : "diamond", color: colour(SERIES[at]) },
        hovertemplate: `${escaped(name)}<br>${words(x)} %{x}: %{y:.4g} ${scale.unit} ${should ? "predicted" : "measured"}<extra></extra>`,
      };
    };
    /** @type {[string, string][]} */
    const legend = kept.map(([name], at) => [SERIES[at], name || bare(y)]);
    if (series.size > kept.length) legend.push(["line-strong", `and ${series.size - kept.length} more in the table`]);
    return {
      data: kept.flatMap(([name, some], at) => [trace(some, name, at, false), trace(some, name, at, true)]),
      legend,
      layout: layout(colour, {
        height: narrow ? 260 : 280,
        margin: { l: 56, r: 14, t: 10, b: 42 },
        xaxis: {
          title: { text: words(x) },
          type: wide ? "log" : "linear",
          tickangle: 0,
          ...(wide ? logTicks(across, true) : { nticks: 6 }),
        },
        yaxis: {
          title: { text: title },
          type: tall ? "log" : "linear",
          ...(tall
            ? logTicks(
                values.map((value) => value / scale.factor),
                true,
              )
            : { rangemode: "tozero", nticks: 6 }),
        },
      }),
    };
  }

  function bars() {
    const names = rowWords(own).map((name, at) => name || String(at + 1));
    const short = names.map((name) => escaped(name.length > 26 ? `${name.slice(0, 25)}…` : name));
    const at = own.map((_, place) => own.length - 1 - place);
    const bar = (/** @type {boolean} */ should) => ({
      type: "bar",
      orientation: "h",
      name: should ? "predicted" : "measured",
      y: at,
      x: usable.map((one) => ((should ? one.should : one.row)[y] ?? 0) / scale.factor),
      marker: barMarker(colour(SERIES[0]), colour, should),
      hovertemplate: `%{x:.4g} ${scale.unit} ${should ? "predicted" : "measured"}<extra></extra>`,
    });
    return {
      data: [bar(true), bar(false)],
      legend: /** @type {[string, string][]} */ ([]),
      layout: layout(colour, {
        height: narrow ? 260 : 280,
        barmode: "group",
        margin: { l: narrow ? 110 : 170, r: 14, t: 10, b: 42 },
        xaxis: { title: { text: title }, nticks: narrow ? 4 : 6, tickangle: 0 },
        yaxis: { tickvals: at, ticktext: short, showgrid: false, range: [-0.6, own.length - 0.4] },
      }),
    };
  }
}
