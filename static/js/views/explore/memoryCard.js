/** The memory figure with its legend, and the table of pipeline stages where there are several. */
import { tokenOf } from "../../figures/base.js";
import { memory } from "../../figures/memory.js";
import { state } from "../../state.js";
import { colour, h, put } from "../common/dom.js";
import { FigureCard } from "../common/figure.js";
import { createScroller } from "../common/scroller.js";
import { tableView } from "../common/table.js";

/** @typedef {import("../../types.js").Estimate} Estimate */

/** @param {{name: () => string}} options */
export function createMemory({ name }) {
  const card = new FigureCard({ id: "memory", title: "Memory", height: 284, span: "w5", name });
  const stages = createScroller("Memory of every stage", "stages");
  card.below.append(stages.element);

  /**
   * @param {Estimate} estimate
   * @param {import("../../types.js").Measurement | null} measurement
   * @param {number} largest_bytes
   */
  function update(estimate, measurement, largest_bytes) {
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
      showStages(estimate);
      const said = [where, figure.said, both && `numbers: predicted / measured, ${figure.scale.unit}`];
      return { ...figure, said: said.filter(Boolean).join("; ") };
    });
  }

  /** @param {Estimate} estimate */
  function showStages({ memory: { stages: all } }) {
    stages.element.hidden = all.length < 2;
    if (stages.element.hidden) return;
    const columns = [
      { title: "stage", text: true },
      { title: "layers" },
      { title: "micro-batches in flight" },
      { title: "peak", unit: "bytes" },
    ];
    const rows = all.map((one) => [String(one.stage + 1), one.layers, one.in_flight, one.peak_bytes]);
    stages.fill(tableView({ columns, rows }));
  }
  return { element: card.element, update };
}
