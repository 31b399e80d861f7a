/**
 * The picture that a table deserves, by what its rows are of; of a kind that nobody knows: `genericChart.js`. Pure; rows
 * become lines and bars in `tableSeries.js`, what each looks like is for `tableChart.js`.
 */

import { generic } from "./genericChart.js";
import {
  bars,
  distinct,
  isNumber,
  labelled,
  lines,
  MOST_ROWS,
  ofRepeats,
  said,
  telling,
  valuesOf,
} from "./tableSeries.js";

/** @typedef {import("./tableSeries.js").Row} Row */
/** @typedef {import("./tableSeries.js").Entry} Entry */
/** @typedef {import("./tableSeries.js").Chart} Chart */

const PHASES = ["forward", "backward", "forward_backward", "step"];
const OF_A_STEP = ["forward", "backward", "forward_backward", "optimizer", "step"];
const MOST_BARS = 24;
const MOST_HELD = 20;
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
    lines(entries, { title: `${said(y.replace(/_bytes$/, ""))} against length`, x: "seq_len", y, by, hue, out: true }),
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

/** How often a payload crosses a rank's link but for the share (n − 1)/n, as nccl-tests counts bus bandwidth. */
const CROSSINGS = /** @type {Record<string, number>} */ ({
  "all-reduce": 2,
  "all-gather": 1,
  "reduce-scatter": 1,
  "all-to-all": 1,
});

/**
 * The bus bandwidth that a row states, else what its time, size and ranks make: older imports kept no more.
 * @param {Row} row @param {string} size @param {string} time
 */
function busRate(row, size, time) {
  const ranks = row.world_size ?? row.ranks;
  const known = [row[size], row[time], ranks].every(isNumber) && row[time] > 0 && ranks > 1;
  if (isNumber(row.bus_bytes_per_s) || !known || !(row.kind in CROSSINGS)) return row.bus_bytes_per_s;
  return (((row[size] / row[time]) * (ranks - 1)) / ranks) * CROSSINGS[row.kind];
}

/** Time and bus bandwidth against size, a line for each count of ranks. @param {Entry[]} entries @returns {Chart[]} */
function collectives(entries) {
  const by = ["kind", "backend", "library", "world_size", "ranks", "dtype"];
  const hue = telling(entries, ["world_size", "ranks"])[0] ?? telling(entries, by)[0] ?? "kind";
  const size = entries.some(({ row }) => isNumber(row.size_bytes)) ? "size_bytes" : "bytes";
  const time =
    ["mean_s", "slowest_median_s", "median_s"].find((name) => entries.some(({ row }) => isNumber(row[name]))) ?? "";
  // of the same bytes, what takes half as long is twice as fast
  const whole = entries.map(({ row, should }) => {
    const rate = busRate(row, size, time);
    return { row: isNumber(rate) ? { ...row, bus_bytes_per_s: rate } : row, should };
  });
  const rated = whole.map(({ row, should }) => ({
    row,
    should:
      should[time] && isNumber(row.bus_bytes_per_s) && !isNumber(should.bus_bytes_per_s)
        ? { ...should, bus_bytes_per_s: (row.bus_bytes_per_s * row[time]) / should[time] }
        : should,
  }));
  return [
    ...lines(rated, { title: "time against size", x: size, y: time, by, hue }),
    ...lines(rated, { title: "bus bandwidth against size", x: size, y: "bus_bytes_per_s", by, hue }),
  ];
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
  const column = "backward_communication_s";
  const settings = telling(entries, ["model_size", "backend", "world_size", "ddp_mode", "bucket_bytes"]);
  const names = settings.includes("ddp_mode") ? settings : [...settings, ...telling(entries, ["variant"])];
  const { entries: some, spread, most } = ofRepeats(entries, names, column);
  const title = "backward with its exchange";
  return bars(some, {
    title: most > 1 ? `${title}: median of up to ${most} repeats, least to most` : title,
    place: (row) => labelled(row, names) || String(row.variant ?? "step"),
    columns: [column],
    spread,
  });
}

/** Lines where a length is swept, else bars by model. @param {Entry[]} entries @returns {Chart[]} */
function stepTimes(entries) {
  const by = ["model", "mode", "precision", "attention", "compile", "graph", "recompute", "micro_batch", "batch"];
  const hue = telling(entries, by)[0] ?? "model";
  const swept = OF_A_STEP.flatMap((phase) =>
    lines(entries, {
      title: `${said(phase)} against length`,
      x: "seq_len",
      y: `${phase}_s`,
      by,
      hue,
      out: true,
    }),
  );
  if (swept.length) return swept;
  const names = telling(entries, [...by, "seq_len"]);
  const place = (/** @type {Row} */ row) => labelled(row, names) || String(row.model ?? "step");
  const columns = OF_A_STEP.map((phase) => `${phase}_s`);
  const times = bars(entries, { title: "time by model and pass", place, columns });
  return times.length ? times : rates(entries);
}

