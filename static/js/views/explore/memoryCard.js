/** Memory: by kind at the peak, by pipeline stage where there are several, and over the step. */
import { tokenOf } from "../../figures/base.js";
import { memory } from "../../figures/memory.js";
import { memoryOverTime, stageMemory } from "../../figures/stages.js";
import { state } from "../../state.js";
import { colour, h, put } from "../common/dom.js";
import { FigureCard } from "../common/figure.js";
import { runsNow } from "./timelineCard.js";

/** @typedef {import("../../types.js").Estimate} Estimate */

/** @param {{name: () => string}} options */
export function createMemory({ name }) {
  const card = new FigureCard({ id: "memory", title: "Memory", height: 284, span: "", name });
  const stages = new FigureCard({ id: "stages", title: "By stage", height: 284, span: "", name });
  const time = new FigureCard({ id: "memory-time", title: "Over the step", height: 284, span: "", name });
  const element = h("div", { class: "beside" }, card.element, stages.element, time.element);

  /**
   * @param {Estimate} estimate
   * @param {import("../../types.js").Measurement | null} measurement
   * @param {number} largest_bytes
   */
  function update(estimate, measurement, largest_bytes) {
    showStages(estimate);
    card.later(() => {
      const measured = measurement?.memory ?? null;
      const figure = memory({
        memory: estimate.memory,
        measured,
        kinds: state.catalog.memory_kinds,
        largest_bytes,
        colour,
      });
      const where = estimate.memory.stages.length > 1 ? "one chip of the fullest stage" : "one chip at the peak";
      const both = figure.kinds.some(([, , beside]) => beside);
      put(card.sub, `${where}, ${figure.scale.unit}`);
      card.explain(
        figure.kinds.map(([kind, predicted, beside]) => [
          tokenOf(kind),
          `${kind.label} ${[predicted, beside].filter(Boolean).join(" / ")}`,
        ]),
      );
      if (both) card.legend.append(h("span", { class: "quiet", text: "predicted / measured" }));
      const said = [where, figure.said, both && `numbers: predicted / measured, ${figure.scale.unit}`];
      return { ...figure, said: said.filter(Boolean).join("; ") };
    });
  }

  /** @param {Estimate} estimate */
  function showStages(estimate) {
    stages.element.hidden = estimate.memory.stages.length < 2;
    if (!stages.element.hidden)
      stages.later(() => {
        const figure = stageMemory({ memory: estimate.memory, kinds: state.catalog.memory_kinds, colour });
        put(stages.sub, figure.said ?? "");
        return figure;
      });
    const runs = runsNow().filter(({ drawn }) => drawn.memory.length);
    time.element.hidden = !runs.length;
    if (runs.length)
      time.later(() => {
        const figure = memoryOverTime({ runs, colour });
        put(time.sub, figure.said ?? "");
        return figure;
      });
  }
  return { element, update };
}
