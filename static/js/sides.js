/** A and B: which two things the page sets against each other, and what each says of its step. Pure. */
import { when } from "./format.js";
import {
  apart,
  deviceName,
  disturbance,
  doubtOf,
  isTraced,
  loggedMfu,
  loggedRows,
  measuredChip,
  saysAll,
  seemsOf,
  stepTime,
  tracedSettings,
  total,
} from "./measured.js";
import { chips, chipOf, describe, same, shortLabel } from "./scenario.js";
import { pinned, pinOf } from "./url.js";

/** @typedef {import("./types.js").Scenario} Scenario */
/** @typedef {import("./types.js").Estimate} Estimate */
/** @typedef {import("./types.js").Measurement} Measurement */
/**
 * One side. `key`: "plan" (what the panel edits), "s:…" (another plan), "m:ID" (a measurement, or a traced program as its
 * own ops predict it), "own" (what the chosen profile's own ops should take). `own`: those ops, where they predict it. `range_s`: the interval of a prediction, the spread of a measurement. `samples`: of a
 * step of a program that looks up no tokens. `logged`: what a log's own rate says, of one GPU or of nobody knows how many.
 * @typedef {{key: string, letter: "A" | "B", predicted: boolean, kind: "predicted" | "measured" | "traced", name: string, extra: string, scenario: Scenario | null,
 *   estimate: Estimate | null, own: import("./types.js").OwnPrediction | null, measurement: Measurement | null, item: any, chip: import("./types.js").Part,
 *   step_s: number | null,
 *   breakdown_s: Record<string, number> | null, phases_s: Record<string, number> | null,
 *   range_s: [number, number] | null, tokens: number | null, samples: number | null,
 *   logged: ReturnType<typeof loggedRows>, chips: number | null, mfu: number | null,
 *   peak_bytes: number | null, capacity_bytes: number | null, fits: boolean, risk_frac: number | null,
 *   disturbed: number, settings: Record<string, string>}} Side  `settings`: what a traced program was run with
 * @typedef {{a: Side | null, b: Side | null, edited: "A" | "B" | ""}} Pair
 * @typedef {{a: string, b: string, scenario: Scenario, estimate: Estimate | null, estimated: Scenario | null,
 *   measured: string, measurement: Measurement | null, measuredScenario: Scenario | null, base: Scenario,
 *   catalog: import("./types.js").Catalog}} Shown
 * @typedef {{estimate: (scenario: Scenario) => Estimate | null, measurement: (id: string) => Measurement | null}} Known
 */

/**
 * The keys of both sides; "" where there is nothing to set against. What nobody chose follows the run: its own
 * prediction before it, and once the plan is moved away from it, the plan that ran before the one that is edited. A traced
 * program stands there as its own ops predict it, before the catalogue's form of it once its scenario is known.
 * @param {Shown} shown @returns {[string, string]}
 */
export function chosenSides(shown) {
  const { a, b, measured, measurement, measuredScenario, scenario, base } = shown;
  if (a || b) return [a, b];
  if (!measured) return ["plan", ""];
  const run = `m:${measured}`;
  if (!measurement) return same(scenario, base) ? ["plan", run] : ["plan", ""];
  if (isTraced(measurement) && measurement.expected) {
    if (!measuredScenario) return [run, ""];
    if (same(measuredScenario, scenario)) return [run, "plan"];
  }
  if (!measuredScenario && measurement.expected) return ["own", run];
  if (!measuredScenario) {
    const its = seemsOf(measurement, shown.catalog);
    return [its && same(its, scenario) ? "plan" : "", run];
  }
  if (same(measuredScenario, scenario)) return ["plan", run];
  return apart(shown, scenario) ? ["plan", ""] : [pinOf(measuredScenario, base), "plan"];
}

/** @param {Shown} shown @param {Known} known @returns {Pair} */
export function pairOf(shown, known) {
  const [first, second] = chosenSides(shown);
  const a = first ? sideOf(first, "A", shown, known, null) : null;
  const b = second ? sideOf(second, "B", shown, known, a) : null;
  if (a && b) [a.extra, b.extra] = extrasOf(a, b);
  return { a, b, edited: first === "plan" ? "A" : second === "plan" ? "B" : "" };
}

/**
 * What stands behind the names of both: of two measurements of one name, as of files of two folders, when they came, too.
 * @param {Side} a @param {Side} b @returns {[string, string]}
 */
