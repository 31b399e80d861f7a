/** What a person can do to the state; every view calls these, none changes the state by itself. */
import { coupledChanges } from "./changes.js";
import { lastAxis, validAxis } from "./axes.js";
import { multiplied } from "./hardware.js";
import { withPart } from "./ownParts.js";
import { isTraced, stepTime } from "./measured.js";
import { clusterChips, chipOf, complete, get, resized, same, withField } from "./scenario.js";
import { chosenSides } from "./sides.js";
import { set, state } from "./state.js";
import { ANYTHING, decode, encode, pinOf, USUAL_SPLIT } from "./url.js";

/** @typedef {import("./types.js").Scenario} Scenario */

/**
 * Put the state into the address bar: a new entry for a decision, the same entry for a step on the way.
 * @param {"push" | "replace"} how
 */
export function writeUrl(how = "push") {
  const search = encode(state, state.base, state.sample);
  if (search === location.search) return;
  enter(`${location.pathname}${search}`, how);
}

/**
 * Go to an address of this page: a decision of it that can be taken back, or the same one.
 * @param {string} address @param {"push" | "replace"} how
 */
export function enter(address, how = "push") {
  const decisions = decisionsMade() + (how === "push" ? 1 : 0);
  history[how === "push" ? "pushState" : "replaceState"]({ decisions }, "", address);
  set({ decisions });
}

/** Entries of the history before this one that are this page's own decisions. @returns {number} */
const decisionsMade = () => history.state?.decisions ?? 0;

/** Take the last decision back; what was open before this page is not one. */
export function undo() {
  if (decisionsMade() > 0) history.back();
}

