/** The chosen run's steps as they come, and all of them once it has ended. */
import { api, ApiError } from "../../api.js";
import { stepsFigure } from "../../figures/campaign.js";
import { colour, put } from "../common/dom.js";
import { FigureCard } from "../common/figure.js";

/** @typedef {import("../../types.js").Run} Run */

export function createSteps() {
  const card = new FigureCard({ id: "run-steps", title: "Steps", height: 150, span: "", name: () => "headroom-run" });
  card.element.hidden = true;
  /** @type {Map<string, number[]>} */
  const heard = new Map();
  /** @type {Map<string, {steps_s: number[], expected_s: number | null}>} */
  const known = new Map();
  let shown = "";

  /** Remember every step that a run tells. @param {Run[]} runs */
  function hear(runs) {
    for (const { id, progress } of runs) {
      const { phase = "", step = 0, step_s = null } = progress ?? {};
      if (!step || !step_s || /warm/.test(phase)) continue;
      const steps = heard.get(id) ?? [];
      steps[step - 1] = step_s;
      heard.set(id, steps);
      if (id === shown) draw(id);
    }
  }

  /** @param {string} id */
  function draw(id) {
    const all = known.get(id);
    const steps_s = all?.steps_s ?? (heard.get(id) ?? []).filter((one) => one > 0);
    card.element.hidden = steps_s.length < 2;
    // a figure that nobody sees has no height to be drawn in
    if (card.element.hidden || !card.element.checkVisibility()) return;
    card.later(() => {
      const figure = stepsFigure({ steps_s, expected_s: all?.expected_s ?? null, colour });
      put(card.sub, figure.said ?? "");
      return figure;
    });
  }

  /** @param {Run | undefined} run */
  async function update(run) {
    if (shown !== run?.id) card.element.hidden = true;
    shown = run?.id ?? "";
    if (!run) return;
    const id = run.measurement_id;
    if (id && !known.has(run.id)) {
      const found = await api
        .measurement(id)
        .catch((error) => (error instanceof ApiError ? null : Promise.reject(error)));
      if (found) known.set(run.id, { steps_s: found.steps_s, expected_s: found.prediction?.step_time_s ?? null });
    }
    if (shown === run.id) draw(run.id);
  }
  return { element: card.element, update, hear, show: () => shown && draw(shown) };
}
