// @ts-check
/** What is compared: the shown scenario, the measured run, and the pins. */
import { isTable } from "../measured.js";
import { describe, same, shortLabel } from "../scenario.js";
import { state } from "../state.js";
import { pinned } from "../url.js";

/** @typedef {{measurement: string} | {scenario: import("../types.js").Scenario, label: string}} Item */

const MOST_ITEMS = 32;

/** Items for a comparison, in order; tables have nothing to put beside a step. @returns {Item[]} */
export function chosen() {
  const { scenario, catalog, measured, pins, base } = state;
  /** @type {Item[]} */
  const items = [{ scenario, label: describe(scenario, catalog) }];
  if (measured) items.push({ measurement: measured });
  const tables = new Set((state.measurements ?? []).filter(isTable).map(({ id }) => id));
  for (const pin of pins) {
    if (pin.startsWith("m:")) {
      if (pin.slice(2) !== measured && !tables.has(pin.slice(2))) items.push({ measurement: pin.slice(2) });
    } else {
      const its = pinned(pin, base);
      if (!same(its, scenario)) items.push({ scenario: its, label: nameBeside(its, scenario) });
    }
  }
  return items.slice(0, MOST_ITEMS);
}

/** Measurements that are open, tables too. */
export const opened = () => [
  ...new Set([
    ...state.pins.filter((pin) => pin.startsWith("m:")).map((pin) => pin.slice(2)),
    ...(state.measured ? [state.measured] : []),
  ]),
];

/** Beside the shown scenario a pinned one is named by what it changes. @param {any} its @param {any} shown */
const nameBeside = (its, shown) =>
  same(its.model, shown.model) && same(its.cluster.chip, shown.cluster.chip)
    ? shortLabel(its, shown)
    : describe(its, state.catalog);
