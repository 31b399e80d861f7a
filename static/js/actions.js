// @ts-check
/** What a person can do to the state; every view calls these, none changes the state by itself. */
import { api, ApiError } from "./api.js";
import { lastAxis } from "./axes.js";
import { median, uploadOf } from "./measured.js";
import { chipOf, complete, get, resized, same, withField } from "./scenario.js";
import { set, state } from "./state.js";
import { decode, encode, pinOf, USUAL_SPLIT } from "./url.js";

/** @typedef {import("./types.js").Scenario} Scenario */

/**
 * Put the state into the address bar: a new entry for a decision, the same entry for a step on the way.
 * @param {"push" | "replace"} how
 */
export function writeUrl(how = "push") {
  const search = encode(state, state.base, state.sample);
  if (search === location.search) return;
  history[how === "push" ? "pushState" : "replaceState"](null, "", `${location.pathname}${search}`);
}

/** Take the state from the address bar, at the start and on back and forward. */
export function readUrl() {
  const place = decode(location.search, state.base, state.sample);
  // an equal scenario keeps its identity, so that nothing is estimated again
  if (state.scenario && same(place.scenario, state.scenario)) place.scenario = state.scenario;
  // what a link leaves out is the usual
  const usual = place.view === "compare" ? { split: USUAL_SPLIT, unshown: false } : {};
  set({ ...usual, ...place, drag: null });
}

/** @param {string} view */
export function show(view) {
  if (view === state.view) return;
  set({ view });
  writeUrl();
  scrollTo({ top: 0 });
}

/** @param {Scenario} scenario @param {"push" | "replace"} how */
export function setScenario(scenario, how = "push") {
  set({ scenario });
  writeUrl(how);
}

/** Chips in one node of the current chip, as sold. */
const usualNode = () => chipOf(state.scenario, state.catalog).chips_per_node ?? 8;

/** Set one field to a value that the person chose. @param {string} path @param {any} value */
export function setField(path, value) {
  const point = lastAxis(path)?.legal.find((one) => same(one.value, value) && one.scenario);
  const here = lastAxis(path)?.legal.some((one) => same(one.scenario, state.scenario));
  setScenario(here && point ? point.scenario : withField(state.scenario, path, value, usualNode()));
}

/** @param {string} key */
export function setModel(key) {
  setScenario({ ...state.scenario, model: key });
}

/** Take a model that is in no catalogue into the scenario. @param {any} model */
export function setOwnModel(model) {
  setScenario(complete({ ...state.scenario, model }, state.catalog));
}

/** Change the chip and keep the number of chips, in nodes as this chip is sold. @param {string} key */
export function setChip(key) {
  const usual = state.catalog.chips.find((entry) => entry.key === key)?.value.chips_per_node ?? 8;
  const { chips_per_node, nodes } = state.scenario.cluster;
  setScenario({ ...state.scenario, cluster: resized({ chip: key }, chips_per_node * nodes, usual) });
}

/** A slider is held: axes keep their range and the numbers show their change from here. @param {string} field */
export function grab(field) {
  if (state.drag?.field === field) return;
  const { estimate } = state;
  const times = lastAxis(field)?.legal.map((point) => point.estimate?.step_time_s ?? 0) ?? [];
  const peaks = lastAxis(field)?.legal.map((point) => point.estimate?.memory.peak_bytes ?? 0) ?? [];
  // one extreme point must not press the rest into a line
  const bound = (/** @type {number[]} */ values, /** @type {number} */ now) =>
    Math.max(now, Math.min(4 * now, ...[Math.max(0, ...values)]));
  set({
    drag: {
      field,
      estimate,
      largest_s: bound(times, Math.max(estimate?.step_time_s ?? 0, median(state.measurement?.steps_s) ?? 0)),
      largest_bytes: bound(peaks, estimate?.memory.peak_bytes ?? 0),
    },
  });
}

/**
 * One step of a held slider.
 * @param {string} path
 * @param {import("./axes.js").AxisPoint} point
 * @param {boolean} valid
 */
export function preview(path, point, valid) {
  const scenario = valid ? point.scenario : withField(state.scenario, path, point.value, usualNode());
  if (same(scenario, state.scenario)) return;
  set(
    valid && point.estimate?.ops
      ? { scenario, estimate: point.estimate, estimated: scenario, problems: [] }
      : { scenario },
  );
}

/** The slider is let go. */
export function release() {
  set({ drag: null });
  writeUrl();
}

/** @param {string} path */
export function reset(path) {
  if (path === "all") return setScenario(state.base);
  return setField(path, get(state.base, path));
}

