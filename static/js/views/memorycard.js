// @ts-check
/** The memory figure with its legend, and the table of pipeline stages where there are several. */
import { memoryTokenOf, words } from "../figures/base.js";
import { memory } from "../figures/memory.js";
import { significant } from "../format.js";
import { colour, h, put, swatch } from "./dom.js";
import { FigureCard } from "./figure.js";
import { tableView } from "./table.js";

/** @typedef {import("../types.js").Estimate} Estimate */

/** @param {{name: () => string}} options */
export function createMemory({ name }) {
  const card = new FigureCard({ id: "memory", title: "Memory", height: 284, span: "w5", name });
  const legend = h("div", { class: "legend" });
  const stages = h("div", { class: "scroll" });
  card.below.append(legend, stages);

  /**
   * @param {Estimate} estimate
   * @param {import("../types.js").Measurement | null} measurement
   * @param {number} largest_bytes
   */
  function update(estimate, measurement, largest_bytes) {
    card.later(() => {
      const measured = measurement?.memory ?? null;
      const figure = memory({ memory: estimate.memory, measured, largest_bytes, colour });
      const where = estimate.memory.stages.length > 1 ? "one chip of the fullest stage" : "one chip at the peak";
      put(card.sub, `${where}, ${figure.scale.unit}`);
      const text = (/** @type {string} */ kind, /** @type {number} */ value) =>
        `${words(kind)} ${significant(value / figure.scale.factor)}`;
      legend.replaceChildren(
        ...figure.kinds.map(([kind, value]) => h("span", {}, swatch(memoryTokenOf(kind)), text(kind, value))),
      );
      showStages(estimate);
      return figure;
    });
  }

  /** @param {Estimate} estimate */
  function showStages({ memory: { stages: all } }) {
    stages.replaceChildren();
    if (all.length < 2) return;
    const columns = [
      { title: "stage", text: true },
      { title: "layers" },
      { title: "micro-batches in flight" },
      { title: "peak", unit: "bytes" },
    ];
    const rows = all.map((one) => [String(one.stage + 1), one.layers, one.in_flight, one.peak_bytes]);
    stages.append(tableView({ columns, rows }));
  }
  return { element: card.element, update };
}
