/**
 * Whole axes of the current scenario, fetched once when a slider is grabbed (or while nothing else happens), so that a
 * drag is local. An axis stays valid while the current scenario is one of its points: moving along it changes nothing.
 */
import { api } from "./api.js";
import { canonical, complete } from "./scenario.js";
import { set, state } from "./state.js";

/** @typedef {import("./types.js").Point & {key: string}} AxisPoint */
/** @typedef {{points: AxisPoint[], legal: AxisPoint[], refused: AxisPoint[], keys: Set<string>}} Axis  `keys`: scenarios it is of */

/** @type {Map<string, Axis>} */
const known = new Map();
/** @type {Map<string, {key: string, promise: Promise<Axis | null>}>} */
const underway = new Map();

/** `prefetch: false` makes every step of a slider ask the server: only for measuring what prefetching gains. */
export const settings = { prefetch: true };

/** The last axis of a field, also when the scenario has moved off it since. @param {string} field */
export const lastAxis = (field) => known.get(field) ?? null;

/** @param {string} field @param {string} [key] */
export function validAxis(field, key = canonical(state.scenario)) {
  const axis = known.get(field);
  return settings.prefetch && axis?.keys.has(key) ? axis : null;
}

/** Fetch a field's axis unless it is there or on its way. @param {string} field @returns {Promise<Axis | null>} */
export function fetchAxis(field) {
  const scenario = state.scenario;
  const key = canonical(scenario);
  const valid = validAxis(field, key);
  if (valid || !settings.prefetch) return Promise.resolve(valid);
  const waiting = underway.get(field);
  if (waiting?.key === key) return waiting.promise;
  const promise = api.axis(scenario, field).then(
    // an answer that a newer question has overtaken is dropped
    ({ points }) => (underway.get(field)?.key === key ? keep(field, points, key) : null),
    () => null, // the estimate path shows what is wrong with a scenario; an axis is an extra
  );
  underway.set(field, { key, promise });
  return promise.finally(() => {
    if (underway.get(field)?.promise === promise) underway.delete(field);
  });
}

/** @param {string} field @param {import("./types.js").Point[]} given @param {string} origin */
function keep(field, given, origin) {
  const points = given.map((point) => {
    const scenario = point.scenario ? complete(point.scenario, state.catalog) : point.scenario;
    return { ...point, scenario, key: scenario ? canonical(scenario) : "" };
  });
  const legal = points.filter(({ estimate }) => estimate);
  const axis = {
    points,
    legal,
    refused: points.filter(({ estimate }) => !estimate),
    keys: new Set([origin, ...legal.map(({ key }) => key)]),
  };
  known.set(field, axis);
  set({ axes: state.axes + 1 });
  return axis;
}
