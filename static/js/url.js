// @ts-check
/** The whole state of the page as a query string, and back. Pure. Only what differs from the start state is written. */
import { same } from "./scenario.js";

/** @typedef {import("./types.js").Scenario} Scenario */
/**
 * @typedef {{view: string, scenario: Scenario, measured: string, pins: string[], baseline: number, run: string}} Place
 */

export const VIEWS = ["explore", "runs", "compare"];

/** Write the fields in which `scenario` differs from `base`. @param {Scenario} scenario @param {Scenario} base */
export function encodeScenario(scenario, base) {
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
export function decodeScenario(query, base) {
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
  for (const pin of place.pins) query.append("pin", pin);
  if (place.baseline > 0) query.set("baseline", String(place.baseline));
  if (place.run && place.view === "runs") query.set("run", place.run);
  const text = query.toString();
  return text ? `?${text}` : "";
}

/** @param {string} search @param {Scenario} base @param {string} sample @returns {Place} */
export function decode(search, base, sample) {
  const query = new URLSearchParams(search);
  const view = query.get("view") ?? "explore";
  const measured = query.get("measured") ?? sample;
  return {
    view: VIEWS.includes(view) ? view : "explore",
    scenario: decodeScenario(query, base),
    measured: measured === "none" ? "" : measured,
    pins: query
      .getAll("pin")
      .filter((pin) => /^[ms]:/.test(pin))
      .slice(0, 64),
    baseline: Math.max(0, Number.parseInt(query.get("baseline") ?? "0", 10) || 0),
    run: query.get("run") ?? "",
  };
}

/** A pinned scenario as one word. @param {Scenario} scenario @param {Scenario} base */
export const pinOf = (scenario, base) => `s:${encodeScenario(scenario, base)}`;
/** @param {string} pin @param {Scenario} base */
export const pinned = (pin, base) => decodeScenario(new URLSearchParams(pin.slice(2)), base);
