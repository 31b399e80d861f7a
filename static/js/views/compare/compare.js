/** Compare: the shown scenario, the measured run, and whatever is pinned, beside each other against a baseline. */
import { setPins, setShown } from "../../actions.js";
import { api, ApiError } from "../../api.js";
import { compareBars } from "../../figures/compare.js";
import { plural } from "../../format.js";
import { openMeasurement, refreshMeasurements } from "../../measurements.js";
import { state, subscribe } from "../../state.js";
import { comparedItems, opened } from "./items.js";
import { createDetails } from "../common/details.js";
import { byId, colour, h, narrow, put } from "../common/dom.js";
import { FigureCard } from "../common/figure.js";
import { createLibrary } from "./library.js";
import { createParallelism } from "./parallelism.js";
import { createSheet } from "../common/sheet.js";
import { createDifferences, createSideBySide } from "./sideBySide.js";
import { trying } from "../common/toast.js";

/** @typedef {import("./items.js").Compared} Compared */
/** @typedef {import("./sideBySide.js").Comparison} Comparison */

/** @param {HTMLElement} root */
export function createCompare(root) {
  const library = createLibrary();
  const open = h("button", { type: "button", class: "ghost", text: "Import files or text" });
  open.onclick = () => byId("import").click();
  const sheet = createSheet("Choose what to compare", [
    library.element,
    h("section", {}, h("div", { class: "row" }, open)),
  ]);
  const problem = h("div", { class: "notices" });
  const summary = createSideBySide();
  const differences = createDifferences();
  const details = createDetails();
  const name = () => "headroom";
  const about = () => ""; // the bars say themselves what they are of
  const time = new FigureCard({ id: "compare-time", title: "Step time", height: 150, span: "w7", name, about });
  const mem = new FigureCard({ id: "compare-memory", title: "Peak memory", height: 150, span: "w5", name, about });
  put(time.sub, "hatched: predicted, solid: measured");
  const ways = createParallelism();
  const cards = [summary.element, time.element, mem.element, differences.element, details.element, ...ways.elements];
  root.append(
    sheet.panel,
    h(
      "main",
      { tabindex: -1 },
      h("h1", { class: "sr", text: "Compare" }),
      h("h2", { class: "sr", text: "Items" }),
      problem,
      ...cards,
    ),
    sheet.button,
  );
  /** @type {Comparison | null} */
  let answer = null;
  /** @type {(() => void)[]} */
  let removes = [];
  /** @type {AbortController | null} */
  let asking = null;

  async function update() {
    if (state.view !== "compare" || !state.measurements) return;
    void trying(details.update(opened()));
    void ways.update();
    asking?.abort();
    asking = new AbortController();
    const { signal } = asking;
    const back = state.unshown ? () => setShown(true) : null;
    const all = comparedItems();
    if (!all.length) {
      answer = null;
      problem.replaceChildren();
      summary.empty(back);
      for (const one of [time.element, mem.element, differences.element]) one.hidden = true;
      return;
    }
    try {
      const { found, kept, gone } = await comparison(all, signal);
      if (signal.aborted) return;
      answer = found;
      removes = kept.map(({ remove }) => remove);
      const text = `${plural(gone, "pinned item")} cannot be compared: gone, or not possible.`;
      problem.replaceChildren(...(gone ? [h("div", { class: "notice", text })] : []));
      draw();
    } catch (error) {
      if (signal.aborted || !(error instanceof ApiError)) return;
      const title = h("b", { text: "This cannot be compared." });
      problem.replaceChildren(h("div", { class: "notice", role: "alert" }, title, error.message));
    }
  }

  function draw() {
    if (!answer) return;
    const { items } = answer;
    const baseline = Math.min(state.baseline, items.length - 1);
    summary.update(answer, baseline, removes, state.unshown ? () => setShown(true) : null);
    differences.update(answer, baseline);
    const timed = items.filter(({ step_time_s }) => step_time_s);
    const sized = items.filter(({ memory }) => memory?.peak_bytes);
    time.element.hidden = !timed.length;
    mem.element.hidden = !sized.length;
    if (sized.length) show(mem, sized, "memory");
    if (timed.length) show(time, timed, "time");
  }

  /** @param {FigureCard} card @param {any[]} items @param {"time" | "memory"} of */
  function show(card, items, of) {
    const names = of === "time" ? state.catalog.categories : state.catalog.memory_kinds;
    card.later(() => {
      const figure = compareBars({ items, of, names, colour, narrow: narrow() });
      card.explain(figure.legend);
      return figure;
    });
  }

  const asked = /** @type {const} */ (["view", "scenario", "measured", "measurement", "measuredScenario", "pins"]);
  subscribe([...asked, "baseline", "measurements", "unshown"], () => void update());
  subscribe(["split"], () => void ways.update());
  subscribe(["theme"], () => {
    if (state.view !== "compare") return;
    if (answer) draw();
    ways.draw();
  });
  subscribe(["view"], () => void (state.view === "compare" && trying(refreshMeasurements())));
  subscribe(["measurements", "pins", "measured", "scenario"], library.update);
  library.onopen = (id) => void trying(openMeasurement(id));
  library.onpick = (ids, on) => setPins(ids, on);
  void update();
  return { panel: sheet };
}

/**
 * Compare items; one that cannot be compared (deleted, or no longer possible) must not hide the others.
 * @param {Compared[]} items @param {AbortSignal} signal
 * @returns {Promise<{found: Comparison, kept: Compared[], gone: number}>}
 */
async function comparison(items, signal, gone = 0) {
  try {
    const baseline = Math.min(state.baseline, items.length - 1);
    return {
      found: await api.compare(
        items.map(({ item }) => item),
        baseline,
        signal,
      ),
      kept: items,
      gone,
    };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const bad = new Set(error.problems.map(({ field }) => Number(/^items\[(\d+)\]/.exec(field)?.[1] ?? NaN)));
    const rest = items.filter((_, at) => !bad.has(at));
    if (!rest.length || rest.length === items.length) throw error;
    return comparison(rest, signal, gone + items.length - rest.length);
  }
}
