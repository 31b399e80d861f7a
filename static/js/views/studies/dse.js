/**
 * Pathfinding: the machine from technology under sliders. Time, overflow and what binds move with them; below, the
 * power split and its search, plans on many chips, what contradicts itself, and a Llama layer on a real chip.
 */
import { api, ApiError } from "../../api.js";
import { hierarchical, levelNames } from "../../figures/hierarchy.js";
import { memorySeries, timeSeries } from "../../figures/dseSeries.js";
import { powerSweep } from "../../figures/power.js";
import { legendOf, studyFigure } from "../../figures/study.js";
import { colour, h, narrow, put } from "../common/dom.js";
import { FigureCard } from "../common/figure.js";
import { createPathLayer } from "./dseLayer.js";
import { createPathSearch } from "./dseSearch.js";
import { createPathSliders } from "./dseSliders.js";
import { createCorrections, createPathPlans } from "./dseTables.js";
import { createPathTiles } from "./dseTiles.js";

/** Groups of the study's own series that this section draws live. */
export const LIVE_GROUPS = ["time composition", "memory per data shard", "power split"];
const name = () => "deepflow-lstm";

/** @param {string} id @param {string} title @param {number} height */
const card = (id, title, height) => new FigureCard({ id, title, height, span: "", name });

/** @param {{change: (settings: Record<string, string>) => void}} options  `change`: a slider was let go */
export function createPathfinding({ change }) {
  const tiles = createPathTiles();
  const sliders = createPathSliders({ preview: (settings) => void live(settings), change });
  const problem = h("div", { class: "problem w12", role: "alert", hidden: true });
  const time = card("path-time", "Time composition", 240);
  const memory = card("path-memory", "Memory of one chip", 240);
  const roof = card("path-roofline", "Roofline of the machine, level by level", 280);
  const sweep = card("path-sweep", "Power between compute and memory", 260);
  sweep.explain([
    ["accent", "now"],
    ["good", "least"],
  ]);
  const layer = createPathLayer({ name });
  const search = createPathSearch({ name });
  const plans = createPathPlans();
  const corrections = createCorrections();
  const more = h(
    "details",
    { class: "more-figures w12" },
    h("summary", { text: "2 more figures: a Llama layer, the search of the power split" }),
    h("div", { class: "pathfinding" }, layer.element, search.element),
  );
  const element = h(
    "div",
    { class: "pathfinding w12", id: "pathfinding" },
    [tiles.element, sliders.element, problem, time.element, memory.element, roof.element, sweep.element],
    [more, plans.element, corrections.element],
  );
  /** @type {any} */
  let seen = null;
  /** @type {Record<string, string>} */
  let settings = {};
  /** @type {AbortController | null} */
  let asking = null;

  /** @param {Record<string, string>} now */
  async function live(now) {
    asking?.abort();
    asking = new AbortController();
    const { signal } = asking;
    try {
      const answer = await api.pathfinding(now, signal);
      if (signal.aborted) return;
      seen = answer;
      problem.hidden = true;
      element.classList.remove("dim");
      sliders.update(seen.inputs);
      draw();
    } catch (error) {
      if (signal.aborted || !(error instanceof ApiError)) return;
      problem.hidden = false;
      put(problem, error.message);
      element.classList.add("dim");
    }
  }

  /** Inputs that stand: also what needs longer than a frame. @param {Record<string, string>} now */
  async function update(now) {
    settings = now;
    search.update(now);
    sliders.stand(now);
    await live(sliders.held(now));
    layer.start();
    const table = await api.pathfindingPlans(now).catch(() => null);
    if (table && settings === now) plans.update(table);
  }

  function draw() {
    if (!seen) return;
    const { composition, memory: held, hierarchy, sweep: line, time_s } = seen;
    tiles.update(seen);
    time.now(() => studyFigure({ series: timeSeries(composition), colour, narrow: narrow() }));
    const kinds = memorySeries(held);
    memory.explain(legendOf(kinds));
    memory.later(() => studyFigure({ series: kinds, colour, narrow: narrow() }));
    roof.explain(levelNames(hierarchy));
    roof.later(() => hierarchical({ hierarchy, colour, narrow: narrow() }));
    sweep.later(() => powerSweep({ sweep: line, time_s, colour }));
    corrections.update(seen);
  }

  function redraw() {
    draw();
    search.draw();
    layer.draw();
  }
  return { element, update, redraw, unfold: () => [more, corrections.element].forEach((one) => (one.open = true)) };
}
