/** Plans and measurements as rows of one table: columns, groups, order, and values for its chart. Pure. */
import { bare } from "./figures/tables.js";
import { bytes, change, percent, seconds, short, significant, when } from "./format.js";
import { doubtOf, isTable, wasTraced } from "./measured.js";
import { chips, describe, same, shortLabel } from "./scenario.js";
import { pinned } from "./url.js";

/** @typedef {import("./types.js").Summary} Summary */
/** @typedef {import("./types.js").Scenario} Scenario */
/**
 * `key`: as a side of A | B has it; `values`: by column, null where not known; `rows`: of a table, 0 of a step.
 * @typedef {{key: string, label: string, predicted: boolean, pinned: boolean, rows: number,
 *   values: Record<string, any>, summary: Summary | null}} Item
 * @typedef {{key: string, title: string, number: boolean, write: (value: any) => string, kind?: string}} ItemColumn
 * @typedef {{find: string, group: string, sort: string, columns: string[], chart: string[]}} TableState  `sort`: a
 *   column, "-" before it from the largest on; `chart`: what is up and what across
 */

/** @type {TableState} */
export const USUAL_TABLE = { find: "", group: "", sort: "", columns: [], chart: ["step_s", "item"] };

const text = (/** @type {any} */ value) => String(value ?? "–");
/** Columns that every table has; the first are shown where nobody chose. @type {ItemColumn[]} */
const OWN = [
  { key: "kind", title: "", number: false, write: text },
  { key: "step_s", title: "step time", number: true, write: seconds, kind: "s" },
  { key: "delta", title: "Δ to A", number: true, write: change },
  { key: "error", title: "predicted, error", number: true, write: change },
  { key: "tokens_per_s", title: "tokens/s", number: true, write: short },
  { key: "mfu", title: "MFU", number: true, write: (value) => percent(value) },
  { key: "peak_bytes", title: "peak memory", number: true, write: bytes, kind: "bytes" },
  { key: "chips", title: "chips", number: true, write: significant },
  { key: "device", title: "device", number: false, write: text },
  { key: "model", title: "model", number: false, write: text },
  { key: "created_s", title: "when", number: true, write: (value) => (value ? when(value) : "bundled") },
  { key: "samples_per_s", title: "samples/s", number: true, write: short },
  { key: "predicted_s", title: "predicted step", number: true, write: seconds, kind: "s" },
  { key: "rows", title: "rows", number: true, write: significant },
  { key: "format", title: "what", number: false, write: text },
  { key: "status", title: "status", number: false, write: text },
];
const SHOWN = OWN.slice(0, 11).map(({ key }) => key);

/** Settings of a scenario, flat, without its parts' names. @param {any} scenario @param {import("./types.js").Catalog} catalog */
function settingsOf(scenario, catalog) {
  /** @type {Record<string, any>} */
  const found = {};
  for (const part of ["plan", "training"])
    for (const [name, value] of Object.entries(scenario?.[part] ?? {}))
      if (typeof value !== "object") found[name] = value;
  const { model } = scenario ?? {};
  const key = typeof model === "string" ? model : (model?.label ?? model?.name);
  if (key) found.model = catalog.models.find((one) => one.key === key)?.label ?? key;
  return found;
}

/**
 * How far a measurement's prediction is off; null where either says nothing, as beside its own result.
 * @param {Summary} summary @param {import("./types.js").Catalog} catalog
 */
export function errorOf(summary, catalog) {
  const { predicted, step_time_s, scenario, disturbance } = summary;
  if (!predicted || !step_time_s || disturbance || wasTraced(summary)) return null;
  return doubtOf(/** @type {any} */ (scenario ?? {}), catalog) ? null : predicted.step_time_s / step_time_s - 1;
}

/**
 * All that can stand at A or B, and tables: the plan of the panel, pinned plans, measurements.
 * @param {{scenario: Scenario, base: Scenario, catalog: import("./types.js").Catalog, pins: string[],
 *   measurements: Summary[] | null}} shown
 * @param {(scenario: Scenario) => import("./types.js").Estimate | null} estimateOf  as far as it is there
 * @param {number | null} a_s  step time of A, where something can be set against it
 * @param {boolean} [apart]  whether each table of a file is an item
 * @returns {Item[]}
 */
