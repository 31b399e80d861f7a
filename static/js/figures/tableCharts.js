/**
 * The picture that a table deserves, by what its rows are of: lines, bars or stacks, measured and predicted. Pure; what
 * each looks like is for `tableChart.js`.
 */

import { bytes } from "../format.js";

/**
 * @typedef {import("../types.js").Part} Row
 * @typedef {{row: Row, should: Row}} Entry  a row and what it should have been
 * @typedef {{name: string, hue: number, symbol?: number, x: (number | string)[], y: (number | null)[],
 *   spread?: (number | null)[], predicted?: boolean, out?: (number | string)[]}} Drawn  `out`: places without memory
 * @typedef {{title: string, form: "lines" | "bars" | "stack", x: {label: string, log?: boolean},
 *   y: {label: string, kind: string, log?: boolean, base?: number}, series: Drawn[]}} Chart
 */

const PHASES = ["forward", "backward", "forward_backward", "step"];
const KINDS = ["_bytes_per_s", "_flops_per_s", "_bytes", "_flops", "_frac", "_s"];
const WIDE_RATIO = 30;
const MOST_SERIES = 16;
const LEAST_PLACES = 2;
const MOST_BARS = 24;

/** @param {string} name */
const said = (name) => name.replaceAll("_", " ");
/** @param {any} value @returns {value is number} */
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
/** The unit at the end of a column's name. @param {string} name */
const kindOf = (name) => (KINDS.find((kind) => name.endsWith(kind)) ?? "").slice(1);
/** @template T @param {T[]} values */
const distinct = (values) => [...new Set(values)];
/** @param {Entry[]} entries @param {string} name */
const valuesOf = (entries, name) =>
  distinct(entries.map(({ row }) => row[name]).filter((value) => value !== undefined));
/** Columns of `names` that tell rows apart. @param {Entry[]} entries @param {string[]} names */
const telling = (entries, names) => names.filter((name) => valuesOf(entries, name).length > 1);
/** @param {Row} row @param {string[]} names */
const labelled = (row, names) =>
  names
    .filter((name) => name !== "compile" || !names.includes("version"))
    .map((name) => worded(name, row[name]))
    .filter(Boolean)
    .join(", ");

/** A value as a legend says it. @param {string} name @param {any} value */
function worded(name, value) {
  if (value === undefined || value === null) return "";
  if (typeof value === "boolean") return value ? said(name) : `no ${said(name)}`;
  if (name.endsWith("_bytes") && isNumber(value)) return `${said(name.slice(0, -6))} ${bytes(value)}`;
  return typeof value === "number" ? `${said(name)} ${value}` : String(value).slice(0, 40);
}

/** @param {number[]} values */
const wide = (values) => {
  const positive = values.filter((value) => value > 0);
  return positive.length === values.length && Math.max(...positive) > WIDE_RATIO * Math.min(...positive);
};

/**
 * One line for each kind of row, and a second one where it is predicted.
 * @param {Entry[]} entries
 * @param {{title: string, x: string, y: string, by: string[], hue?: string, log?: boolean, out?: boolean}} what
 *   `hue`: the column that is told by colour, all others by the points' shape
 * @returns {Chart[]}
 */
function lines(entries, { title, x, y, by, hue = by[0], log = true, out = false }) {
  const some = entries.filter(({ row }) => isNumber(row[x]) && row[x] > 0 && y in row);
  if (!some.some(({ row }) => isNumber(row[y])) || valuesOf(some, x).length < LEAST_PLACES) return [];
  const names = telling(some, by);
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
    const without = out ? own.filter(({ row }) => row[y] === null).map(({ row }) => row[x]) : [];
    const spread = own.map(({ row }) => row[stdOf(y)] ?? null);
    series.push({ ...told, name: name || "measured", y: own.map(({ row }) => row[y]), out: without, spread });
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
      x: { label: said(x.replace(/_bytes$/, ", bytes")), log: wide(valuesOf(some, x)) || log },
      y: { label: said(y.slice(0, kind ? -kind.length - 1 : undefined)), kind, log: log || wide(all) },
      series: series.slice(0, 2 * MOST_SERIES),
    },
  ];
}

/** The column of a mean's spread. @param {string} name */
const stdOf = (name) => {
  const kind = kindOf(name);
  return kind ? `${name.slice(0, -kind.length - 1)}_std_${kind}` : `${name}_std`;
};

