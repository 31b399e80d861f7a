/** The whole state of the page as a query string, and back. Pure. Only what differs from the start state is written. */
import { USUAL_TABLE } from "./items.js";
import { same } from "./scenario.js";

/** @typedef {import("./types.js").Scenario} Scenario */
/**
 * @typedef {{view: string, scenario: Scenario, measured: string, pins: string[], run: string, open: string,
 *   study?: string, settings?: Record<string, string>, wanted?: Wanted, split?: Split,
 *   table?: import("./items.js").TableState, a: string, b: string, usd_per_hour: number,
 *   run_tokens: number, calibration: string, sweep: string}} Place  `sweep`: the field that is swept, "" for none; `open`: the table that is open; `a`, `b`: what is set against each other, ""
 *   where nobody chose (sides.js); `calibration`: id of the one that predictions are under; `usd_per_hour`: of one chip, 0: the catalogue's; `run_tokens`: of the whole run; `settings`: inputs of the study
 *   that are not its own
 * @typedef {{objective: string, memory_gb: number, slowest_s: number, least_chips: number, most_chips: number, days: number,
 *   locked: Record<string, string>, axes: string[], cells: string[]}} Wanted  what a search looks for; a limit of 0 is
 *   none, `most_chips` of 0: the scenario's number, `least_chips` of 0: only that, or any of fewer for the cheapest; `days`: of the whole run; `axes` of its figure, `cells` of its
 *   heatmap
 * @typedef {{ranks: number, metric: string}} Split  ways to split one model: chips in the group (0: the scenario's)
 */

export const VIEWS = ["explore", "search", "runs", "measurements", "studies"];
/** What page an older link means: Compare became the table of Measurements, ways to split a model a study. */
const FORMER_VIEW = "compare";
/** The study of ways to split one model. */
export const WAYS = "ways-to-split";
export const OBJECTIVES = ["step_time", "cost", "memory"];
/** @type {Wanted} */
export const ANYTHING = {
  objective: OBJECTIVES[0],
  memory_gb: 0,
  slowest_s: 0,
  least_chips: 0,
  most_chips: 0,
  days: 0,
  locked: {},
  axes: ["time", "memory"],
  cells: ["tp", "pp"],
};
/** Numbers of a search of which 0 is none. */
const NUMBERS = /** @type {const} */ (["memory_gb", "slowest_s", "least_chips", "most_chips", "days"]);
/** Pairs of words of a search. */
const PAIRS = /** @type {const} */ (["axes", "cells"]);
/** @type {Split} */
export const USUAL_SPLIT = { ranks: 0, metric: "block_s" };
const SPLIT_METRICS = ["block_s", "communication_bytes", "communication_s", "activations_bytes"];

/** Write the fields in which `scenario` differs from `base`. @param {Scenario} scenario @param {Scenario} base */
function encodeScenario(scenario, base) {
  const found = new URLSearchParams();
  const text = (/** @type {any} */ value) => (typeof value === "object" ? JSON.stringify(value) : String(value));
  if (!same(scenario.model, base.model)) found.set("model", text(scenario.model));
  for (const part of /** @type {const} */ (["cluster", "plan", "training"])) {
    for (const [name, value] of Object.entries(scenario[part])) {
      if (!same(value, base[part][name])) found.set(name, text(value));
    }
  }
  // a field that only the base has (a link of its own) is written as empty
  for (const name of Object.keys(base.cluster)) if (!(name in scenario.cluster)) found.set(name, "");
  return found;
}

/**
 * Read what encodeScenario wrote; words that no field knows are left alone.
 * @param {URLSearchParams} query
 * @param {Scenario} base
 * @returns {Scenario}
 */
function decodeScenario(query, base) {
  const scenario = structuredClone(base);
  const model = query.get("model");
  if (model) scenario.model = object(model);
  for (const name of ["chip", "link", "network"]) {
    const value = query.get(name);
    if (value) scenario.cluster[name] = object(value);
    else if (value === "") delete scenario.cluster[name];
  }
  for (const part of /** @type {const} */ (["cluster", "plan", "training"])) {
    for (const [name, old] of Object.entries(base[part])) {
      const value = query.get(name);
      if (value === null || value === "" || ["chip", "link", "network"].includes(name)) continue;
      if (typeof old === "boolean") scenario[part][name] = value === "true";
      else if (typeof old === "number") {
        if (Number.isFinite(Number(value))) scenario[part][name] = Number(value);
      } else scenario[part][name] = value;
    }
  }
  return scenario;
}