export function itemsOf({ scenario, base, catalog, pins, measurements }, estimateOf, a_s, apart = false) {
  const delta = (/** @type {number | null} */ step_s) => (step_s && a_s ? step_s / a_s - 1 : null);
  /** @param {string} key @param {string} label @param {Scenario} its @returns {Item} */
  const plan = (key, label, its) => {
    const one = estimateOf(its);
    return {
      key,
      label,
      predicted: true,
      pinned: key !== "plan",
      rows: 0,
      summary: null,
      values: {
        ...settingsOf(its, catalog),
        kind: one && !one.memory.fits ? "predicted, does not fit" : "predicted",
        step_s: one?.step_time_s ?? null,
        delta: delta(one?.step_time_s ?? null),
        tokens_per_s: one?.tokens_per_s ?? null,
        mfu: one?.mfu ?? null,
        peak_bytes: one?.memory.peak_bytes ?? null,
        chips: chips(its),
        device: catalog.chips.find(({ key: chip }) => chip === its.cluster.chip)?.label ?? null,
        rows: null,
      },
    };
  };
  const plans = pins
    .filter((pin) => pin.startsWith("s:"))
    .map((pin) => {
      const its = pinned(pin, base);
      const near = same(its.model, scenario.model) && !same(its, scenario);
      const label = near ? shortLabel(its, scenario, catalog) : describe(its, catalog);
      return plan(pin, label, its);
    });
  /** @param {Summary[]} file  tables that came in one file, else one measurement @returns {Item} */
  const measurement = (file) => {
    const [one] = file;
    const rows = file.reduce((sum, { rows: some }) => sum + some, 0);
    const { predicted } = one;
    const traced = wasTraced(one);
    // of a traced program all is predicted, and nothing was measured that could be held against it
    const step_s = traced ? (predicted?.step_time_s ?? null) : one.step_time_s;
    const perStep = predicted?.tokens || null;
    return {
      key: `m:${one.id}`,
      label: `${one.label || one.id}${file.length > 1 ? ` and ${file.length - 1} more` : ""}`,
      predicted: traced,
      pinned: pins.includes(`m:${one.id}`),
      rows,
      summary: one,
      values: {
        ...settingsOf(one.scenario, catalog),
        kind: isTable(one)
          ? file.length > 1
            ? `${file.length} tables`
            : "table"
          : one.disturbance
            ? `disturbed ${one.disturbance.toFixed(1)}×`
            : traced
              ? "traced, predicted"
              : "measured",
        step_s,
        delta: (one.has_scenario || traced) && !one.disturbance ? delta(step_s) : null,
        error: errorOf(one, catalog),
        tokens_per_s: step_s && perStep ? perStep / step_s : (one.tokens_per_s ?? null),
        samples_per_s: step_s && predicted?.samples ? predicted.samples / step_s : null,
        mfu: step_s && predicted ? (predicted.mfu * predicted.step_time_s) / step_s : null,
        peak_bytes: one.peak_bytes ?? (traced ? predicted?.peak_bytes || null : null),
        chips: predicted?.chips ?? (one.world_size || null), // rows of several numbers of chips
        device: one.device_name || null,
        created_s: one.created_s,
        predicted_s: predicted?.step_time_s ?? null,
        rows: rows || null,
        format: one.origin.format.replace(/^text\//, ""),
        status: one.status === "ok" ? null : one.status,
      },
    };
  };
  const steps = (measurements ?? []).filter((one) => !isTable(one)).map((one) => measurement([one]));
  /** @type {Map<string, Summary[]>} */
  const files = new Map();
  for (const one of (measurements ?? []).filter(isTable)) {
    // what is looked for by name stands by itself
    const file = (!apart && one.upload_id) || one.id;
    files.set(file, [...(files.get(file) ?? []), one]);
  }
  const numeric = (/** @type {Summary} */ x, /** @type {Summary} */ y) =>
    x.id.localeCompare(y.id, "en", { numeric: true });
  const tables = [...files.values()].map((file) => measurement(file.sort(numeric)));
  return [plan("plan", describe(scenario, catalog), scenario), ...plans, ...steps, ...tables];
}

/** All columns that some item has a value in; settings only where items differ. @param {Item[]} items @returns {ItemColumn[]} */
export function columnsOf(items) {
  const names = [...new Set(items.flatMap(({ values }) => Object.keys(values)))];
  const differ = (/** @type {string} */ name) =>
    new Set(items.map(({ values }) => values[name] ?? null).filter((value) => value !== null)).size > 1;
  const known = OWN.filter(({ key }) => items.some(({ values }) => (values[key] ?? null) !== null));
  const more = names
    .filter((name) => !OWN.some(({ key }) => key === name) && differ(name))
    .sort()
    .map((key) => ({
      key,
      title: bare(key),
      number: items.every(({ values }) => values[key] === undefined || typeof values[key] === "number"),
      write: (/** @type {any} */ value) => (typeof value === "number" ? significant(value, 15) : text(value)),
    }));
  return [...known, ...more];
}

/** Columns that are shown. @param {ItemColumn[]} all @param {TableState} table */
export const shownColumns = (all, { columns }) =>
  all.filter(({ key }) => (columns.length ? columns : SHOWN).includes(key));

/**
 * Items that hold every word that is looked for, in their order, by group; pinned ones first where nothing else says.
 * @param {Item[]} items @param {TableState} table @returns {{name: string, items: Item[]}[]}
 */
export function grouped(items, { find, group, sort }) {
  const words = find.toLowerCase().split(/\s+/).filter(Boolean);
  const found = items.filter(({ label, values, summary }) => {
    const all = [label, summary?.id, ...Object.values(values)].join(" ").toLowerCase();
    return words.every((word) => all.includes(word));
  });
  const key = sort.replace(/^-/, "");
  const sign = sort.startsWith("-") ? -1 : 1;
  const value = (/** @type {Item} */ one) => (key === "item" ? one.label : (one.values[key] ?? null));
  /** @param {Item} a @param {Item} b */
  const order = (a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === null || y === null) return Number(x === null) - Number(y === null);
    return sign * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y)));
  };
  const sorted = key ? [...found].sort(order) : [...found].sort((a, b) => Number(b.pinned) - Number(a.pinned));
  if (!group) return [{ name: "", items: sorted }];
  /** @type {Map<string, Item[]>} */
  const groups = new Map();
  for (const one of sorted) {
    const name = group === "file" ? (one.summary?.upload_id ?? "") : text(one.values[group]);
    groups.set(name, [...(groups.get(name) ?? []), one]);
  }
  return [...groups].map(([name, some]) => ({
    name: group === "file" ? (name ? `${some[0].label} and ${some.length - 1} more of its file` : "no file") : name,
    items: some,
  }));
}
