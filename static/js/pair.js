/**
 * From what was chosen to what the page shows of A and B: their estimates and measurements, where the difference goes,
 * what would be faster, and their steps over time. The newest question wins.
 */
import { api, ApiError } from "./api.js";
import { besideMeasurement } from "./measurements.js";
import { pairOf, samePair } from "./sides.js";
import { canonical } from "./scenario.js";
import { set, state, subscribe } from "./state.js";

/** @typedef {import("./types.js").Scenario} Scenario */

const KEPT = 64;
/** Before the curves of the panel are asked for, which take longer (predict.js). */
const REST_MS = 150;
/** While a slider is held the causes follow as soon as it pauses. */
const PAUSE_MS = 100;

/**
 * Answers by what was asked; the oldest go first.
 * @template T @param {(asked: any) => Promise<T>} ask @param {"answers" | "timelines" | "levels"} told  counts them
 */
function remembered(ask, told = "answers") {
  /** @type {Map<string, {answer: T | null, under: Promise<T | null>}>} */
  const known = new Map();
  /** @param {any} asked @param {T} answer  that is there already */
  function keep(asked, answer) {
    const key = canonical(asked);
    if (!known.get(key)?.answer) known.set(key, { answer, under: Promise.resolve(answer) });
  }
  const found = (/** @type {any} */ asked) => {
    const key = canonical(asked);
    const before = known.get(key);
    if (before) return before.answer;
    const under = ask(asked).catch((error) => {
      if (!(error instanceof ApiError)) throw error;
      known.delete(key);
      return null;
    });
    const entry = { answer: /** @type {T | null} */ (null), under };
    known.set(key, entry);
    if (known.size > KEPT) known.delete(/** @type {string} */ (known.keys().next().value));
    void under.then((answer) => {
      entry.answer = answer;
      if (answer) set({ [told]: state[told] + 1 });
    });
    return null;
  };
  return Object.assign(found, { keep });
}

/** Estimates of plans, as far as they are there. */
export const estimateOf = remembered((/** @type {Scenario} */ scenario) => api.estimate(scenario));
const measurementOf = remembered((/** @type {string} */ id) => besideMeasurement(id));
/** Steps over time, as far as they are there. */
export const timelineOf = remembered((/** @type {Scenario} */ scenario) => api.timeline(scenario), "timelines");
/** When a profile's own ops should run, by the id of its measurement. */
export const ownTimelineOf = remembered((/** @type {string} */ id) => api.ownTimeline(id), "timelines");
/** Products of a scenario at every level of its chip's memory, as far as they are there and the chip's caches known. */
const levelsOf = remembered(
  /** @returns {Promise<import("./figures/hierarchy.js").Hierarchy>} */ (/** @type {Scenario} */ scenario) =>
    api.hierarchy(scenario, "bound"),
  "levels",
);
/** @type {string[] | null} */
let cached = null;
const choices = remembered(() => api.hierarchyChoices().then(({ chips }) => (cached = chips)), "levels");
/** Whether the caches of its chip may be known; certain once somebody has asked. @param {Scenario | null} scenario */
export const hasLevels = (scenario) =>
  typeof scenario?.cluster.chip === "string" && (!cached || cached.includes(scenario.cluster.chip));
/** @param {Scenario | null} scenario */
export function hierarchyOf(scenario) {
  const chip = scenario?.cluster.chip;
  if (!scenario || typeof chip !== "string") return null;
  if (!cached) choices("chips");
  return cached?.includes(chip) ? levelsOf(scenario) : null;
}
const remediesOf = remembered((/** @type {Scenario} */ scenario) => api.remedies(scenario));

const known = {
  estimate: (/** @type {Scenario} */ scenario) => estimateOf(scenario),
  measurement: measurementOf,
};

function resolve() {
  if (!state.catalog) return;
  // the plan that is left is A in a moment, and is not asked for again
  if (state.estimated && state.estimate) estimateOf.keep(state.estimated, state.estimate);
  const pair = pairOf(state, known);
  if (!samePair(state.pair, pair)) set({ pair });
  clearTimeout(pausing);
  if (state.drag) pausing = window.setTimeout(() => void compare(pair), PAUSE_MS);
  else void compare(pair);
  clearTimeout(resting);
  if (!state.drag) resting = window.setTimeout(rest, REST_MS);
}

let pausing = 0;
let resting = 0;
/** Once nothing moves: remedies of the plan that is edited. */
function rest() {
  const scenario = state.estimated;
  if (state.drag || state.view !== "explore" || !scenario || state.problems.length) return;
  const found = remediesOf(scenario);
  set({ remedies: found && { scenario, ...found } });
}

let asked = "";
let waiting = false;
/** Ask where the difference goes; while an answer is on its way only the newest question waits. @param {import("./sides.js").Pair} pair */
async function compare({ a, b }) {
  if (!a || !b) {
    asked = "";
    return set({ difference: null });
  }
  const items = [a.item, b.item];
  const key = canonical(items);
  if (key === asked || waiting || state.view !== "explore") return undefined;
  asked = key;
  waiting = true;
  try {
    const found = await api.compare(items, 0);
    const [, delta] = found.deltas;
    if (asked === key)
      set({
        difference: {
          key,
          causes: delta.causes,
          seconds: delta.step_time_s,
          differences: found.differences,
          notes: found.notes,
        },
      });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (asked === key) set({ difference: null });
  } finally {
    waiting = false;
  }
  if (state.pair) void compare(state.pair);
  return undefined;
}

/** Whether the difference shown is that of the present pair. */
export const isCurrent = () =>
  Boolean(
    state.pair?.a &&
    state.pair.b &&
    state.difference &&
    state.difference.key === canonical([state.pair.a.item, state.pair.b.item]),
  );

export function startPairing() {
  const of = /** @type {const} */ (["scenario", "estimate", "estimated", "a", "b", "measured", "measurement"]);
  subscribe([...of, "measuredScenario", "answers", "view", "drag", "problems"], resolve);
  resolve();
}