/** @param {string} pin  "m:ID" for a measurement, "s:..." for a scenario */
export function togglePin(pin) {
  const pins = state.pins.includes(pin) ? state.pins.filter((one) => one !== pin) : [...state.pins, pin];
  set({ pins, baseline: 0 });
  writeUrl();
}

/** Pin or unpin measurements. @param {string[]} ids @param {boolean} on */
export function setPins(ids, on) {
  const names = ids.map((id) => `m:${id}`);
  const rest = state.pins.filter((pin) => !names.includes(pin));
  set({ pins: on ? [...rest, ...names] : rest, baseline: 0 });
  writeUrl();
}

export function pinScenario() {
  const pin = pinOf(state.scenario, state.base);
  if (!state.pins.includes(pin)) togglePin(pin);
}

/** Show a study, with inputs that are not its own by name. @param {string} study @param {Record<string, string>} settings */
export function setStudy(study, settings) {
  set({ study, settings });
  writeUrl();
}

/** Change what a search looks for. @param {Partial<import("./url.js").Wanted>} patch */
export function setWanted(patch) {
  set({ wanted: { ...state.wanted, ...patch } });
  writeUrl();
}

/** Change what the ways to split a model are compared by. @param {Partial<import("./url.js").Split>} patch */
export function setSplit(patch) {
  set({ split: { ...state.split, ...patch } });
  writeUrl();
}

/** Compare with the scenario of Explore, or without. @param {boolean} yes */
export function setShown(yes) {
  set({ unshown: !yes, baseline: 0 });
  writeUrl();
}

/** Search on another number of chips; a plan that does not divide them starts anew. @param {number} chips */
export function setChips(chips) {
  const next = withField(state.scenario, "cluster.chips", chips, usualNode());
  if (next.plan.dp * next.plan.tp * next.plan.pp * next.plan.cp !== chips)
    Object.assign(next.plan, { dp: chips, tp: 1, pp: 1, cp: 1, ep: 1, virtual_stages: 1 });
  setScenario(next);
}

/** Open a plan that was found. @param {any} scenario */
export function exploreScenario(scenario) {
  set({ view: "explore", scenario: complete(scenario, state.catalog), drag: null });
  writeUrl();
  scrollTo({ top: 0 });
}

/** @param {number} baseline */
export function setBaseline(baseline) {
  set({ baseline });
  writeUrl();
}

/** @param {string} id  "" shows none */
export function setMeasured(id) {
  set({ measured: id });
  writeUrl();
}

/**
 * The scenario that was measured, where the measurement knows all of it.
 * @param {import("./types.js").Measurement | null} measurement
 */
const scenarioOf = (measurement) => (measurement?.prediction ? complete(measurement.scenario, state.catalog) : null);

/**
 * Show a measurement where its numbers can be seen: beside its prediction, or its tables in Compare.
 * @param {string} id
 */
export async function openMeasurement(id) {
  const measurement = await api.measurement(id);
  const measuredScenario = scenarioOf(measurement);
  if (measurement.steps_s.length || measurement.kernels.length || Object.keys(measurement.breakdown_s).length) {
    set({
      view: "explore",
      scenario: measuredScenario ?? state.scenario,
      measured: id,
      measurement,
      measuredScenario,
      drag: null,
    });
  } else {
    const pins = uploaded(id).map((one) => `m:${one}`);
    set({ view: "compare", pins: [...state.pins.filter((pin) => !pins.includes(pin)), ...pins] });
    requestAnimationFrame(() => document.getElementById("details")?.scrollIntoView());
  }
  writeUrl();
  if (state.view === "explore") scrollTo({ top: 0 });
}

/** A measurement and the others of its file. @param {string} id */
const uploaded = (id) => {
  const found = (state.measurements ?? []).filter((one) => uploadOf(one.id) === uploadOf(id)).map((one) => one.id);
  return found.length ? found.sort((a, b) => a.localeCompare(b, "en", { numeric: true })) : [id];
};

export async function refreshMeasurements() {
  set({ measurements: await api.measurements() });
}

/** Fetch the measured side of Explore. */
export async function loadMeasurement() {
  const { measured } = state;
  if (!measured) return set({ measurement: null, measuredScenario: null });
  if (state.measurement?.id === measured) return undefined;
  try {
    const measurement = await api.measurement(measured);
    if (state.measured === measured) set({ measurement, measuredScenario: scenarioOf(measurement) });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (state.measured === measured && error.status) set({ measurement: null, measuredScenario: null, measured: "" });
  }
  return undefined;
}