/** @param {string} text */
function object(text) {
  if (!text.startsWith("{")) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** @param {Place} place @param {Scenario} base @param {string} sample  measurement that is shown where none is named */
export function encode(place, base, sample) {
  const query = encodeScenario(place.scenario, base);
  if (place.view !== "explore") query.set("view", place.view);
  if (place.measured !== sample) query.set("measured", place.measured || "none");
  if (place.a) query.set("a", place.a);
  if (place.b) query.set("b", place.b);
  if (place.usd_per_hour > 0) query.set("usd_per_hour", String(place.usd_per_hour));
  if (place.run_tokens > 0) query.set("run_tokens", String(place.run_tokens));
  if (place.calibration) query.set("calibration", place.calibration);
  if (place.sweep) query.set("sweep", place.sweep);
  for (const pin of place.pins) query.append("pin", pin);
  if (place.run && place.view === "runs") query.set("run", place.run);
  if (place.view === "studies") {
    if (place.study) query.set("study", place.study);
    for (const [name, value] of Object.entries(place.settings ?? {})) query.append("set", `${name}=${value}`);
  }
  if (place.open) query.set("open", place.open);
  if (place.view === "measurements") encodeTable(query, place.table ?? USUAL_TABLE);
  if (place.view === "studies" && place.study === WAYS) {
    if (place.split?.ranks) query.set("ranks", String(place.split.ranks));
    if (place.split && place.split.metric !== USUAL_SPLIT.metric) query.set("by", place.split.metric);
  }
  if (place.view === "search") encodeWanted(query, place.wanted ?? ANYTHING);
  const text = query.toString();
  return text ? `?${text}` : "";
}

/** @param {string} search @param {Scenario} base @param {string} sample @returns {Place} */
export function decode(search, base, sample) {
  const query = new URLSearchParams(search);
  const view = viewIn(query);
  const measured = query.get("measured") ?? sample;
  return {
    view,
    scenario: decodeScenario(query, base),
    measured: measured === "none" ? "" : measured,
    a: sideIn(query.get("a")),
    b: sideIn(query.get("b")),
    usd_per_hour: Math.max(0, Number(query.get("usd_per_hour")) || 0),
    run_tokens: Math.max(0, Number(query.get("run_tokens")) || 0),
    calibration: query.get("calibration") ?? "",
    sweep: /^(plan|training|cluster|hardware)\.\w{1,40}$/.exec(query.get("sweep") ?? "")?.[0] ?? "",
    pins: query
      .getAll("pin")
      .filter((pin) => /^[ms]:/.test(pin))
      .slice(0, 64),
    run: query.get("run") ?? "",
    open: query.get("open") ?? "",
    ...(view === "measurements" && { table: decodeTable(query) }),
    ...((query.has("ranks") || query.has("by")) && { split: decodeSplit(query) }),
    ...(view === "search" && { wanted: decodeWanted(query) }),
    ...(view === "studies" && {
      study: query.get("study") ?? (query.get("view") === FORMER_VIEW ? WAYS : ""),
      settings: settings(query.getAll("set")),
    }),
  };
}

/** @param {string | null} text  a side of the comparison */
const sideIn = (text) => (text && /^(plan|own|[ms]:.*)$/.test(text) ? text : "");

const PLACES = [
  "model",
  "view",
  "measured",
  "a",
  "b",
  "usd_per_hour",
  "run_tokens",
  "calibration",
  "sweep",
  "pin",
  "baseline",
  "run",
  "open",
  "study",
  "set",
  "shown",
  "ranks",
  "by",
];
const TABLED = ["find", "group", "sort", "columns", "chart"];
const SEARCHED = ["objective", ...NUMBERS, ...PAIRS, "lock"];

/**
 * What a link says that no part of the page reads: names, and values that are no number, or no yes or no, where one is
 * needed.
 * @param {string} search @param {Scenario} base @returns {string[]}
 */
export function unknownIn(search, base) {
  /** @type {Record<string, any>} */
  const fields = { ...base.cluster, ...base.plan, ...base.training, link: "", network: "" };
  const places = [...PLACES, ...SEARCHED, ...TABLED];
  const found = [...new URLSearchParams(search)].filter(([name, value]) => {
    if (name === "view") return ![...VIEWS, FORMER_VIEW].includes(value);
    if (places.includes(name)) return false;
    if (!(name in fields)) return true;
    if (typeof fields[name] === "boolean") return value !== "true" && value !== "false";
    return typeof fields[name] === "number" && (value === "" || !Number.isFinite(Number(value)));
  });
  return [
    ...new Set(found.map(([name, value]) => (name in fields || name === "view" ? `${name}=${value}` : name))),
  ].map((text) => (text.length > 40 ? `${text.slice(0, 39)}…` : text));
}

/** @param {URLSearchParams} query */
function viewIn(query) {
  const view = query.get("view") ?? "explore";
  if (view === FORMER_VIEW) return query.has("ranks") || query.has("by") ? "studies" : "measurements";
  return VIEWS.includes(view) ? view : "explore";
}

/** @param {URLSearchParams} query @param {import("./items.js").TableState} table */
function encodeTable(query, { find, group, sort, columns, chart }) {
  if (find) query.set("find", find);
  if (group) query.set("group", group);
  if (sort) query.set("sort", sort);
  if (columns.length) query.set("columns", columns.join("-"));
  if (!same(chart, USUAL_TABLE.chart)) query.set("chart", chart.join("-"));
}

/** @param {URLSearchParams} query @returns {import("./items.js").TableState} */
function decodeTable(query) {
  const words = (/** @type {string} */ name) =>
    (query.get(name) ?? "").split("-").filter((word) => /^\w{1,40}$/.test(word));
  const word = (/** @type {string} */ name) => (/^-?\w{1,40}$/.exec(query.get(name) ?? "") ?? [""])[0];
  const chart = words("chart");
  return {
    find: query.get("find") ?? "",
    group: word("group"),
    sort: word("sort"),
    columns: words("columns"),
    chart: chart.length === 2 ? chart : USUAL_TABLE.chart,
  };
}

/** @param {URLSearchParams} query @param {Wanted} wanted */
function encodeWanted(query, wanted) {
  if (wanted.objective !== OBJECTIVES[0]) query.set("objective", wanted.objective);
  for (const name of NUMBERS) if (wanted[name] > 0) query.set(name, String(wanted[name]));
  for (const name of PAIRS) if (!same(wanted[name], ANYTHING[name])) query.set(name, wanted[name].join("-"));
  for (const [name, value] of Object.entries(wanted.locked)) query.append("lock", `${name}=${value}`);
}

/** @param {URLSearchParams} query @returns {Split} */
const decodeSplit = (query) => ({
  ranks: Math.max(0, Number.parseInt(query.get("ranks") ?? "0", 10) || 0),
  metric: SPLIT_METRICS.find((one) => one === query.get("by")) ?? USUAL_SPLIT.metric,
});

/** @param {URLSearchParams} query @returns {Wanted} */
function decodeWanted(query) {
  const objective = query.get("objective") ?? "";
  const pair = (/** @type {"axes" | "cells"} */ name) => {
    const words = (query.get(name) ?? "").split("-");
    return words.length === 2 && words.every((word) => /^\w{1,32}$/.test(word)) ? words : ANYTHING[name];
  };
  return {
    objective: OBJECTIVES.includes(objective) ? objective : OBJECTIVES[0],
    .../** @type {Record<typeof NUMBERS[number], number>} */ (
      Object.fromEntries(NUMBERS.map((name) => [name, Math.max(0, Number(query.get(name)) || 0)]))
    ),
    locked: settings(query.getAll("lock")),
    axes: pair("axes"),
    cells: pair("cells"),
  };
}

/** Inputs of a study from "name=value" texts. @param {string[]} texts */
const settings = (texts) =>
  Object.fromEntries(
    texts
      .slice(0, 64)
      .map((text) => /^(\w{1,64})=(.{1,64})$/.exec(text)?.slice(1) ?? [])
      .filter(([name]) => name),
  );

/** A pinned scenario as one word. @param {Scenario} scenario @param {Scenario} base */
export const pinOf = (scenario, base) => `s:${encodeScenario(scenario, base)}`;
/** @param {string} pin @param {Scenario} base */
export const pinned = (pin, base) => decodeScenario(new URLSearchParams(pin.slice(2)), base);
