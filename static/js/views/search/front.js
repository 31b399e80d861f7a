/** The front of a search as a figure; a click on a point opens its plan in Explore. */
import { exploreScenario } from "../../actions.js";
import { front } from "../../figures/front.js";
import { bytes } from "../../format.js";
import { planLabel } from "../../planLabel.js";
import { chipOf } from "../../scenario.js";
import { state } from "../../state.js";
import { colour, h, narrow, put } from "../common/dom.js";
import { FigureCard } from "../common/figure.js";

/** @typedef {import("../../types.js").Found} Found */

/** @param {any} plan */
const wordsOf = (plan) => {
  const { degrees, rest } = planLabel(plan, state.catalog.fields);
  return [degrees, rest].filter(Boolean).join(", ");
};

/** The plan of Explore as a point, where its estimate is there. */
function presentPlan() {
  const { estimate, estimated, scenario } = state;
  if (!estimate || !estimated || estimated !== scenario) return null;
  const { step_time_s, memory } = estimate;
  const { peak_bytes, reserved_bytes } = memory;
  return { words: wordsOf(estimated.plan), step_time_s, peak_bytes, reserved_bytes };
}

export function createFront() {
  const name = () => "headroom-search";
  const card = new FigureCard({ id: "front", title: "Time against memory", height: 330, span: "w12", name });
  put(card.sub, "plans that none beats in both; click one to open it · ◇ present plan");
  const hint = h("p", { class: "hint" });
  card.below.append(hint);
  card.element.hidden = true;
  /** @type {Found[][]} */
  let traces = []; // plans of the figure's traces
  let listening = false;

  /** @param {Found[]} pareto @param {Found} best */
  function update(pareto, best) {
    const shown = (/** @type {Found} */ found) => ({ ...found, words: wordsOf(found.scenario.plan) });
    const capacity_bytes = Math.min(
      chipOf(state.scenario, state.catalog).memory_bytes ?? Infinity,
      state.wanted.memory_gb ? state.wanted.memory_gb * 1e9 : Infinity,
    );
    const present = presentPlan();
    traces = [pareto, [best]];
    card.later(() => {
      requestAnimationFrame(listen);
      const plans = pareto.map(shown);
      return front({ plans, best: shown(best), present, capacity_bytes, colour, narrow: narrow() });
    });
    put(hint, `Limit ${bytes(capacity_bytes)} per chip, allocator's reserve included.`);
  }

  /** Plotly gives elements their events with the first drawing. */
  function listen() {
    const plot = /** @type {PlotlyElement} */ (card.plot);
    if (listening || !plot.on) return;
    listening = true;
    plot.on("plotly_click", ({ points: [point] }) => {
      const found = traces[point.curveNumber]?.[point.pointNumber];
      if (found) exploreScenario(found.scenario);
    });
  }
  return { element: card.element, update };
}
