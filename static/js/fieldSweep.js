/**
 * A sweep: the plan in the panel at every value of one field, as its slider has them, or with a part of the hardware at
 * multiples of the catalogue's. Every number of it is an estimate of the server.
 */
import { api, ApiError } from "./api.js";
import { fetchAxis, validAxis } from "./axes.js";
import { labelOf } from "./fieldLabels.js";
import { hasUse } from "./fieldUse.js";
import { multiples, multiplied, PARTS } from "./hardware.js";
import { canonical, get } from "./scenario.js";
import { set, state } from "./state.js";

/** @typedef {import("./types.js").Point} Point */
/** @typedef {import("./hardware.js").Part} Part */

/** What begins the path of a part of the hardware. */
const HARDWARE = "hardware.";
/** @type {Record<Part, string>} */
const PART_LABELS = {
  flops: "FLOP/s",
  memory: "Memory bandwidth",
  link: "Link bandwidth",
  network: "Network bandwidth",
};
const TIMES = [0.125, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 8];

/** @param {Part} part */
export const hardwarePath = (part) => HARDWARE + part;
/** The part of the hardware that a path is of; null of a field. @param {string} path */
export const partOf = (path) => PARTS.find(([part]) => path === HARDWARE + part)?.[0] ?? null;

/** Fields that say something in the present scenario, then parts of the hardware. @returns {{path: string, label: string}[]} */
export function sweepable() {
  const { scenario, catalog } = state;
  const fields = catalog.axis_fields.filter((path) =>
    path === "cluster.nodes" ? scenario.cluster.nodes > 1 : hasUse(path, scenario, catalog),
  );
  const now = multiples(scenario, catalog);
  const parts = PARTS.filter(([part]) => now[part] !== null && (part !== "network" || scenario.cluster.nodes > 1));
  return [
    ...fields.map((path) => ({ path, label: labelOf(path) })),
    ...parts.map(([part]) => ({ path: hardwarePath(part), label: PART_LABELS[part] })),
  ];
}

/** What a sweep's field is called. @param {string} path */
export function sweptLabel(path) {
  const part = partOf(path);
  return part ? PART_LABELS[part] : labelOf(path);
}

/** Where the present scenario stands in the sweep. @param {string} path */
export function valueNow(path) {
  const part = partOf(path);
  return part ? (multiples(state.scenario, state.catalog)[part] ?? 1) : get(state.scenario, path);
}

/** @type {Map<Part, {key: string, points: Point[] | null}>} */
const known = new Map();
/** Text that is equal for scenarios that differ by this part's multiple alone. @param {Part} part */
const keyOf = (part) => canonical(multiplied(state.scenario, state.catalog, part, 1));

/** The points of a sweep of the present scenario; null while they are not there. @param {string} path @returns {Point[] | null} */
export function pointsOf(path) {
  const part = partOf(path);
  if (!part) return validAxis(path)?.points ?? null;
  const found = known.get(part);
  const there = found?.key === keyOf(part) ? found.points : null;
  return there?.some(({ value }) => value === valueNow(path)) ? there : null;
}

/** Ask for the points unless they are there; whether they are then. @param {string} path */
export async function fetchPoints(path) {
  const part = partOf(path);
  if (!part) return Boolean(await fetchAxis(path));
  if (pointsOf(path)) return true;
  const key = keyOf(part);
  const { scenario, catalog } = state;
  const values = [...new Set([...TIMES, Number(valueNow(path))])].sort((a, b) => a - b);
  const points = await Promise.all(
    values.map((times) => pointOf(times, multiplied(scenario, catalog, part, times))),
  ).catch((error) => {
    if (!(error instanceof ApiError)) throw error;
    return null;
  });
  if (!points) return false;
  known.set(part, { key, points });
  set({ axes: state.axes + 1 });
  return true;
}

/** @param {number} value @param {import("./types.js").Scenario} scenario @returns {Promise<Point>} */
async function pointOf(value, scenario) {
  try {
    return { value, scenario, estimate: await api.estimate(scenario), problems: [] };
  } catch (error) {
    if (!(error instanceof ApiError) || !error.problems.length) throw error;
    return { value, scenario, estimate: null, problems: error.problems };
  }
}