/** Peaks against length, a hue for each pass, else bars. @param {Entry[]} entries @returns {Chart[]} */
function stepMemory(entries) {
  const by = ["model", "pass", "precision", "micro_batch", "batch"];
  const hue = telling(entries, ["pass", "model", "precision"])[0] ?? "pass";
  const title = "peak against length";
  const swept = lines(entries, { title, x: "seq_len", y: "peak_bytes", by, hue, out: true });
  if (swept.length) return swept;
  const place = (/** @type {Row} */ row) => labelled(row, telling(entries, [...by, "seq_len"])) || String(row.model);
  return bars(entries, { title: "peak by model and pass", place, columns: ["peak_bytes"] });
}

/** Of a table of rates alone, a bar for each row. @param {Entry[]} entries @returns {Chart[]} */
function rates(entries) {
  const some = entries.slice(0, MOST_ROWS);
  const names = telling(some, ["model", "gpu", "gpus", "seq_len", "precision", "sharding", "micro_batch", "batch"]);
  const place = (/** @type {Row} */ row) => labelled(row, names.slice(0, 4)) || String(row.model ?? "step");
  return ["tokens", "samples"].flatMap((counted) =>
    ["_per_gpu", ""].flatMap((each) =>
      bars(some, {
        title: `${counted} a second${each && " and GPU"}`,
        place,
        columns: [`${counted}_per_s${each}`],
        label: `${counted}/s`,
      }),
    ),
  );
}

/** @param {Entry[]} entries @returns {Chart[]} */
function accumulation(entries) {
  const column = ["error", "relative_error"].find((name) => entries.some(({ row }) => isNumber(row[name]))) ?? "error";
  const some = entries
    .filter(({ row }) => isNumber(row[column]))
    .map(({ row }) => ({ row: { ...row, [column]: Math.abs(row[column]) }, should: {} }));
  const names = telling(some, ["experiment", "variant", "accumulator", "addend", "explicit_cast", "count", "value"]);
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
  return bars(entries.slice(0, MOST_ROWS), { title, place: (row) => labelled(row, [name, ...scopes]), columns });
};

/** @type {Record<string, (entries: Entry[]) => Chart[]>} */
const CHARTS = {
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
  "text/step-memory": stepMemory,
  "text/step-times": stepTimes,
  "text/measured-runs": (entries) => {
    const by = ["model", "hardware", "n_gpus", "precision", "seq_len", "global_batch", "tp", "pp", "recompute"];
    const some = entries.filter(({ row }) => isNumber(row.measured_step_time_s)).slice(0, MOST_ROWS);
    const names = telling(some, by).slice(0, 4);
    const place = (/** @type {Row} */ row) => labelled(row, names) || String(row.source_id ?? "step");
    return bars(some, { title: "time of a step", place, columns: ["measured_step_time_s"], log: true });
  },
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
    const whole = entries.filter(({ row }) => !row.op).slice(0, MOST_ROWS);
    return bars(whole, { title: "FLOPs by module", place: (row) => row.module, columns: ["flops"] });
  },
  "text/layer-costs": (entries) => {
    const place = (/** @type {Row} */ row) => String(row.layer);
    const held = ["activation_buffer_bytes", "weights_mem_bytes"];
    return [
      ...bars(entries, { title: "time of each layer", place, columns: ["total_fwd_s", "total_bwd_s"] }),
      ...bars(entries, { title: "memory of each layer", place, columns: held, form: "stack" }),
    ];
  },
  "text/deepflow": (entries) => {
    const place = (/** @type {Row} */ row) => row.op;
    const parts = entries.filter(({ row }) => row.group === "component");
    const ops = entries.filter(({ row }) => row.time_s && !["component", "result"].includes(row.group));
    const sizes = entries.filter(({ row }) => row.size_bytes).slice(0, MOST_BARS);
    return [
      ...bars(parts, { title: "time of each part", place, columns: ["time_s"], log: true }),
      ...bars(ops, { title: "time of each operation", place, columns: ["time_s"], log: true }),
      ...bars(sizes, { title: "sizes", place, columns: ["size_bytes"], log: true }),
    ];
  },
  snapshot: (entries) => [
    ...lines(entries, {
      title: "memory over time",
      x: valuesOf(entries, "time_s").length > 1 ? "time_s" : "entry",
      y: "allocated_bytes",
      by: [],
      log: false,
    }),
    ...bars(entries.filter(({ row }) => row.held_bytes).slice(0, MOST_HELD), {
      title: "what held it at the peak",
      place: (row) => row.place || "before the history",
      columns: ["held_bytes"],
    }),
  ],
  "text/tensors": (entries) => {
    const peaks = entries.filter(({ row }) => isNumber(row.peak_memory_bytes));
    const place = (/** @type {Row} */ row) => `${row.step_number}. ${row.step}`;
    return bars(peaks, { title: "peak of memory after each step", place, columns: ["peak_memory_bytes"] });
  },
};

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
