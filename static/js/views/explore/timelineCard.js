/** The card of the step over time: A above B in every lane, memory below; a Chrome trace to take along. */
import { chromeTrace, HEIGHT_PX, kindsOf, phasesInOrder, placeOf, timeline } from "../../figures/timeline.js";
import { seconds } from "../../format.js";
import { ownTimelineOf, timelineOf } from "../../pair.js";
import { silent } from "../../sides.js";
import { state } from "../../state.js";
import { colour, download, h, narrow, put } from "../common/dom.js";
import { FigureCard } from "../common/figure.js";

/** @typedef {import("../../figures/timeline.js").Run & {apart?: string}} Run */

/** Of the step time: what a recording and the host's clock may differ by for one step. */
const SAME_FRAC = 0.05;

/** Sides of the pair that can be laid out over time now. */
export const runsNow = () => [runOf(state.pair?.a ?? null), runOf(state.pair?.b ?? null)].filter((run) => run !== null);

/** Whether something to draw will come: of a side that is not there yet, of a prediction behind its figures. @param {import("../../sides.js").Side | null} side */
const awaited = (side) => Boolean(side && ((!side.measurement && !side.estimate) || (side.predicted && side.estimate)));

/** What of a side can be laid out over time, null where it is not there yet. @param {import("../../sides.js").Side | null} side @returns {Run | null} */
function runOf(side) {
  if (!side) return null;
  const { letter, predicted, fits, step_s } = side;
  if (predicted && side.scenario && side.estimate) {
    const drawn = timelineOf(side.scenario);
    return drawn && { letter, predicted, fits, drawn };
  }
  if (side.own) {
    const drawn = ownTimelineOf(side.item.expected);
    return drawn && { letter, predicted, fits, drawn };
  }
  const own = side.measurement?.timeline;
  if (own) return { letter, predicted, fits, drawn: own, apart: otherStep(letter, own.total_s, step_s) };
  if (!side.phases_s || !step_s) return null;
  return { letter, predicted, fits, drawn: phasesInOrder(side.phases_s, state.catalog.phases, step_s) };
}

/** Which step is drawn, where it is not the one whose time is shown. @param {string} letter @param {number} drawn_s @param {number | null} step_s */
const otherStep = (letter, drawn_s, step_s) =>
  step_s && Math.abs(drawn_s / step_s - 1) > SAME_FRAC
    ? `${letter}: a typical step of ${seconds(drawn_s)}, not ${seconds(step_s)}`
    : "";

/** The pipeline stages of a side, and how they are scheduled. @param {import("../../sides.js").Side} side */
function pipelineOf({ scenario }) {
  if (!scenario) return { pp: 1, schedule: "", rounds: 1 };
  const { pp, dp, schedule, micro_batch, virtual_stages = 1 } = scenario.plan;
  return { pp, schedule, rounds: (scenario.training.global_batch / (dp * micro_batch)) * virtual_stages };
}

/** A predicted side that is still to be laid out, as the place that it takes. @param {import("../../sides.js").Side} side @returns {Run} */
function awaitedRun(side) {
  const { letter, predicted, fits, step_s, breakdown_s, own } = side;
  const sends = !own || (breakdown_s?.[state.catalog.sends] ?? 0) > 0;
  const peak_bytes = side.peak_bytes ?? 0;
  return {
    letter,
    predicted,
    fits,
    drawn: placeOf({ ...pipelineOf(side), step_s: step_s ?? 0, peak_bytes, sends }),
  };
}

/** Both sides, what is still to come as its place. @returns {Run[]} */
const runsAndPlaces = () =>
  [state.pair?.a, state.pair?.b].flatMap(
    (side) => (side && (runOf(side) ?? (side.predicted && side.estimate ? awaitedRun(side) : null))) || [],
  );

/** Kinds of blocks that predicted sides may have. */
const expectedKinds = () =>
  [state.pair?.a, state.pair?.b].flatMap((side) =>
    side?.predicted && side.estimate
      ? kindsOf({ ...pipelineOf(side), breakdown_s: side.breakdown_s ?? {} }, state.catalog)
      : [],
  );

/** @param {{name: () => string}} options */
export function createTimeline({ name }) {
  /** @type {Run[]} */
  let runs = [];
  const save = h("button", {
    type: "button",
    text: "Trace",
    "aria-label": "Timeline: download a trace for Perfetto",
    onclick: () =>
      download(
        `${name()}-timeline.trace.json`,
        JSON.stringify(chromeTrace(runs.filter(({ drawn }) => drawn.lane.length))),
        "application/json",
      ),
  });
  const card = new FigureCard({
    id: "timeline",
    title: "Timeline",
    height: HEIGHT_PX,
    span: "w6 fig",
    actions: [save],
    name,
  });

  const unit = h("span", { class: "unit" });
  card.sub.before(unit);

  /** @param {Run[]} found */
  function figureOf(found) {
    const { selected, catalog } = state;
    const { categories: names, phases, passes } = catalog;
    const expected = expectedKinds();
    const figure = timeline({ runs: found, names, phases, passes, expected, selected, colour, narrow: narrow() });
    card.explain(figure.key);
    put(unit, figure.unit);
    put(card.sub, [...found.map(({ apart }) => apart), figure.folded].filter(Boolean).join("; "));
    card.sub.title = figure.said ?? "";
    return figure;
  }

  function update() {
    if (state.drag || !state.pair) return;
    const there = runsNow();
    card.element.hidden = !there.length && (silent(state.pair) || ![state.pair.a, state.pair.b].some(awaited));
    if (there.length) {
      card.later(() => {
        if (runsNow().length) runs = runsAndPlaces();
        return figureOf(runs);
      });
      return;
    }
    // until there is something to draw the last one stays, or the place of the first: nothing moves when it comes
    const places = runsAndPlaces();
    if (!card.figure && places.length) card.plot.style.height = `${figureOf(places).layout.height}px`;
  }
  return { element: card.element, update };
}