/** Take the state from the address bar, at the start and on back and forward. */
export function readUrl() {
  const place = decode(location.search, state.base, state.sample);
  // an equal scenario keeps its identity, so that nothing is estimated again
  if (state.scenario && same(place.scenario, state.scenario)) place.scenario = state.scenario;
  // what a link leaves out is the usual
  const usual = { split: USUAL_SPLIT };
  set({ ...usual, ...place, drag: null, decisions: decisionsMade() });
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

/**
 * Where a change of a field begins. A field that is tried once more begins where it was last possible, so that what
 * gave way for the impossible value comes back.
 * @param {string} path
 */
function origin(path) {
  const { scenario, estimated } = state;
  if (!estimated || estimated === scenario) return scenario;
  return same(withField(estimated, path, get(scenario, path), usualNode()), scenario) ? estimated : scenario;
}

/** Whether this field alone made the scenario impossible, so that its axis begins before that. @param {string} path */
const healing = (path) => state.problems.length > 0 && origin(path) !== state.scenario;

/**
 * The plan that is left stays as A where nothing else would stand beside the new one, or only a profile whose scenario
 * nobody confirmed. Where both sides were chosen, what is edited becomes B.
 * @param {Scenario} before
 */
function keepBefore(before) {
  const [a, b] = chosenSides({ ...state, scenario: before });
  if (a === "plan" || b === "plan") {
    if (a && b) return;
    set({ a: pinOf(before, state.base), b: "plan" });
  } else if (a && b && state.a) set({ b: "plan" });
  else if (state.measured && !state.a && !state.b) set({ a: pinOf(before, state.base), b: "plan" });
}

/** Change the scenario for one field, and say what followed. @param {Scenario} scenario @param {string} path */
function move(scenario, path) {
  keepBefore(state.scenario);
  set({ adapted: { scenario, path, changes: coupledChanges(scenario, state.scenario, path) } });
  setScenario(scenario);
}

/** The scenario with one field at another value, and what must follow it. @param {string} path @param {any} value */
export const withValue = (path, value) => withField(origin(path), path, value, usualNode());

/** Set one field to a value that the person chose. @param {string} path @param {any} value */
export function setField(path, value) {
  const point = healing(path) ? null : validAxis(path)?.legal.find((one) => same(one.value, value));
  move(point ? point.scenario : withValue(path, value), path);
}

/** Take a part of the hardware as a multiple of the catalogue's. @param {import("./hardware.js").Part} part @param {number} times */
export function setMultiple(part, times) {
  const next = multiplied(state.scenario, state.catalog, part, times);
  if (same(next, state.scenario)) return;
  keepBefore(state.scenario);
  setScenario(next);
}

/** Another link of the catalogue; "": the chip's own. @param {"link" | "network"} part @param {string} key */
export function setLink(part, key) {
  const cluster = { ...state.scenario.cluster };
  if (key) cluster[part] = key;
  else delete cluster[part];
  if (key === "given" || same(cluster, state.scenario.cluster)) return;
  keepBefore(state.scenario);
  setScenario(complete({ ...state.scenario, cluster }, state.catalog));
}

/** Take a chip that is in no catalogue, beside the one that was there. @param {import("./types.js").Part} chip */
export function setOwnChip(chip) {
  const next = withPart(state.scenario, "chip", chip, state.catalog);
  if (same(next, state.scenario)) return;
  keepBefore(state.scenario);
  setScenario(next);
}

/**
 * Predict under a calibration, "": the shipped efficiencies. Every answer that the page has was of another, so it begins anew.
 * @param {string} id
 */
export function setCalibration(id) {
  set({ calibration: id });
  writeUrl();
  location.reload();
}

/** Sweep a field of the plan, or a part of the hardware; "": none. @param {string} path */
export function setSweep(path) {
  set({ sweep: path });
  writeUrl();
}

/** How many tokens the whole run is to see; 0: not asked for. @param {number} tokens */
export function setRunTokens(tokens) {
  set({ run_tokens: tokens });
  writeUrl();
}

/** The bundled sample leaves when another model or chip is chosen; a run stays, and what was chosen beside the plan. */
function leaveSample() {
  const { a, b, sample } = state;
  const sides = [a, b];
  const chosen = sides.includes("plan") && !sides.includes("") && !sides.includes(`m:${sample}`);
  if (state.measured === sample) set({ measured: "" });
  set({ a: chosen ? a : "", b: chosen ? b : "", selected: "" });
}

/** @param {string} key */
export function setModel(key) {
  leaveSample();
  setScenario({ ...state.scenario, model: key });
}

/** Take a model that is in no catalogue, beside the one that was there. @param {any} model */
export function setOwnModel(model) {
  const next = withPart(state.scenario, "model", model, state.catalog);
  if (same(next, state.scenario)) return;
  const kept = keptA();
  leaveSample();
  if (!state.a && !state.b) set({ a: kept, b: "plan" });
  setScenario(next);
}

/**
 * Call the model or chip of the plan otherwise, which makes it no other plan: what stands at A and B stays.
 * @param {import("./ownParts.js").Kind} kind @param {import("./types.js").Part} part
 */
export function renamePart(kind, part) {
  const next = withPart(state.scenario, kind, part, state.catalog);
  if (same(next, state.scenario)) return;
  const [a, b] = chosenSides(state);
  if (!same(chosenSides({ ...state, scenario: next }), [a, b])) set({ a, b });
  setScenario(next);
}

/**
 * Change the chip and keep the number of chips, in nodes as this chip is sold. The plan on the chip that is left becomes A,
 * unless one stands there already.
 * @param {string} key
 */
export function setChip(key) {
  const usual = state.catalog.chips.find((entry) => entry.key === key)?.value.chips_per_node ?? 8;
  const kept = keptA();
  leaveSample();
  set({ a: kept, b: "plan" });
  setScenario({ ...state.scenario, cluster: resized({ chip: key }, clusterChips(state.scenario.cluster), usual) });
}

/** A slider is held: axes keep their range and the numbers show their change from here. @param {string} field */
export function grab(field) {
  if (state.drag?.field === field) return;
  const { estimate, scenario } = state;
  const times = lastAxis(field)?.legal.map((point) => point.estimate?.step_time_s ?? 0) ?? [];
  const peaks = lastAxis(field)?.legal.map((point) => point.estimate?.memory.peak_bytes ?? 0) ?? [];
  // one extreme point must not press the rest into a line
  const bound = (/** @type {number[]} */ values, /** @type {number} */ now) =>
    Math.max(now, Math.min(4 * now, ...[Math.max(0, ...values)]));
  set({
    drag: {
      field,
      scenario,
      estimate,
      largest_s: bound(times, Math.max(estimate?.step_time_s ?? 0, stepTime(state.measurement) ?? 0)),
      largest_bytes: bound(peaks, estimate?.memory.peak_bytes ?? 0),
    },
  });
}

/**
 * One step of a held slider.
 * @param {string} path
 * @param {import("./axes.js").AxisPoint} point
 * @param {boolean} ofThis  whether the point is of the present scenario's axis
 */
export function preview(path, point, ofThis) {
  const valid = ofThis && !healing(path);
  const scenario = valid ? point.scenario : withValue(path, point.value);
  if (same(scenario, state.scenario)) return;
  keepBefore(state.drag?.scenario ?? state.scenario);
  const changes = coupledChanges(scenario, state.drag?.scenario ?? state.scenario, path);
  set({ adapted: { scenario, path, changes } });
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
  if (path === "all") {
    set({ measured: state.sample, a: "", b: "", selected: "" });
    return setScenario(state.base);
  }
  return setField(path, get(state.base, path));
}

/** @param {string} pin  "m:ID" for a measurement, "s:..." for a scenario */
export function togglePin(pin) {
  const pins = state.pins.includes(pin) ? state.pins.filter((one) => one !== pin) : [...state.pins, pin];
  set({ pins });
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

/** Take another number of chips. @param {number} chips */
export function setChips(chips) {
  move(withField(state.scenario, "cluster.chips", chips, usualNode()), "cluster.chips");
}

/** Choose what stands at A and at B; "" leaves both to what was measured. @param {string} a @param {string} b */
export function setSides(a, b) {
  set({ a, b, selected: "" });
  writeUrl();
}

export function swapSides() {
  const [a, b] = chosenSides(state);
  if (a && b) setSides(b, a);
}

/** What stays as A beside a plan that becomes B: what stands beside the plan that is edited, else that plan itself. */
function keptA() {
  const [a, b] = chosenSides(state);
  // beside another plan the catalogue's form of a traced program stays: what they differ by is then the plan's alone
  const chosen = state.a || !isTraced(state.measurement);
  return b === "plan" && a && chosen ? a : pinOf(state.scenario, state.base);
}

/** Put a plan into B and keep A. @param {any} scenario @param {string} [view]  where it is seen */
export function tryPlan(scenario, view = state.view) {
  set({ a: keptA(), b: "plan", selected: "", drag: null, view });
  setScenario(complete(scenario, state.catalog));
}

/** One cause of the difference, which all figures then show; the same again shows all. @param {string} cause */
export const select = (cause) => set({ selected: cause === state.selected ? "" : cause });

/** What one chip costs for an hour; 0: what the catalogue says. @param {number} usd */
export function setPrice(usd) {
  set({ usd_per_hour: usd });
  writeUrl();
}

/**
 * Open a scenario that came as a file, as A and with nothing beside it; what it asks a search for, in Search.
 * @param {import("./scenarioFile.js").ScenarioFound} found
 */
export function openScenario({ scenario, search }) {
  set({
    view: search ? "search" : "explore",
    a: "",
    b: "",
    measured: "",
    scenario: complete(scenario, state.catalog),
    drag: null,
    selected: "",
    ...(search && { wanted: { ...ANYTHING, ...search } }),
  });
  writeUrl();
  scrollTo({ top: 0 });
}

/** Set two plans against each other in Explore. @param {any} a @param {any} b */
export function openPair(a, b) {
  const [first, second] = [a, b].map((one) => complete(one, state.catalog));
  set({
    view: "explore",
    a: pinOf(first, state.base),
    b: "plan",
    measured: "",
    scenario: second,
    drag: null,
    selected: "",
  });
  writeUrl();
  scrollTo({ top: 0 });
}

/** Change how the table of plans and measurements is shown. @param {Partial<import("./items.js").TableState>} patch @param {"push" | "replace"} [how] */
export function setTable(patch, how = "push") {
  set({ table: { ...state.table, ...patch } });
  writeUrl(how);
}

/** Open a table of an upload or a benchmark; "" closes it, and what links of before had pinned. @param {string} key */
export function setOpen(key) {
  set({ open: key, ...(key ? {} : { pins: state.pins.filter((pin) => !pin.startsWith("m:")) }) });
  writeUrl();
}