/**
 * Bars beside one another or on top of one another: a place for each row, a colour for each column.
 * @param {Entry[]} entries
 * @param {{title: string, place: (row: Row) => string, columns: string[], form?: "bars" | "stack", base?: number,
 *   label?: string, log?: boolean}} what
 * @returns {Chart[]}
 */
function bars(entries, { title, place, columns, form = "bars", base, label = "", log = false }) {
  const shown = columns.filter((name) => entries.some(({ row }) => isNumber(row[name])));
  if (!shown.length || !entries.length) return [];
  const names = unique(entries.map(({ row }) => place(row)));
  /** @type {Drawn[]} */
  const series = [];
  shown.forEach((name, hue) => {
    const of = said(name.slice(0, kindOf(name) ? -kindOf(name).length - 1 : undefined));
    const y = entries.map(({ row }) => (isNumber(row[name]) ? row[name] : null));
    series.push({ name: of, hue, x: names, y, spread: entries.map(({ row }) => row[stdOf(name)] ?? null) });
    const should = entries.map((one) => one.should[name] ?? null);
    if (should.some(isNumber)) series.push({ name: `${of} predicted`, hue, x: names, y: should, predicted: true });
  });
  const y = { label, kind: kindOf(shown[0]), log, ...(base !== undefined && { base }) };
  return [{ title, form, x: { label: "" }, y, series }];
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

const WIDTHS = ["d_model", "d_head", "head_dim"];
const VERSIONS = ["implementation", "version", "compile", "precision", "causal", ...WIDTHS];

/** Times and memory against the length, out of memory marked. @param {Entry[]} entries @returns {Chart[]} */
function attention(entries) {
  const hue = telling(entries, ["implementation", "version"])[0] ?? telling(entries, WIDTHS)[0] ?? WIDTHS[0];
  const passes = valuesOf(entries, "pass");
  const times = PHASES.flatMap((phase) =>
    lines(entries, {
      title: `${said(phase)} against length`,
      x: "seq_len",
      y: `${phase}_s`,
      by: VERSIONS,
      hue,
      out: true,
    }),
  );
  const medians = passes.flatMap((pass) =>
    lines(
      entries.filter(({ row }) => row.pass === pass && row.status !== "failed"),
      { title: `${said(String(pass))} against length`, x: "seq_len", y: "median_s", by: VERSIONS, hue, out: true },
    ),
  );
  return [...times, ...medians, ...memoryByLength(entries)];
}

/** @param {Entry[]} entries @returns {Chart[]} */
function memoryByLength(entries) {
  const hue = telling(entries, WIDTHS)[0] ?? telling(entries, ["model", "version"])[0] ?? "model";
  const by = ["model", "pass", "micro_batch", "attention", ...VERSIONS];
  return ["memory_before_backward_bytes", "peak_memory_bytes", "peak_bytes"].flatMap((y) =>
    lines(entries, { title: `${said(y.replace(/_bytes$/, ""))} against length`, x: "seq_len", y, by, hue }),
  );
}

/** Columns of one row that are of several implementations become rows of their own. @param {Entry[]} entries */
function implementations(entries) {
  const pattern = /^(.+?)_(forward|backward|forward_backward)_s$/;
  const names = distinct(entries.flatMap(({ row }) => Object.keys(row).map((name) => pattern.exec(name)?.[1])));
  const own = (/** @type {Row} */ row, /** @type {string} */ name) =>
    Object.fromEntries(
      Object.entries(row).flatMap(([column, value]) => {
        const found = pattern.exec(column);
        return found ? (found[1] === name ? [[`${found[2]}_s`, value]] : []) : [[column, value]];
      }),
    );
  /** @type {Entry[]} */
  const long = names
    .filter((name) => name !== undefined && name !== "forward")
    .flatMap((name) =>
      entries.map(({ row, should }) => ({
        row: { ...own(row, String(name)), implementation: name },
        should: own(should, String(name)),
      })),
    );
  const precisions = valuesOf(long, "precision");
  return [
    ...precisions.flatMap((precision) =>
      attention(long.filter(({ row }) => row.precision === precision)).map((chart) => ({
        ...chart,
        title: precisions.length > 1 ? `${chart.title}, ${precision}` : chart.title,
      })),
    ),
    ...speedups(entries),
  ];
}

/** Bars, and lines where they would be too many to be told apart. @param {Entry[]} entries @returns {Chart[]} */
function speedups(entries) {
  const columns = ["forward_speedup", "backward_speedup", "forward_backward_speedup"];
  const some = entries.filter(({ row }) => columns.some((name) => isNumber(row[name])));
  const by = ["precision", ...WIDTHS];
  if (some.length > MOST_BARS)
    return columns.flatMap((y) => lines(some, { title: `${said(y)} against length`, x: "seq_len", y, by }));
  const names = telling(entries, [...by, "seq_len"]);
  const place = (/** @type {Row} */ row) => labelled(row, names);
  return bars(some, { title: "speed-up", place, columns, base: 1, label: "times as fast" });
}

/** Time and bus bandwidth against size, a line for each count of ranks. @param {Entry[]} entries @returns {Chart[]} */
function collectives(entries) {
  const by = ["kind", "backend", "library", "world_size", "ranks", "dtype"];
  const hue = telling(entries, ["world_size", "ranks"])[0] ?? telling(entries, by)[0] ?? "kind";
  const size = entries.some(({ row }) => isNumber(row.size_bytes)) ? "size_bytes" : "bytes";
  const time = ["mean_s", "slowest_median_s", "median_s"].find((name) =>
    entries.some(({ row }) => isNumber(row[name])),
  );
  const rated = entries.map(({ row, should }) => ({
    row: { ...row, bus_bytes_per_s: row.bus_bytes_per_s ?? busRate(row, row[time ?? ""], row[size]) },
    should: { ...should, bus_bytes_per_s: should.bus_bytes_per_s ?? busRate(row, should[time ?? ""], row[size]) },
  }));
  return [
    ...lines(rated, { title: "time against size", x: size, y: time ?? "mean_s", by, hue }),
    ...lines(rated, { title: "bus bandwidth against size", x: size, y: "bus_bytes_per_s", by, hue }),
  ];
}

/** Bus bandwidth of an all-reduce: 2(n − 1)/n of size over time. @param {Row} row @param {any} time @param {any} size */
function busRate({ kind, world_size, ranks }, time, size) {
  const n = world_size ?? ranks;
  if (kind !== "all-reduce" || !(n > 1) || !isNumber(time) || !isNumber(size)) return null;
  return ((2 * (n - 1)) / n) * (size / time);
}

/** What of a step is which pass, and what of communication is not hidden. @param {Entry[]} entries @returns {Chart[]} */
function parallelSteps(entries) {
  const names = telling(entries, [
    "variant",
    "ddp_mode",
    "bucket_bytes",
    "model",
    "precision",
    "seq_len",
    "world_size",
  ]);
  const place = (/** @type {Row} */ row) => labelled(row, names) || String(row.ddp_mode ?? row.variant ?? "step");
  const wait = ["communication_wait_s", "exposed_communication_s"];
  const columns = ["forward_s", "backward_s", ...wait, "optimizer_s"];
  return bars(
    entries.filter(({ row }) => columns.some((name) => isNumber(row[name]))),
    {
      title: "parts of a step",
      place,
      columns,
      form: "stack",
    },
  );
}

/** @param {Entry[]} entries @returns {Chart[]} */
function parallelVariants(entries) {
  const names = telling(entries, ["model_size", "ddp_mode", "bucket_bytes", "backend", "variant"]).slice(0, 3);
  const long = entries.filter(({ row }) => row.repeat === undefined || row.repeat === entries[0].row.repeat);
  return bars(long, {
    title: "backward with its exchange",
    place: (row) => labelled(row, names),
    columns: ["backward_communication_s"],
  });
}

/** Lines where a length is swept, else bars by model. @param {Entry[]} entries @returns {Chart[]} */
function stepTimes(entries) {
  const by = ["model", "mode", "precision", "attention", "compile", "graph", "recompute", "micro_batch", "batch"];
  const swept = PHASES.flatMap((phase) =>
    lines(entries, {
      title: `${said(phase)} against length`,
      x: "seq_len",
      y: `${phase}_s`,
      by,
      hue: "model",
      out: true,
    }),
  );
  if (swept.length) return swept;
  const names = telling(entries, [...by, "seq_len"]);
  const place = (/** @type {Row} */ row) => labelled(row, names) || String(row.model ?? "step");
  return bars(entries, { title: "time by model and pass", place, columns: PHASES.map((phase) => `${phase}_s`) });
}

/** @param {Entry[]} entries @returns {Chart[]} */
function accumulation(entries) {
  const column = ["error", "relative_error"].find((name) => entries.some(({ row }) => isNumber(row[name]))) ?? "error";
  const some = entries
    .filter(({ row }) => isNumber(row[column]))
    .map(({ row }) => ({ row: { ...row, [column]: Math.abs(row[column]) }, should: {} }));
  const names = telling(some, ["experiment", "accumulator", "addend", "explicit_cast", "count", "value"]);
  return bars(some, {
    title: "error of the sum",
    place: (row) => labelled(row, names),
    columns: [column],
    log: true,
    label: "off by",
  });
}

/** @param {string} name @param {string[]} columns @param {string} title */
const listed = (name, columns, title) => (/** @type {Entry[]} */ entries) => {
  const scopes = telling(entries, ["scope"]);
  return bars(entries.slice(0, 40), { title, place: (row) => labelled(row, [name, ...scopes]), columns });
};

/** @type {Record<string, (entries: Entry[]) => Chart[]>} */
export const CHARTS = {
  "text/attention": attention,
  attention,
  "text/attention-memory": memoryByLength,
  memory: memoryByLength,
  "text/attention-implementations": implementations,
  "text/speedups": speedups,
  "text/collectives": collectives,
  collectives,
  "text/data-parallel-steps": parallelSteps,
  ddp: parallelSteps,
  "text/data-parallel-variants": parallelVariants,
  "text/step-times": stepTimes,
  step: stepTimes,
  "text/accumulation": accumulation,
  precision: accumulation,
  "text/kernel-shares": listed("kernel", ["time_frac"], "share of the time"),
  "text/timings": listed("name", ["mean_s"], "time"),
  "text/torch-benchmark": (entries) => {
    const names = telling(entries, ["label", "sub_label", "description", "threads"]);
    const columns = ["median_s", "mean_s"];
    return bars(entries.slice(0, 60), { title: "time", place: (row) => labelled(row, names), columns, log: true });
  },
  "text/flop-counts": (entries) => {
    const whole = entries.filter(({ row }) => !row.op).slice(0, 40);
    return bars(whole, { title: "FLOPs by module", place: (row) => row.module, columns: ["flops"] });
  },
  "text/tensors": (entries) => {
    const peaks = entries.filter(({ row }) => isNumber(row.peak_memory_bytes));
    const place = (/** @type {Row} */ row) => `${row.step_number}. ${row.step}`;
    return bars(peaks, { title: "peak of memory after each step", place, columns: ["peak_memory_bytes"] });
  },
};

/** By the origin of a measurement; any other table by its first column that is swept. @param {Entry[]} entries */
function generic(entries) {
  const names = distinct(entries.flatMap(({ row }) => Object.keys(row)));
  const numeric = names.filter((name) => entries.some(({ row }) => isNumber(row[name])));
  const figures = numeric.filter((name) => kindOf(name) && !/_(?:std|min|max)_/.test(name));
  const swept = numeric.find((name) => !kindOf(name) && valuesOf(entries, name).filter(isNumber).length > LEAST_PLACES);
  const [y] = figures.length ? figures : numeric.filter((name) => name !== swept);
  if (!y) return [];
  const texts = names.filter((name) => entries.some(({ row }) => typeof row[name] === "string"));
  if (swept) {
    const by = telling(entries, [...texts, ...numeric.filter((name) => !kindOf(name) && name !== swept)]).slice(0, 2);
    const ofKind = figures.filter((name) => kindOf(name) === kindOf(y)).slice(0, 3);
    return (ofKind.length ? ofKind : [y]).flatMap((column) =>
      lines(entries, { title: `${said(column)} by ${said(swept)}`, x: swept, y: column, by, log: false }),
    );
  }
  const columns = figures.filter((name) => kindOf(name) === kindOf(y)).slice(0, 4);
  const place = (/** @type {Row} */ row) => labelled(row, texts.slice(0, 2));
  return texts.length
    ? bars(entries.slice(0, 40), { title: said(y), place, columns: columns.length ? columns : [y] })
    : [];
}

/**
 * @param {{origin: Row, rows: Row[]}} measurement
 * @param {{rows: Row[]} | null} predicted  of its rows, one for one
 * @returns {Chart[]}
 */
export function chartsOf({ origin, rows }, predicted) {
  const entries = rows.map((row, at) => ({ row, should: predicted?.rows[at] ?? {} }));
  if (!entries.length) return [];
  const charts = (CHARTS[origin.format] ?? generic)(entries);
  return charts.length || !CHARTS[origin.format] ? charts : generic(entries);
}
