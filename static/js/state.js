/** One store: what the page shows. Changes are told once per frame, with the names of what changed. */

import { USUAL_TABLE } from "./items.js";
import { ANYTHING, USUAL_SPLIT } from "./url.js";

/** @typedef {import("./types.js").Scenario} Scenario */
/**
 * @typedef {import("./url.js").Place & { catalog: import("./types.js").Catalog, base: Scenario, sample: string,
 *   estimate: import("./types.js").Estimate | null, estimated: Scenario | null,
 *   problems: import("./types.js").Problem[], busy: boolean, drag: {field: string, scenario: Scenario,
 *   estimate: import("./types.js").Estimate | null, largest_s: number, largest_bytes: number} | null, axes: number,
 *   online: boolean, measurement: import("./types.js").Measurement | null, measuredScenario: Scenario | null,
 *   measurements: import("./types.js").Summary[] | null, runs: import("./types.js").Run[] | null,
 *   pair: import("./sides.js").Pair | null, difference: import("./types.js").Between | null, answers: number, timelines: number, levels: number,
 *   remedies: (import("./types.js").Remedies & {scenario: Scenario}) | null, selected: string, theme: number, more: boolean, wanted: import("./url.js").Wanted,
 *   split: import("./url.js").Split, study: string, table: import("./items.js").TableState,
 *   settings: Record<string, string>, studies: import("./types.js").StudyInfo[] | null,
 *   lost: string, decisions: number,
 *   adapted: {scenario: Scenario, path: string, changes: import("./changes.js").CoupledChange[]} | null,
 * }} State
 */

/** @type {State} */
export const state = /** @type {any} */ ({
  view: "explore",
  measured: "",
  pins: [],
  run: "",
  study: "",
  settings: {},
  studies: null,
  estimate: null,
  estimated: null,
  problems: [],
  busy: true,
  drag: null,
  adapted: null,
  lost: "",
  decisions: 0,
  axes: 0,
  online: true,
  measurement: null,
  measuredScenario: null,
  measurements: null,
  runs: null,
  a: "",
  b: "",
  usd_per_hour: 0,
  run_tokens: 0,
  calibration: "",
  sweep: "",
  pair: null,
  difference: null,
  answers: 0,
  timelines: 0,
  levels: 0,
  remedies: null,
  selected: "",
  theme: 0,
  more: false,
  wanted: ANYTHING,
  split: USUAL_SPLIT,
  open: "",
  table: USUAL_TABLE,
});

/** @type {{keys: (keyof State)[], tell: (state: State, changed: Set<string>) => void}[]} */
const listeners = [];
/** @type {Set<string>} */
let changed = new Set();

/** @param {any} value */
const isEmpty = (value) => Array.isArray(value) && !value.length;

/** Change some of the state; listeners hear of it before the next paint. @param {Partial<State>} patch */
export function set(patch) {
  for (const [key, value] of Object.entries(patch)) {
    const before = /** @type {any} */ (state)[key];
    if (before === value || (isEmpty(before) && isEmpty(value))) continue;
    /** @type {any} */ (state)[key] = value;
    if (!changed.size) requestAnimationFrame(flush);
    changed.add(key);
  }
}

/**
 * Call `tell` in the frame after any of `keys` changed.
 * @param {(keyof State)[]} keys
 * @param {(state: State, changed: Set<string>) => void} tell
 */
export function subscribe(keys, tell) {
  listeners.push({ keys, tell });
}

/**
 * Call `make`, and tell what it subscribed all that there is, as the page's first frame does for what begins with it.
 * @template T @param {() => T} make @returns {T}
 */
export function joined(make) {
  const before = listeners.length;
  const made = make();
  const all = new Set(Object.keys(state));
  for (const { tell } of listeners.slice(before)) tell(state, all);
  return made;
}

const MOST_ROUNDS = 3;

function flush() {
  // what follows from a change is told in the same frame, unless it never ends
  for (let round = 0; changed.size && round < MOST_ROUNDS; round += 1) {
    const now = changed;
    changed = new Set();
    for (const { keys, tell } of listeners) {
      if (keys.some((key) => now.has(key))) tell(state, now);
    }
  }
}