export function extrasOf(a, b) {
  if (a.name !== b.name || !a.measurement || !b.measurement || a.key === b.key) return [a.extra, b.extra];
  const [first, second] = [a, b].map(({ extra, measurement }) =>
    [extra, cameAt(measurement?.id ?? "")].filter(Boolean).join(", "),
  );
  return [first, second];
}

/** When a measurement came here, with which its id begins in universal time; "" of a bundled one. @param {string} id */
function cameAt(id) {
  const [, ...parts] = /^(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)(\d\d)/.exec(id) ?? [];
  if (!parts.length) return "";
  const [year, month, day, hour, minute, second] = parts.map(Number);
  return `${when(Date.UTC(year, month - 1, day, hour, minute, second) / 1000)}:${parts[5]}`;
}

/** Tokens of a step, whole as they are. @param {Estimate} estimate */
const perStep = ({ tokens_per_s, step_time_s }) => (tokens_per_s ? Math.round(tokens_per_s * step_time_s) : null);

/**
 * Tokens of a measured step, else its samples: of its scenario, of the one that its shapes propose, or what its own loss
 * is taken over.
 * @param {Measurement | null} measurement @returns {{tokens: number | null, samples: number | null}}
 */
function rowsOf(measurement) {
  const { prediction, proposed, expected } = measurement ?? {};
  if (prediction) return { tokens: perStep(prediction), samples: null };
  if (expected?.rows === "samples") return { tokens: null, samples: perStep(expected.estimate) };
  const training = proposed?.scenario?.training;
  if (training) return { tokens: training.seq_len * training.global_batch, samples: null };
  const logged = loggedRows(measurement);
  if (logged && measurement && measurement.world_size > 1) {
    const all = logged.amount * (logged.each ? measurement.world_size : 1);
    return logged.of === "tokens" ? { tokens: all, samples: null } : { tokens: null, samples: all };
  }
  return { tokens: expected ? perStep(expected.estimate) : null, samples: null };
}

/** Why nobody knows what a side's throughput would count; "" where that is known, or the side is not there yet. @param {Side} side */
export function uncounted({ own, tokens, samples, logged, scenario, measurement, estimate }) {
  if (tokens || samples || logged || scenario || !(measurement || estimate)) return "";
  if (own || measurement?.expected) return "no loss tells its tokens";
  return measurement?.prediction ? "" : "its scenario is not known";
}

/** What of a side is made anew each time. @type {(keyof Side)[]} */
const MADE = ["item", "scenario", "chip", "range_s", "logged", "settings"];

/** Whether two pairs say the same. @param {Pair | null} one @param {Pair} other */
export function samePair(one, other) {
  const alike = (/** @type {Side | null} */ a, /** @type {Side | null} */ b) =>
    a === b ||
    Boolean(
      a &&
      b &&
      /** @type {(keyof Side)[]} */ (Object.keys(a)).every(
        (key) => a[key] === b[key] || (MADE.includes(key) && same(a[key], b[key])),
      ),
    );
  return Boolean(one && one.edited === other.edited && alike(one.a, other.a) && alike(one.b, other.b));
}

/**
 * @param {string} key @param {"A" | "B"} letter @param {Shown} shown @param {Known} known @param {Side | null} beside
 * @returns {Side}
 */
function sideOf(key, letter, shown, known, beside) {
  if (key === "plan" || key.startsWith("s:")) {
    const own = key === "plan";
    const scenario = own ? (shown.estimated ?? shown.scenario) : pinned(key, shown.base);
    const estimate = own ? shown.estimate : known.estimate(scenario);
    return predictedSide(key, letter, scenario, estimate, namesOf(scenario, beside, shown), {
      item: { scenario, label: describe(scenario, shown.catalog) },
      chip: chipOf(scenario, shown.catalog),
    });
  }
  if (key === "own") return ownSide(key, letter, shown.measurement, shown);
  const id = key.slice(2);
  const measurement = shown.measured === id ? shown.measurement : known.measurement(id);
  if (measurement?.expected && isTraced(measurement)) return ownSide(key, letter, measurement, shown);
  return measuredSide(key, letter, id, measurement, shown);
}

/**
 * What the ops of a profile, or of a traced program, should take.
 * @param {string} key @param {"A" | "B"} letter @param {Measurement | null} measurement @param {Shown} shown @returns {Side}
 */
