// @ts-check
/** Compare: the shown scenario, the measured run, and whatever is pinned, beside each other against a baseline. */
import { openMeasurement, refreshMeasurements, setBaseline, setPins } from "../actions.js";
import { api, ApiError } from "../api.js";
import { tokenOf, words } from "../figures/base.js";
import { compareBars } from "../figures/compare.js";
import { arrow, bytes, change, csv, percent, seconds, short } from "../format.js";
import { isTable } from "../measured.js";
import { describe, same, shortLabel } from "../scenario.js";
import { state, subscribe } from "../state.js";
import { pinned } from "../url.js";
import { byId, colour, download, h, narrow, put, swatch } from "./dom.js";
import { FigureCard } from "./figure.js";
import { grid } from "./table.js";
import { createLibrary } from "./library.js";
import { createDetails } from "./details.js";
import { createSheet } from "./sheet.js";

/** @typedef {{measurement: string} | {scenario: any, label: string}} Item */

const MOST_ITEMS = 32;

/** What is compared, in order; tables have nothing to put beside a step. @returns {Item[]} */
function chosen() {
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
const opened = () => [...new Set([...state.pins.filter((pin) => pin.startsWith("m:")).map((pin) => pin.slice(2)), ...(state.measured ? [state.measured] : [])])];

/** Beside the shown scenario a pinned one is named by what it changes. @param {any} its @param {any} shown */
const nameBeside = (its, shown) => (same(its.model, shown.model) && same(its.cluster.chip, shown.cluster.chip) ? shortLabel(its, shown) : describe(its, state.catalog));

/** @param {HTMLElement} root */
export function createCompare(root) {
  const library = createLibrary();
  const sheet = createSheet("Choose what to compare", [library.element, h("section", {}, h("div", { class: "row" }, h("button", { type: "button", class: "ghost", text: "Import files or text", onclick: () => byId("import").click() })))]);
  const problem = h("div", { class: "notices" });
  const table = h("div", { class: "scroll", tabindex: 0, "aria-label": "Compared" });
  const summary = h("section", { class: "card w12", id: "compared" }, h("header", {}, h("h3", { text: "Side by side" }), h("span", { class: "sub", text: "deltas against the chosen baseline" }), h(
    "span", { class: "acts" }, h("button", { type: "button", text: "CSV", "aria-label": "Side by side: download CSV", onclick: save }),
    h("button", { type: "button", text: "JSON", "aria-label": "Side by side: download JSON", onclick: () => answer && download("headroom-compare.json", JSON.stringify(answer, null, 2), "application/json") }),
  )), table);
  const time = new FigureCard({ id: "compare-time", title: "Step time", height: 150, span: "w7", name: () => "headroom" });
  const mem = new FigureCard({ id: "compare-memory", title: "Peak memory", height: 150, span: "w5", name: () => "headroom" });
  const legend = h("div", { class: "legend" });
  time.below.append(legend);
  put(time.sub, "hatched: predicted, solid: measured");
  const differences = h("section", { class: "card w12", id: "differences" });
  const details = createDetails();
  root.append(sheet.panel, h("main", { tabindex: -1 }, problem, summary, time.element, mem.element, differences, details.element), sheet.button);
  /** @type {any} */
  let answer = null;
  /** @type {AbortController | null} */
  let asking = null;

  async function update() {
    if (state.view !== "compare" || !state.measurements) return;
    void details.update(opened());
    asking?.abort();
    asking = new AbortController();
    const { signal } = asking;
    let items = chosen();
    let gone = 0;
    try {
      let found = null;
      while (!found) {
        try {
          found = await api.compare(items, Math.min(state.baseline, items.length - 1), signal);
        } catch (error) {
          // an item that cannot be compared (deleted, or no longer possible) must not hide the others
          const bad = error instanceof ApiError ? new Set(error.problems.map(({ field }) => Number(/^items\[(\d+)\]/.exec(field)?.[1] ?? NaN))) : new Set();
          const rest = items.filter((_, at) => !bad.has(at));
          if (!rest.length || rest.length === items.length) throw error;
          gone += items.length - rest.length;
          items = rest;
        }
      }
      if (signal.aborted) return;
      answer = found;
      problem.replaceChildren(...(gone ? [h("div", { class: "notice", text: `${gone === 1 ? "One pinned item" : `${gone} pinned items`} cannot be compared: it is gone, or its scenario is not possible.` })] : []));
      draw();
    } catch (error) {
      if (signal.aborted || !(error instanceof ApiError)) return;
      problem.replaceChildren(h("div", { class: "notice", role: "alert" }, h("b", { text: "This cannot be compared." }), error.message));
    }
  }

  function draw() {
    if (!answer) return;
    const { items, deltas } = answer;
    const at = Math.min(state.baseline, items.length - 1);
    const head = ["baseline", "item", "", "step time", "", "tokens/s", "MFU", "peak memory", "", "status"];
    table.replaceChildren(grid(head, items.map((/** @type {any} */ item, /** @type {number} */ index) => {
      const [time_frac, peak_frac] = index === at ? [null, null] : [deltas[index]?.step_time_frac, deltas[index]?.peak_bytes_frac];
      const choose = h("input", { type: "radio", name: "baseline", checked: index === at, "aria-label": `Baseline: ${item.label}`, onchange: () => setBaseline(index) });
      return h(
        "tr", {}, h("td", {}, choose), h("td", { class: "label", title: item.label, text: item.label }), h("td", { class: "text quiet", text: item.kind }),
        h("td", { text: seconds(item.step_time_s) }), delta(time_frac), h("td", { text: item.tokens_per_s ? short(item.tokens_per_s) : "–" }), h("td", { text: percent(item.mfu) }),
        h("td", { text: bytes(item.memory?.peak_bytes) }), delta(peak_frac), h("td", { text: item.status ?? "" }),
      );
    }), [1, 2]));
    const timed = items.filter((/** @type {any} */ { step_time_s }) => step_time_s);
    const sized = items.filter((/** @type {any} */ { memory }) => memory?.peak_bytes);
    time.element.hidden = !timed.length;
    mem.element.hidden = !sized.length;
    if (timed.length) time.later(() => compareBars({ items: timed, of: "time", colour, narrow: narrow() }));
    if (sized.length) mem.later(() => compareBars({ items: sized, of: "memory", colour, narrow: narrow() }));
    const names = compareBars({ items: timed, of: "time", colour, narrow: false }).names;
    legend.replaceChildren(...names.map((name) => h("span", {}, swatch(tokenOf(name)), words(name))));
    drawDifferences();
  }

  function drawDifferences() {
    const { items, differences: found } = answer;
    const title = h("header", {}, h("h3", { text: "Configuration" }), h("span", { class: "sub", text: found.length ? "only what differs" : "no recorded setting differs" }));
    differences.hidden = items.length < 2;
    const heads = ["field", ...items.map((/** @type {any} */ { label }) => (label.length > 28 ? `${label.slice(0, 27)}…` : label))];
    const row = (/** @type {any} */ { field, values }) => {
      const baseline = values[Math.min(state.baseline, values.length - 1)];
      return h("tr", {}, h("td", { text: field }), values.map((/** @type {any} */ value) => h("td", { text: text(value), class: same(value, baseline) && "same" })));
    };
    const table = found.length && h("div", { class: "scroll", tabindex: 0, "aria-label": "Configuration differences" }, grid(heads, found.map(row)));
    differences.replaceChildren(title, ...(table ? [table] : []));
  }

  function save() {
    if (!answer) return;
    const categories = [...new Set(answer.items.flatMap((/** @type {any} */ { breakdown_s }) => Object.keys(breakdown_s ?? {})))];
    download("headroom-compare.csv", csv({
      columns: ["label", "kind", "step_time_s", "tokens_per_s", "mfu", "peak_bytes", ...categories.map((name) => `${name}_s`)].map((title) => ({ title })),
      rows: answer.items.map((/** @type {any} */ item) => [item.label, item.kind, item.step_time_s, item.tokens_per_s, item.mfu, item.memory?.peak_bytes, ...categories.map((name) => item.breakdown_s?.[name])]),
    }));
  }

  subscribe(["view", "scenario", "measured", "pins", "baseline", "measurements"], () => void update());
  subscribe(["theme"], () => answer && state.view === "compare" && draw());
  subscribe(["view"], () => void (state.view === "compare" && refreshMeasurements()));
  subscribe(["measurements", "pins", "measured"], library.update);
  library.onopen = (id) => void openMeasurement(id);
  library.onpick = (ids, on) => setPins(ids, on);
  void update();
  return { panel: sheet };
}

/** @param {any} value */
const text = (value) => (value === null || value === undefined ? "–" : typeof value === "object" ? value.label || value.name || JSON.stringify(value) : String(value));

/** Less is better for time and for memory. @param {number | null | undefined} frac */
function delta(frac) {
  if (frac === null || frac === undefined) return h("td");
  return h("td", { class: Math.abs(frac) < 0.0005 ? "" : frac < 0 ? "better" : "worse", text: `${arrow(frac)} ${change(frac)}` });
}
