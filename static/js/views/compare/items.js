/** What is compared: the shown scenario, the measured run, and the pins. */
import { setShown, togglePin } from "../../actions.js";
import { isTable } from "../../measured.js";
import { setMeasured } from "../../measurements.js";
import { describe, same, shortLabel } from "../../scenario.js";
import { state } from "../../state.js";
import { pinned } from "../../url.js";

/** @typedef {{measurement: string} | {expected: string} | {scenario: import("../../types.js").Scenario, label: string}} Item */
/** @typedef {{item: Item, remove: () => void}} Compared */

const MOST_ITEMS = 32;

/**
 * The measured run that is compared, "" for none: the bundled sample only while nothing was chosen, as it would put
 * another model and chip beside what was.
 */
export function comparedRun() {
  const { measured, sample, pins, scenario, base } = state;
  return measured === sample && (pins.length || !same(scenario, base)) ? "" : measured;
}

/**
 * Whether nobody knows which scenario a measured step is of: it then stands beside its own prediction, and beside a
 * scenario only where that is pinned.
 * @param {string} id
 */
function isUnknown(id) {
  const summary = state.measurements?.find((one) => one.id === id);
  return Boolean(summary && !summary.has_scenario && !isTable(summary));
}

/** Items for a comparison, in order, and how each is taken out; tables have nothing to put beside a step. */
export function comparedItems() {
  const { scenario, catalog, pins, base, unshown } = state;
  const measured = comparedRun();
  /** @type {Compared[]} */
  const items = [];
  const absent = unshown || isUnknown(measured);
  if (!absent) items.push({ item: { scenario, label: describe(scenario, catalog) }, remove: () => setShown(false) });
  if (measured) items.push({ item: { measurement: measured }, remove: () => setMeasured("") });
  const own = measured && state.measurement?.id === measured && state.measurement.expected && !state.measuredScenario;
  if (own) items.push({ item: { expected: measured }, remove: () => setMeasured("") });
  const tables = new Set((state.measurements ?? []).filter(isTable).map(({ id }) => id));
  for (const pin of pins) {
    const remove = () => togglePin(pin);
    if (pin.startsWith("m:")) {
      if (pin.slice(2) !== measured && !tables.has(pin.slice(2)))
        items.push({ item: { measurement: pin.slice(2) }, remove });
    } else {
      const its = pinned(pin, base);
      if (absent || !same(its, scenario))
        items.push({
          item: { scenario: its, label: absent ? describe(its, catalog) : nameBeside(its, scenario) },
          remove,
        });
    }
  }
  return items.slice(0, MOST_ITEMS);
}

/** Measurements that are open, tables too. */
export const opened = () => [
  ...new Set([
    ...state.pins.filter((pin) => pin.startsWith("m:")).map((pin) => pin.slice(2)),
    ...[comparedRun()].filter(Boolean),
  ]),
];

/** Beside the shown scenario a pinned one is named by what it changes. @param {any} its @param {any} shown */
const nameBeside = (its, shown) =>
  same(its.model, shown.model) && same(its.cluster.chip, shown.cluster.chip)
    ? shortLabel(its, shown, state.catalog)
    : describe(its, state.catalog);