function ownSide(key, letter, measurement, { catalog }) {
  const own = measurement?.expected ?? null;
  const traced = isTraced(measurement);
  const label = measurement?.label ?? "";
  const names = traced ? [label, "predicted from its own ops"] : ["its own ops", label];
  const side = predictedSide(key, letter, null, own?.estimate ?? null, names, {
    item: { expected: measurement?.id },
    chip: chipRun(measurement, null, catalog),
  });
  return {
    ...side,
    kind: traced ? "traced" : "predicted",
    own,
    ...rowsOf(measurement),
    settings: traced ? tracedSettings(measurement) : {},
  };
}

/** Changes that the two lines of a name have room for. */
const MOST_CHANGES = 6;

/** @param {Scenario} scenario @param {Side | null} beside @param {Shown} shown */
function namesOf(scenario, beside, { catalog, measuredScenario }) {
  if (beside?.kind === "traced" && measuredScenario && same(measuredScenario, scenario))
    return ["the catalogue's form of it", ""];
  const [model, ...rest] = describe(scenario, catalog).split(" · ");
  const other = beside?.scenario;
  if (!other || !same(other.model, scenario.model)) return [model, rest.join(" · ")];
  if (same(other, scenario)) return ["the same plan", ""];
  return [shortLabel(scenario, other, catalog, MOST_CHANGES), ""];
}

/**
 * @param {string} key @param {"A" | "B"} letter @param {Scenario | null} scenario @param {Estimate | null} estimate
 * @param {string[]} names @param {{item: any, chip: import("./types.js").Part}} what @returns {Side}
 */
function predictedSide(key, letter, scenario, estimate, [name, extra], { item, chip }) {
  const memory = estimate?.memory;
  return {
    key,
    letter,
    predicted: true,
    kind: "predicted",
    name,
    extra,
    scenario,
    estimate,
    own: null,
    measurement: null,
    item,
    chip,
    step_s: estimate?.step_time_s ?? null,
    breakdown_s: estimate?.breakdown_s ?? null,
    phases_s: estimate?.phases_s ?? null,
    range_s: estimate?.interval_s ?? null,
    tokens: estimate ? perStep(estimate) : null,
    samples: null,
    logged: null,
    chips: estimate?.chips ?? (scenario && chips(scenario)),
    mfu: estimate?.mfu || null,
    peak_bytes: memory?.peak_bytes || null,
    capacity_bytes: memory?.capacity_bytes || null,
    fits: memory?.fits ?? true,
    risk_frac: memory?.peak_bytes ? (memory.out_of_memory_frac ?? null) : null,
    disturbed: 0,
    settings: {},
  };
}

/**
 * @param {string} key @param {"A" | "B"} letter @param {string} id @param {Measurement | null} measurement
 * @param {Shown} shown @returns {Side}
 */
function measuredSide(key, letter, id, measurement, { catalog, measured, measuredScenario }) {
  const step_s = stepTime(measurement);
  const prediction = measurement?.prediction ?? measurement?.expected?.estimate ?? null;
  const scenario = measured === id ? measuredScenario : null;
  const times = measurement?.steps_s ?? [];
  const disturbed = disturbance(measurement);
  const split = !disturbed && total(measurement?.breakdown_s) > 0 ? (measurement?.breakdown_s ?? null) : null;
  const rows = rowsOf(measurement);
  const capacity = measurement?.device.memory_bytes ?? prediction?.memory.capacity_bytes ?? null;
  return {
    key,
    letter,
    predicted: false,
    kind: isTraced(measurement) ? "traced" : "measured",
    name: measurement?.label || id.slice(0, 8),
    extra: measurement ? deviceName(measurement) : "",
    scenario,
    estimate: null,
    own: null,
    measurement,
    item: { measurement: id },
    chip: chipRun(measurement, scenario, catalog),
    step_s,
    breakdown_s: split,
    phases_s: measurement && total(measurement.phases_s) > 0 ? measurement.phases_s : null,
    range_s: times.length > 1 ? [Math.min(...times), Math.max(...times)] : null,
    ...rows,
    logged: rows.tokens || rows.samples ? null : loggedRows(measurement),
    chips: prediction?.chips ?? measurement?.world_size ?? null,
    mfu: prediction?.mfu && step_s ? (prediction.mfu * prediction.step_time_s) / step_s : loggedMfu(measurement),
    peak_bytes: measurement?.memory.peak_bytes ?? null,
    capacity_bytes: typeof capacity === "number" ? capacity : null,
    fits: measurement?.status !== "oom",
    risk_frac: null,
    disturbed,
    settings: tracedSettings(measurement),
  };
}

