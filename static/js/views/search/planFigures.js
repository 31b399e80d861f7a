/** Two figures of what a search found: plans in two measures, and the best plan in each cell; a click makes one B. */
import { setWanted, tryPlan } from "../../actions.js";
import { answerOf } from "../../answers.js";
import { axisOf } from "../../fieldLabels.js";
import { measures, planFigure } from "../../figures/plans.js";
import { planCells } from "../../figures/planCells.js";
import { chipHoursWord } from "../../scenario.js";
import { state } from "../../state.js";
import { CELL_AXES } from "../../sweeping.js";
import { planWords } from "../../planLabel.js";
import { colour, h, narrow, put } from "../common/dom.js";
import { FigureCard } from "../common/figure.js";

/** @typedef {import("../../answers.js").Answer} Answer */
/** @typedef {import("../../answers.js").Asked} Asked */
/** @typedef {{values: any[], found: import("../../types.js").Found}} Cell */

const HEIGHT_PX = 320;

/** @param {Answer} one */
const shown = (one) => ({ ...one, words: planWords(one.found.scenario.plan, state.catalog.fields) });

/** The plan of Explore as an answer, where its estimate is there. @param {Asked} asked */
function present(asked) {
  const { estimate, estimated, scenario } = state;
  if (!estimate || !estimated || estimated !== scenario) return null;
  const { step_time_s, interval_s, memory, tokens_per_s, mfu, chips } = estimate;
  const { peak_bytes, reserved_bytes, capacity_bytes } = memory;
  const cost_chip_s = chips * step_time_s;
  const sizes = { peak_bytes, reserved_bytes, capacity_bytes };
  return shown(answerOf({ scenario, step_time_s, interval_s, ...sizes, cost_chip_s, tokens_per_s, mfu }, asked));
}

/** Two choices of what the axes are. @param {"axes" | "cells"} name @param {string} of */
function chooser(name, of) {
  const boxes = [0, 1].map((at) =>
    h("select", {
      "aria-label": `${of}: ${at ? "up" : "across"}`,
      onchange: () => {
        const next = [...state.wanted[name]];
        // the two are never the same: what the other had is taken over
        if (next[1 - at] === boxes[at].value) next[1 - at] = next[at];
        next[at] = boxes[at].value;
        setWanted({ [name]: next });
      },
    }),
  );
  /** @param {[value: string, text: string][]} options */
  function update(options) {
    boxes.forEach((box, at) => {
      box.replaceChildren(...options.map(([value, text]) => h("option", { value, text })));
      box.value = state.wanted[name][at];
    });
  }
  return { element: h("span", { class: "axes" }, boxes[1], " over ", boxes[0]), update };
}

/** Hear clicks on points, once the first drawing has given the plot its events. @param {FigureCard} card @param {(curve: number, point: number) => import("../../types.js").Found | undefined} found */
function openOnClick(card, found) {
  let listening = false;
  return () => {
    const plot = /** @type {PlotlyElement} */ (card.plot);
    if (listening || !plot.on) return;
    listening = true;
    plot.on("plotly_click", ({ points: [point] }) => {
      const one = found(point.curveNumber, point.pointNumber);
      if (one) openPlan(one.scenario);
    });
  };
}

/** Make a plan B, beside what is A, and show the two. @param {any} scenario */
export function openPlan(scenario) {
  tryPlan(scenario, "explore");
  scrollTo({ top: 0 });
}

export function createPlanFigures() {
  const name = () => "headroom-search";
  const axes = chooser("axes", "Plans");
  const front = new FigureCard({
    id: "front",
    title: "Plans",
    height: HEIGHT_PX,
    span: "w6",
    name,
    actions: [axes.element],
  });
  const pair = chooser("cells", "Cells");
  const cells = new FigureCard({
    id: "cells",
    title: "Best of each",
    height: HEIGHT_PX,
    span: "w6",
    name,
    actions: [pair.element],
  });
  put(front.sub, "click opens as B");
  /** @type {Answer[][]} */
  let order = [];
  /** @type {Cell[]} */
  let inCells = [];
  const listenFront = openOnClick(front, (curve, point) => order[curve]?.[point]?.found);
  const listenCells = openOnClick(cells, (_, point) => inCells[point]?.found);

  /** @param {Answer[]} sorted @param {Cell[]} found @param {Asked} asked @param {string} objective  by which they are sorted */
  function update(sorted, found, asked, objective) {
    const { scenario, catalog, wanted } = state;
    const all = measures(asked.run_tokens > 0, chipHoursWord(scenario, catalog));
    const usable = all.filter(({ key }) => key !== "price" || asked.usd_per_hour);
    const measure = (/** @type {string} */ key) => usable.find((one) => one.key === key) ?? usable[0];
    axes.update(usable.map(({ key, text }) => [key, text]));
    pair.update(CELL_AXES.map((one) => [one, axisOf(one)]));
    // ranks of one CPU share it: fewer have more each, which none exceeds
    const capacities = sorted.map(({ found }) => found.capacity_bytes);
    const capacity_bytes = Math.min(
      capacities.length ? Math.max(...capacities) : (state.estimate?.memory.capacity_bytes ?? Infinity),
      wanted.memory_gb ? wanted.memory_gb * 1e9 : Infinity,
    );
    const [x, y] = wanted.axes.map(measure);
    // in the frame of the text: a figure of the search before beside it would be taken for its own
    front.now(() => {
      requestAnimationFrame(listenFront);
      const figure = planFigure({
        plans: sorted.map(shown),
        best: sorted.length ? shown(sorted[0]) : null,
        present: present(asked),
        x,
        y,
        limits: { days: asked.days, capacity_bytes },
        colour,
        narrow: narrow(),
      });
      order = figure.order;
      front.explain(figure.legend);
      return figure;
    });
    inCells = found;
    cells.element.hidden = !found.length;
    const best = measure(objective === "memory" ? "memory" : objective === "cost" ? "hours" : "time");
    put(cells.sub, `${best.text}; click opens as B`);
    if (!found.length) return;
    cells.now(() => {
      requestAnimationFrame(listenCells);
      const some = found.map(({ values, found: one }) => ({ values, one: shown(answerOf(one, asked)) }));
      return planCells({ cells: some, axes: wanted.cells, measure: best, colour, narrow: narrow() });
    });
  }
  return { elements: [front.element, cells.element], update };
}
