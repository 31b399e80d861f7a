/** The card of the step over time: A above B in every lane, memory below; a Chrome trace to take along. */
import { chromeTrace, phasesInOrder, timeline } from "../../figures/timeline.js";
import { timelineOf } from "../../pair.js";
import { state } from "../../state.js";
import { colour, download, h, narrow, put } from "../common/dom.js";
import { FigureCard } from "../common/figure.js";

/** @typedef {import("../../figures/timeline.js").Run} Run */

/** Sides of the pair that can be laid out over time now. */
export const runsNow = () => [runOf(state.pair?.a ?? null), runOf(state.pair?.b ?? null)].filter((run) => run !== null);

/** What of a side can be laid out over time, null where it is not there yet. @param {import("../../sides.js").Side | null} side @returns {Run | null} */
function runOf(side) {
  if (!side) return null;
  const { letter, predicted, fits, step_s } = side;
  if (predicted && side.scenario && side.estimate) {
    const drawn = timelineOf(side.scenario);
    return drawn && { letter, predicted, fits, drawn };
  }
  const own = side.measurement?.timeline;
  if (own) return { letter, predicted, fits, drawn: own };
  if (!side.phases_s || !step_s) return null;
  return { letter, predicted, fits, drawn: phasesInOrder(side.phases_s, state.catalog.phases, step_s) };
}

/** @param {{name: () => string}} options */
export function createTimeline({ name }) {
  /** @type {Run[]} */
  let runs = [];
  const save = h("button", {
    type: "button",
    text: "Trace",
    "aria-label": "Timeline: download a trace for Perfetto",
    onclick: () => download(`${name()}-timeline.trace.json`, JSON.stringify(chromeTrace(runs)), "application/json"),
  });
  const card = new FigureCard({
    id: "timeline",
    title: "Timeline",
    height: 280,
    span: "w6 fig",
    actions: [save],
    name,
  });

  function update() {
    if (state.drag || !state.pair) return;
    // until there is something to draw the last one stays, or the place of the first
    if (!runsNow().length) return;
    card.later(() => {
      const { selected, catalog } = state;
      const found = runsNow();
      if (found.length) runs = found;
      const figure = timeline({
        runs,
        names: catalog.categories,
        phases: catalog.phases,
        selected,
        colour,
        narrow: narrow(),
      });
      put(card.sub, figure.said ?? "");
      return figure;
    });
  }
  return { element: card.element, update };
}
