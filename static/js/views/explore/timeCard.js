/** The step time: the primary figure, drawn in the frame of every change; its table of errors; the run's warnings. */
import { stepTime as stepTimeFigure } from "../../figures/stepTime.js";
import { plural } from "../../format.js";
import { apart, beside, comparable, deviceName, disturbance, doubtOf, spreadWords, stepTime } from "../../measured.js";
import { state } from "../../state.js";
import { colour, h, narrow, put } from "../common/dom.js";
import { createErrors } from "../common/errorTable.js";
import { FigureCard } from "../common/figure.js";
import { createBy } from "./by.js";
import { isMeasuredScenario } from "./tiles.js";
import { warningList } from "../common/warnings.js";

/** Why no measurement stands beside the prediction. @param {import("../../types.js").Scenario} scenario */
function absence(scenario) {
  const { measurement } = state;
  if (!measurement) return "no measurement chosen";
  const why = apart(state, scenario);
  if (why === "unknown") return "of which scenario the measurement is, is not known";
  return why === "chip" ? `measured on ${deviceName(measurement)}` : "another model was measured";
}

/** @param {{name: () => string}} options */
export function createTime({ name }) {
  const by = createBy(() => update());
  const errors = createErrors();
  const warnings = h("details", { class: "warned", hidden: true });
  const card = new FigureCard({
    id: "step-time",
    title: "Step time",
    height: 118,
    span: "w7",
    actions: by.modes,
    table: false,
    name,
  });
  const spread = h("p", { class: "hint", hidden: true });
  card.below.append(errors.element, spread, warnings);

  function update() {
    const { estimate, drag } = state;
    if (!estimate) return;
    const scenario = state.estimated ?? state.scenario;
    const measurement = beside(state, scenario);
    const measuredStep_s = stepTime(measurement);
    const judged = comparable(measurement, scenario, state.catalog);
    const largest_s = drag?.largest_s ?? 0;
    const absent = absence(scenario);
    const names = by.chosen === "phase" ? state.catalog.phases : state.catalog.categories;
    // what splits disturbed steps is not the fastest one's
    const split = disturbance(measurement) ? null : measurement;
    const shown = { estimate, measurement: split, measuredStep_s, judged, absent, by: by.chosen, names, largest_s };
    const figure = stepTimeFigure({ ...shown, colour, narrow: narrow() });
    const { rows, scale } = figure;
    card.now(() => figure);
    put(card.sub, `${measurement ? "predicted against measured" : `predicted; ${absent}`}, ${scale.unit}`);
    const step = { predicted: estimate.step_time_s, measured: measuredStep_s };
    errors.update({ rows, scale, by: by.chosen, step, same: isMeasuredScenario(), judged });
    put(spread, [spreadWords(measurement), doubtOf(scenario, state.catalog)].filter(Boolean).join(" "));
    spread.hidden = !spread.textContent;
  }

  function showWarnings() {
    const found = state.measurement?.warnings ?? [];
    const text = `${plural(found.length, "warning")} of the measurement`;
    warnings.hidden = !found.length;
    warnings.replaceChildren(h("summary", { text }), warningList(found));
  }
  return { element: card.element, update, showWarnings };
}