/**
 * The chip that was measured on: the catalogue's, else what the device calls itself.
 * @param {Measurement | null} measurement @param {Scenario | null} scenario @param {import("./types.js").Catalog} catalog
 * @returns {import("./types.js").Part}
 */
const chipRun = (measurement, scenario, catalog) =>
  (measurement && measuredChip(measurement, catalog.chips)?.value) ??
  (measurement?.device.name || measurement?.device.kind === "cpu" || !scenario
    ? { name: measurement ? deviceName(measurement) : "" }
    : chipOf(scenario, catalog));

/**
 * Whether a plan stands beside a measurement of which nobody said that it ran it: its file guesses a part, or says none.
 * @param {Pick<Pair, "a" | "b">} pair
 */
export const unconfirmed = ({ a, b }) =>
  [
    [a, b],
    [b, a],
  ].some(
    ([run, plan]) =>
      run?.measurement && !run.predicted && !run.measurement.prediction && plan?.scenario && !saysAll(run.measurement),
  );

/**
 * Whether what the two differ by says anything: nothing was disturbed, the measurement is known to be of a plan, and none
 * stands beside a prediction for a chip whose peaks are doubted.
 * @param {Pair} pair @param {import("./types.js").Catalog} catalog
 */
export function judged({ a, b }, catalog) {
  if (!a || !b || a.disturbed || b.disturbed || unconfirmed({ a, b })) return false;
  return !doubtBadge({ a, b }, catalog);
}

/**
 * What stands where a difference would, as the prediction beside a measurement is for a chip whose peaks are doubted; "" else.
 * @param {Pick<Pair, "a" | "b">} pair @param {import("./types.js").Catalog} catalog
 */
export function doubtBadge({ a, b }, catalog) {
  if (!a || !b || a.predicted === b.predicted) return "";
  const { scenario, chip } = a.predicted ? a : b;
  // a profile's own ops have no scenario, only a chip
  if (!doubtOf(scenario ?? { cluster: { chip } }, catalog)) return "";
  const { kind } = scenario ? chipOf(scenario, catalog) : chip;
  return `${kind === "cpu" ? "CPU" : "chip"} was busy`;
}

/**
 * Whether something of these chips stands in the panel, or at A or B. @param {string[]} keys
 * @param {{catalog: import("./types.js").Catalog, scenario: Scenario, pair: Pick<Pair, "a" | "b"> | null}} shown
 */
export const standsOn = (keys, { catalog, scenario, pair }) =>
  catalog.chips.some(
    ({ key, value }) =>
      keys.includes(key) &&
      (scenario.cluster.chip === key || [pair?.a, pair?.b].some((side) => side && same(side.chip, value))),
  );

/**
 * Rows of a step that one chip takes; null where nobody knows. @param {Side} side @param {"tokens" | "samples"} word
 */
export function rowsOfEach({ tokens, samples, logged, chips: number }, word) {
  const rows = word === "samples" ? samples : tokens;
  if (rows && number) return rows / number;
  return logged?.each && logged.of === word ? logged.amount : null;
}

/** Rows of a step that all chips take, however many there are. @param {Side} side @param {"tokens" | "samples"} word */
export const rowsOfAll = ({ tokens, samples, logged }, word) =>
  (word === "samples" ? samples : tokens) ?? (logged && !logged.each && logged.of === word ? logged.amount : null);

/** Within how much the tokens of two steps are the same. */
const SAME_FRAC = 0.005;
/**
 * How many times the tokens of a step of A one of B has; 1 where that is the same, or nobody knows.
 * @param {Side | null | undefined} a @param {Side | null | undefined} b
 */
export function workRatio(a, b) {
  const ratio = a?.tokens && b?.tokens ? b.tokens / a.tokens : 1;
  return Math.abs(ratio - 1) > SAME_FRAC ? ratio : 1;
}

/** Whether all that stands there is known, and none of it says how long a step takes. @param {Pair} pair */
export const silent = ({ a, b }) =>
  [a, b].every((side) => !side || side.measurement || side.estimate) && ![a, b].some((side) => side?.step_s);

/**
 * Dollars of a step and of a million tokens; null where the price, the chips or the tokens are not known.
 * @param {Side} side @param {number} usd_per_hour  of one chip
 */
export function priceOf({ step_s, chips: number, tokens }, usd_per_hour) {
  if (!step_s || !number || !usd_per_hour) return null;
  const step_usd = (usd_per_hour * number * step_s) / 3600;
  return { step_usd, million_usd: tokens ? (step_usd / tokens) * 1e6 : null };
}
